package tenant

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
)

var (
	// ErrNoTenant means that neither the request nor its user says which space
	// is meant. It is never read as the system space.
	ErrNoTenant = errors.New("no tenant: the credentials carry none and the server has no default tenant")
	// ErrForeign means that a tenant's user named a space that is not its own.
	ErrForeign = errors.New("access to this tenant is not allowed")
	// ErrManySpaces means that a request is about many spaces that can be about one only.
	ErrManySpaces = errors.New("all tenants can be listed and watched only; name one tenant")
)

// Request is what one HTTP request says about tenants. A pointer to it travels
// in the request's context from the outermost filter on, because the filters
// after authentication cannot add to the context of those before it.
type Request struct {
	// Requested is what the URL names, empty for a short path.
	Requested Scope
	// Authenticated is the tenant of the credentials, set once by
	// authentication. It outlives impersonation, which replaces the user.
	Authenticated Name
	// life is the UID of the tenant Authenticated for which the credentials were checked,
	// empty if there was none of that name.
	life *types.UID
	// admitted is the tenant whose user a policy of Requested lets in.
	admitted Name
}

// NoteLife notes the UID of the tenant of the credentials, as it was before they were
// checked, and reports whether it is the one that was noted first: a tenant can be
// deleted and made again meanwhile. Only authentication calls it.
func (r *Request) NoteLife(uid types.UID) bool {
	if r == nil {
		return true
	}
	if r.life == nil {
		r.life = &uid
	}
	return *r.life == uid
}

// IsOfLife reports whether the credentials were checked for the tenant of a UID. It is
// false for credentials that nobody checked.
func (r *Request) IsOfLife(uid types.UID) bool { return r != nil && r.life != nil && *r.life == uid }

// Admit notes that a policy of the requested space lets a user of tenant own in.
// Only the authorizer calls it, once it has allowed the request. Whatever asks
// about rights afterwards must use Foreign before ScopeFrom: within the space, the
// user is still somebody else than the space's own user of that name.
func (r *Request) Admit(own Name) {
	if r.admitted == "" {
		r.admitted = own
	}
}

type requestKey struct{}

// WithRequest returns a context that carries r.
func WithRequest(ctx context.Context, r *Request) context.Context {
	return context.WithValue(ctx, requestKey{}, r)
}

// RequestFrom returns the Request of ctx, or nil.
func RequestFrom(ctx context.Context) *Request {
	r, _ := ctx.Value(requestKey{}).(*Request)
	return r
}

// WithSpace returns a context whose requests act in the space of t, for callers
// inside the server that have no HTTP request.
func WithSpace(ctx context.Context, t Name) context.Context {
	return WithScope(ctx, t.Scope())
}

// WithScope is WithSpace for lists and watches of many spaces.
func WithScope(ctx context.Context, s Scope) context.Context {
	return WithRequest(ctx, &Request{Requested: s, Authenticated: System})
}

// OfUser returns the tenant that a user's extra carries, empty if it has none.
func OfUser(u user.Info) (Name, error) {
	if u == nil {
		return "", nil
	}
	switch values := u.GetExtra()[UserExtraKey]; len(values) {
	case 0:
		// Whoever impersonates by the former name means a user of that tenant, and no other.
		if _, ok := u.GetExtra()[formerUserExtraKey]; ok {
			return "", fmt.Errorf("the extra %q of user %q is called %q", formerUserExtraKey, u.GetName(), UserExtraKey)
		}
		return "", nil
	case 1:
		return Parse(values[0])
	default:
		return "", fmt.Errorf("user %q has %d tenants", u.GetName(), len(values))
	}
}

// Effective returns the scope that a request acts in: the URL resolution of
// arktos-api-resource-model, with the boundary of arktos-access-control. u is
// the user in effect, after impersonation.
//
// It returns ErrNoTenant where there is none to be found and ErrForeign where a
// tenant's user, or a user it impersonates, would leave its space.
func (r *Request) Effective(u user.Info) (Scope, error) {
	own, err := OfUser(u)
	if err != nil {
		return "", err
	}
	if r == nil {
		return "", ErrNoTenant
	}
	switch {
	case own == "":
		own = r.Authenticated
	case r.Authenticated != System && r.Authenticated != own:
		return "", ErrForeign
	}
	switch {
	case own == "":
		return "", ErrNoTenant
	case r.Requested == "":
		return own.Scope(), nil
	case own != System && r.Requested != own.Scope() && r.admitted != own:
		return "", ErrForeign
	default:
		return r.Requested, nil
	}
}

// UserTenant returns the tenant of the user in effect in ctx: that of the user
// itself or, after impersonation of a user without one, of the impersonator.
func UserTenant(ctx context.Context) (Name, error) {
	u, _ := request.UserFrom(ctx)
	own, err := OfUser(u)
	if err != nil || own != "" {
		return own, err
	}
	if r := RequestFrom(ctx); r != nil && r.Authenticated != "" {
		return r.Authenticated, nil
	}
	return "", ErrNoTenant
}

// Foreign reports whether the request in ctx is that of a user of another tenant
// than the one whose space it names, admitted or not, and returns both. It is
// false where there is nothing that a policy could be about: for system users,
// users without tenant, and what is no tenant's space.
func Foreign(ctx context.Context) (own, space Name, foreign bool) {
	r := RequestFrom(ctx)
	if r == nil {
		return "", "", false
	}
	space, of := r.Requested.Tenant()
	own, err := UserTenant(ctx)
	if !of || err != nil || !own.IsSpace() || own == space {
		return "", "", false
	}
	if r.Authenticated != System && r.Authenticated != own {
		return "", "", false // impersonated out of its tenant
	}
	return own, space, true
}

// ScopeFrom returns the effective scope of the request in ctx.
func ScopeFrom(ctx context.Context) (Scope, error) {
	u, _ := request.UserFrom(ctx)
	return RequestFrom(ctx).Effective(u)
}

// SpaceFrom returns the one space that the request in ctx acts in, and ErrManySpaces if
// there are many.
func SpaceFrom(ctx context.Context) (Name, error) {
	s, err := ScopeFrom(ctx)
	if err != nil {
		return "", err
	}
	n, one := s.Space()
	if !one {
		return "", ErrManySpaces
	}
	return n, nil
}
