package kubecontrollers

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/tenantry/tenantry/internal/spaces"
)

func TestQuiet(t *testing.T) {
	for name, tc := range map[string]struct {
		err  error
		want bool
	}{
		"a failure": {err: errors.New("conflict"), want: true},
		"no error":  {want: true},
		// Upstream formats it without wrapping it.
		"what is postponed": {err: fmt.Errorf("error syncing item %s: %v", "x", fmt.Errorf("tenant %q: %w", "a", spaces.ErrNotInTurn))}, //nolint:errorlint // so does upstream
	} {
		t.Run(name, func(t *testing.T) {
			logged := false
			Quiet(func(context.Context, error, string, ...any) { logged = true })(t.Context(), tc.err, "Unhandled Error")
			if logged != tc.want {
				t.Errorf("logged %v, want %v", logged, tc.want)
			}
		})
	}
}
