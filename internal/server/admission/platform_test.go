package admission

import (
	"context"
	"errors"
	"testing"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/tenantry/tenantry/internal/tenant"
)

// TestPlatformRights asks as an expression of a tenant's policy does.
func TestPlatformRights(t *testing.T) {
	somebody := &user.DefaultInfo{Name: "system:apiserver", Groups: []string{user.SystemPrivilegedGroup}}
	s := spaceAuthorizer{tenant: "a", next: authorizer.AuthorizerFunc(func(ctx context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
		userTenant, err := tenant.UserTenant(ctx)
		if err != nil || userTenant != tenant.System || a.GetUser() != user.Info(somebody) {
			t.Errorf("asked about %v of tenant %q, error %v", a.GetUser(), userTenant, err)
		}
		if space, err := tenant.SpaceFrom(ctx); err != nil || space != "a" {
			t.Errorf("asked in space %q, error %v", space, err)
		}
		return authorizer.DecisionAllow, "because of system:apiserver", errors.New("not found: system:apiserver")
	})}
	decision, reason, err := s.Authorize(t.Context(), authorizer.AttributesRecord{User: platformUser{real: somebody}})
	if decision != authorizer.DecisionAllow || reason != "" || err != errNotDecided { //nolint:errorlint // exactly this one
		t.Errorf("got %v, %q, %v", decision, reason, err)
	}
}
