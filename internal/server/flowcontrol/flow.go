package flowcontrol

import (
	"context"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"

	"github.com/tenantry/tenantry/internal/tenant"
)

const (
	// TenantsGroup is the group of every tenant in FlowSchemas.
	TenantsGroup = "tenantry:tenants"
	// LargeGroup is, in addition, the group of their requests that read much.
	LargeGroup = "tenantry:large"
	// TenantUserPrefix begins the user name of a tenant in FlowSchemas.
	TenantUserPrefix = "tenant:"
)

// payer returns the tenant that a request counts for: that of the credentials,
// whatever space it acts in and whomever it impersonates, or for a system user
// that impersonates, that of the impersonated user. It is empty if there is none.
func payer(ctx context.Context) tenant.Name {
	r := tenant.RequestFrom(ctx)
	if r == nil || r.Authenticated != tenant.System {
		return authenticated(r)
	}
	u, _ := request.UserFrom(ctx)
	own, err := tenant.OfUser(u)
	switch {
	case err != nil:
		return ""
	case own == "":
		return tenant.System
	default:
		return own
	}
}

func authenticated(r *tenant.Request) tenant.Name {
	if r == nil {
		return ""
	}
	return r.Authenticated
}

var (
	tenantGroups = []string{TenantsGroup, user.AllAuthenticated}
	largeGroups  = []string{TenantsGroup, LargeGroup, user.AllAuthenticated}
	anonymous    = &user.DefaultInfo{Name: user.Anonymous, Groups: []string{user.AllUnauthenticated}}
)

// flowUser returns the user by which priority and fairness classifies a request
// of u that n pays for, and tells flows apart.
func flowUser(n tenant.Name, class class, u user.Info) user.Info {
	switch {
	case n == tenant.System:
		return u
	case n == "":
		return anonymous
	case class == largeRead:
		return &user.DefaultInfo{Name: TenantUserPrefix + string(n), Groups: largeGroups}
	default:
		return &user.DefaultInfo{Name: TenantUserPrefix + string(n), Groups: tenantGroups}
	}
}
