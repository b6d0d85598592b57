package admission

import (
	"context"

	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/request"

	"github.com/tenantry/tenantry/internal/tenant"
)

// spaceAuthorizer authorizes for the expressions of a space. CEL calls it without the
// request's context, and about any user.
type spaceAuthorizer struct {
	next   authorizer.UnconditionalAuthorizer
	tenant tenant.Name
}

// Authorize decides about a request of the user of a in the space. A user without
// tenant, such as a service account that an expression names, belongs to the space.
func (s spaceAuthorizer) Authorize(ctx context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	if u, ok := a.GetUser().(platformUser); ok {
		return s.authorizePlatform(ctx, a, u)
	}
	n, err := tenant.OfUser(a.GetUser())
	if err != nil {
		return authorizer.DecisionDeny, err.Error(), nil
	}
	if n == "" {
		n = s.tenant
	}
	return s.authorizeAs(ctx, a, n)
}

func (s spaceAuthorizer) authorizeAs(ctx context.Context, a authorizer.Attributes, userTenant tenant.Name) (authorizer.Decision, string, error) {
	ctx = tenant.WithRequest(ctx, &tenant.Request{Requested: s.tenant.Scope(), Authenticated: userTenant})
	return s.next.Authorize(request.WithUser(ctx, a.GetUser()), a)
}

// plainNamespaces authorizes for plugins with flattened names, in the space of the
// context.
type plainNamespaces struct {
	next authorizer.UnconditionalAuthorizer
}

// Authorize implements authorizer.UnconditionalAuthorizer.
func (p plainNamespaces) Authorize(ctx context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	return p.next.Authorize(ctx, plainAttributes{a})
}

type plainAttributes struct{ authorizer.Attributes }

// GetNamespace returns the plain namespace.
func (a plainAttributes) GetNamespace() string {
	return tenant.Flat(a.Attributes.GetNamespace()).Plain()
}
