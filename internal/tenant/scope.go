package tenant

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
