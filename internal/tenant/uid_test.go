package tenant

import (
	"context"
	"testing"

	"k8s.io/apimachinery/pkg/types"
)

func TestUIDFrom(t *testing.T) {
	for name, tc := range map[string]struct {
		ctx  context.Context
		of   Name
		want types.UID
		ok   bool
	}{
		"of the tenant":        {ctx: WithUID(t.Context(), "a", "1"), of: "a", want: "1", ok: true},
		"of another tenant":    {ctx: WithUID(t.Context(), "a", "1"), of: "b"},
		"of no tenant":         {ctx: WithUID(t.Context(), "a", "1"), of: ""},
		"without a UID":        {ctx: WithUID(t.Context(), "a", ""), of: "a"},
		"of another, no UID":   {ctx: WithUID(t.Context(), "a", ""), of: "b"},
		"nobody was admitted":  {ctx: t.Context(), of: "a"},
		"nobody, of no tenant": {ctx: t.Context(), of: ""},
	} {
		t.Run(name, func(t *testing.T) {
			uid, ok := UIDFrom(tc.ctx, tc.of)
			if ok != tc.ok {
				t.Errorf("got %t, want %t", ok, tc.ok)
			}
			if uid != tc.want {
				t.Errorf("got the UID %q, want %q", uid, tc.want)
			}
		})
	}
}
