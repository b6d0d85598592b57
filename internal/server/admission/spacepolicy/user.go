package spacepolicy

import (
	"context"

	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/tenantry/tenantry/internal/server/authentication/identity"
	"github.com/tenantry/tenantry/internal/tenant"
)

// withTenant returns a request whose user carries its tenant. One who is impersonated, such as the publisher, has none
// of its own, and is of the tenant of who impersonates it, as tenant.UserTenant says.
func withTenant(ctx context.Context, a admission.Attributes) admission.Attributes {
	u, r := a.GetUserInfo(), tenant.RequestFrom(ctx)
	if n, err := tenant.OfUser(u); u == nil || err != nil || n != "" || r == nil || r.Authenticated == "" {
		return a
	}
	return ofTenant{a, r.Authenticated}
}

// ofTenant is a request of a tenant.
type ofTenant struct {
	admission.Attributes
	by tenant.Name
}

// GetUserInfo implements admission.Attributes.
func (a ofTenant) GetUserInfo() user.Info { return identity.Of(a.Attributes.GetUserInfo(), a.by) }
