package tenant

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestWithoutOurs(t *testing.T) {
	got := WithoutOurs(map[string]string{
		"plain": "1", "example.com/team": "2", "nottenantry.io/x": "3", "x.multi-tenancy.k8s.io/x": "4",
		"tenantry.io": "5", "tenantry.io/keystone": "6", "sub.tenantry.io/y": "7", "multi-tenancy.k8s.io/scope": "8",
	})
	want := map[string]string{"plain": "1", "example.com/team": "2", "nottenantry.io/x": "3", "x.multi-tenancy.k8s.io/x": "4"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}
	if got := WithoutOurs(nil); got == nil {
		t.Error("nothing can be added to what is left of nil")
	}
}
