package tenant

import "strings"

// flatSeparator joins tenant and name in a flattened name. It is valid in no
// Kubernetes name, so a flattened name can neither be sent by a client nor be
// mistaken for an ordinary one.
const flatSeparator = "|"

// Flatten returns the name by which upstream code that serves every space at
// once knows namespace (or cluster-scoped object) name of the space of n:
// "acme|default". Names of the system space, and the empty name, stay as they are.
func Flatten(n Name, name string) string {
	if n == System || n == "" || name == "" {
		return name
	}
	return string(n) + flatSeparator + name
}

// Unflatten is the inverse of Flatten.
func Unflatten(flat string) (n Name, name string) {
	if t, name, ok := strings.Cut(flat, flatSeparator); ok {
		return Name(t), name
	}
	return System, flat
}
