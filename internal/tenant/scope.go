package tenant

import (
	"context"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
)

// Scope says which spaces a request, a list or a range of keys is about: one space, All or
// Everything. The zero value is none.
type Scope string

const (
	// All stands in a URL for every tenant's space at once. It is reserved: no
	// tenant can have this name.
	All Scope = "all"
	// Everything stands for every space including the system space. It is no valid name,
	// cannot be requested by users and is for the shared views of the server's own
	// components.
	Everything Scope = "*"
)

// parseScope returns s, as it stands in a full path, as a scope: the name of a space,
// or All.
func parseScope(s string) (Scope, error) {
	if Scope(s) == All {
		return All, nil
	}
	n, err := Parse(s)
	return n.Scope(), err
}

// Space returns the space that s is about, if it is one space.
func (s Scope) Space() (Name, bool) {
	if s == "" || s.IsMany() {
		return "", false
	}
	return Name(s), true
}

// Tenant returns the tenant whose space s is about, if it is one tenant's space.
func (s Scope) Tenant() (Name, bool) {
	n, one := s.Space()
	return n, one && n != System
}

// Root returns the URL path of s, below which ordinary paths are about s.
func (s Scope) Root() string { return rootPath + string(s) }

// IsMany reports whether s is about many spaces at once.
func (s Scope) IsMany() bool { return s == All || s == Everything }

// String returns s as it stands in a URL.
func (s Scope) String() string { return string(s) }

// Effective returns the scope that a request acts in. u is the user in effect, after
// impersonation.
//
// It returns ErrNoTenant if neither the request nor its user names one, and ErrForeign if a
// tenant's user, or a user it impersonates, would leave its space.
func (r *Request) Effective(u user.Info) (Scope, error) {
	n, err := OfUser(u)
	if err != nil {
		return "", err
	}
	if r == nil {
		return "", ErrNoTenant
	}
	switch {
	case n == "":
		n = r.Authenticated
	case r.Authenticated != System && r.Authenticated != n:
		return "", ErrForeign
	}
	switch {
	case n == "":
		return "", ErrNoTenant
	case r.Requested == "":
		return n.Scope(), nil
	case n != System && r.Requested != n.Scope() && r.admitted != n:
		return "", ErrForeign
	default:
		return r.Requested, nil
	}
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
