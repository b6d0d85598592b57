package quota

import (
	"testing"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"

	"github.com/tenantry/tenantry/internal/tenant"
)

// TestUnlimited checks what is counted without being held to the limits of a tenant: a pod whose binding or status were
// refused would run, and count for what its space has been told.
func TestUnlimited(t *testing.T) {
	for _, tc := range []struct {
		by          tenant.Name
		subresource string
		want        bool
	}{
		{tenant.System, "status", true}, {tenant.System, "binding", true}, {tenant.System, "eviction", true},
		{tenant.System, "", false}, {tenant.System, "resize", false}, {tenant.System, "ephemeralcontainers", false},
		{"acme", "status", false}, {"acme", "binding", false}, {"acme", "eviction", true}, {"acme", "resize", false},
	} {
		ctx := request.WithUser(t.Context(), &user.DefaultInfo{Name: "jane", Extra: map[string][]string{tenant.UserExtraKey: {string(tc.by)}}})
		ctx = request.WithRequestInfo(ctx, &request.RequestInfo{Subresource: tc.subresource})
		if got := unlimited(ctx); got != tc.want {
			t.Errorf("%q by a user of %q: %v, want %v", tc.subresource, tc.by, got, tc.want)
		}
	}
}
