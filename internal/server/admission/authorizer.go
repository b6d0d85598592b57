package admission

import (
	"context"

	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/request"

	"github.com/tenantry/tenantry/internal/tenant"
)

// inSpace answers the questions of a space's expressions: CEL asks without the
// request's context, and about any user.
type inSpace struct {
	next   authorizer.UnconditionalAuthorizer
	tenant tenant.Name
}

// Authorize decides what the user of a may do in the space. A user that carries
// no tenant, such as a service account an expression names, is one of the space.
func (s inSpace) Authorize(ctx context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	if u, ok := a.GetUser().(platformUser); ok {
		return s.authorizePlatform(ctx, a, u)
	}
	own, err := tenant.OfUser(a.GetUser())
	if err != nil {
		return authorizer.DecisionDeny, err.Error(), nil
	}
	if own == "" {
		own = s.tenant
	}
	return s.authorizeAs(ctx, a, own)
}

func (s inSpace) authorizeAs(ctx context.Context, a authorizer.Attributes, own tenant.Name) (authorizer.Decision, string, error) {
	ctx = tenant.WithRequest(ctx, &tenant.Request{Requested: s.tenant.Scope(), Authenticated: own})
	return s.next.Authorize(request.WithUser(ctx, a.GetUser()), a)
}

// plainNamespaces answers the questions of plugins that know flattened names, about a
// request in the space of the context.
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
