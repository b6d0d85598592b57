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
	ErrNoTenant = errors.New("no tenant: the credentials carry none and the server has no default tenant for them")
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
	// Authenticated is the tenant of the credentials, set once by authentication.
	// Impersonation, which replaces the user, does not change it.
	Authenticated Name
	// Own is whether the server itself sends the request, as its own tokens say. Only authentication sets it.
	Own bool
	// Impersonated are the extras that the headers give to an impersonated user, by their keys, as upstream reads them.
	// They are what the client says, whether or not it may.
	Impersonated map[string][]string
	// uid is the UID of the tenant Authenticated for which the credentials were checked,
	// empty if there was none of that name.
	uid *types.UID
	// namespace is the UID of the namespace for which the request was authorized, empty if there was none, nil
	// if the request is about none.
	namespace *types.UID
	// admitted is the foreign tenant whose user a policy of Requested lets in.
	admitted Name
}

// Becomes returns the tenant of the user that a request impersonates, as its headers say, empty if they name none.
func (r *Request) Becomes() (Name, error) {
	return OfUser(&user.DefaultInfo{Extra: r.Impersonated})
}

// NoteUID notes the UID of the tenant of the credentials, as it was before they were
// checked, and reports whether it is the one that was noted first: a tenant can be
// deleted and created again meanwhile. Only authentication calls it.
func (r *Request) NoteUID(uid types.UID) bool {
	if r == nil {
		return true
	}
	if r.uid == nil {
		r.uid = &uid
	}
	return *r.uid == uid
}

// HasUID reports whether the credentials were checked for the tenant with a UID. It is
// false for credentials that were not checked.
func (r *Request) HasUID(uid types.UID) bool { return r != nil && r.uid != nil && *r.uid == uid }

// NoteNamespace notes the UID of the namespace for which a request was authorized, empty if there was none.
func (r *Request) NoteNamespace(uid types.UID) { r.namespace = &uid }

// Namespace returns what was noted, and whether something was.
func (r *Request) Namespace() (uid types.UID, noted bool) {
	if r == nil || r.namespace == nil {
		return "", false
	}
	return *r.namespace, true
}

// Admit notes that a policy of the requested space lets a user of tenant n in. Only the
// authorizer calls it, once it has allowed the request. Later checks of rights must call
// Foreign before ScopeFrom: the user is not the space's own user of that name.
func (r *Request) Admit(n Name) {
	if r.admitted == "" {
		r.admitted = n
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
		// Anybody who impersonates by the former name means a user of that tenant, and no other.
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

// UserTenant returns the tenant of the user in effect in ctx: that of the user
// itself or, after impersonation of a user without one, of the impersonator.
func UserTenant(ctx context.Context) (Name, error) {
	u, _ := request.UserFrom(ctx)
	n, err := OfUser(u)
	if err != nil || n != "" {
		return n, err
	}
	if r := RequestFrom(ctx); r != nil && r.Authenticated != "" {
		return r.Authenticated, nil
	}
	return "", ErrNoTenant
}

// ByPlatform reports whether the user of the request in ctx is one of the system tenant: an administrator of the
// platform, or one of its controllers.
func ByPlatform(ctx context.Context) bool {
	n, err := UserTenant(ctx)
	return err == nil && n == System
}

// Foreign reports whether the user of the request in ctx belongs to another tenant
// than the space that the request names, admitted or not, and returns both tenants. It is
// false where no policy can apply: for system users, users without tenant, and
// everything that is not a tenant's space.
func Foreign(ctx context.Context) (user, space Name, foreign bool) {
	r := RequestFrom(ctx)
	if r == nil {
		return "", "", false
	}
	space, of := r.Requested.Tenant()
	user, err := UserTenant(ctx)
	if !of || err != nil || !user.IsSpace() || user == space {
		return "", "", false
	}
	if r.Authenticated != System && r.Authenticated != user {
		return "", "", false // impersonated out of its tenant
	}
	return user, space, true
}
