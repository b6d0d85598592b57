package flowcontrol

import (
	"cmp"
	"context"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"

	"github.com/tenantry/tenantry/internal/tenant"
)

const (
	// tenantsGroup is the group of every tenant in FlowSchemas.
	tenantsGroup = "tenantry:tenants"
	// largeGroup is also the group of every tenant for large reads.
	largeGroup = "tenantry:large"
	// tenantUserPrefix is the prefix of a tenant's user name in FlowSchemas.
	tenantUserPrefix = "tenant:"
)

// chargedTenant returns the tenant whose flow and limits a request counts for: that of the
// credentials, whatever its space and impersonated user or, if a system user
// impersonates, that of the impersonated user. It is empty if there is none.
func chargedTenant(ctx context.Context) tenant.Name {
	r := tenant.RequestFrom(ctx)
	switch {
	case r == nil:
		return ""
	case r.Authenticated != tenant.System:
		return r.Authenticated
	}
	u, _ := request.UserFrom(ctx)
	n, err := tenant.OfUser(u)
	if err != nil {
		return ""
	}
	return cmp.Or(n, tenant.System)
}

var (
	tenantGroups = []string{tenantsGroup, user.AllAuthenticated}
	largeGroups  = []string{tenantsGroup, largeGroup, user.AllAuthenticated}
	anonymous    = &user.DefaultInfo{Name: user.Anonymous, Groups: []string{user.AllUnauthenticated}}
)

// flowUser returns the user by which priority and fairness classifies a request of u that is
// charged to n, and distinguishes flows.
func flowUser(n tenant.Name, class class, u user.Info) user.Info {
	switch {
	case n == tenant.System:
		return u
	case n == "":
		return anonymous
	case class == largeRead:
		return &user.DefaultInfo{Name: tenantUserPrefix + string(n), Groups: largeGroups}
	default:
		return &user.DefaultInfo{Name: tenantUserPrefix + string(n), Groups: tenantGroups}
	}
}
