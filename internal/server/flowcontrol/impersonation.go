package flowcontrol

import (
	"context"
	"strings"

	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/tenantry/tenantry/internal/process/keyed"
	"github.com/tenantry/tenantry/internal/tenant"
)

// InTurn is an authorizer by which the users of a tenant are authorized to impersonate one after the other. Each impersonated
// group and extra value is authorized separately, before the request has a seat, and the cost grows with the RBAC objects of the
// tenant. So a tenant has one such check at a time.
func InTurn(delegate authorizer.Authorizer) authorizer.Authorizer {
	turns := keyed.Turns[tenant.Name]{Each: 1}
	return authorizer.AuthorizerFunc(func(ctx context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
		n := chargedTenant(ctx)
		if !strings.HasPrefix(a.GetVerb(), "impersonate") || !n.IsSpace() {
			return delegate.Authorize(ctx, a)
		}
		release, err := turns.Take(ctx, n)
		if err != nil {
			return authorizer.DecisionDeny, "", err
		}
		defer release()
		return delegate.Authorize(ctx, a)
	})
}
