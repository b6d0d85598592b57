package tenant

import (
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// FlatSeparator joins tenant and name in a flattened name. It is valid in no name of a
// namespace, and filters.WithNamespace refuses it in the namespace of a URL, so a flattened one can
// neither be sent by a client nor be mistaken for an ordinary one.
const FlatSeparator = "|"

// Flat is the name by which upstream code that serves every space at once knows a
// namespace (or cluster-scoped object) of a space: "acme|default". Names of the system
// space stay as they are, but for those that would read as another space's: an object of RBAC
// may be called "acme|x", and is "system|acme|x". Upstream's objects hold a flattened name as
// a string: Flat(object.Namespace).
type Flat string

// Flatten returns the flattened form of a name in the space of n. The empty name, which
// means every namespace, stays empty.
func Flatten(n Name, name string) Flat {
	if n == "" || name == "" || n == System && !strings.Contains(name, FlatSeparator) {
		return Flat(name)
	}
	return Flat(string(n) + FlatSeparator + name)
}

// FlattenObject gives an object of the space of n its flattened namespace or, if it has none, name.
func FlattenObject(n Name, o metav1.Object) {
	if namespace := o.GetNamespace(); namespace != "" {
		o.SetNamespace(Flatten(n, namespace).String())
	} else {
		o.SetName(Flatten(n, o.GetName()).String())
	}
}

// Split is the inverse of Flatten.
func (f Flat) Split() (n Name, name string) {
	if t, name, ok := strings.Cut(string(f), FlatSeparator); ok {
		return Name(t), name
	}
	return System, string(f)
}

// Space returns the space that f is a name of.
func (f Flat) Space() Name {
	n, _ := f.Split()
	return n
}

// Tenant returns the tenant in whose space f is a name, if it is one of a tenant's space.
func (f Flat) Tenant() (Name, bool) {
	n := f.Space()
	return n, n.IsSpace()
}

// Plain returns the name that f has in its space.
func (f Flat) Plain() string {
	_, name := f.Split()
	return name
}

// String returns f as upstream's objects hold it.
func (f Flat) String() string { return string(f) }

// writtenSeparators are the separator as texts have it: as it is and, in an error that names
// the URL of a request, escaped.
var writtenSeparators = []string{FlatSeparator, "%7C", "%7c"}

// PlainText returns text for people with the plain names of the space of n in place of
// flattened ones.
func PlainText(text string, n Name) string {
	if !n.IsSpace() {
		return text
	}
	for _, separator := range writtenSeparators {
		text = withoutPrefix(text, string(n)+separator)
	}
	return text
}

// withoutPrefix returns text with names without a prefix, which ends in a separator.
func withoutPrefix(text, prefix string) string {
	var plain strings.Builder
	for {
		before, after, found := strings.Cut(text, prefix)
		plain.WriteString(before)
		if !found {
			return plain.String()
		}
		if endsInLabel(before) { // another, longer tenant's name
			plain.WriteString(prefix)
		}
		text = after
	}
}

// endsInLabel reports whether what follows s continues a label.
func endsInLabel(s string) bool {
	if s == "" || endsInEscape(s) {
		return false
	}
	last := s[len(s)-1]
	return last == '-' || '0' <= last && last <= '9' || 'a' <= last && last <= 'z'
}

// endsInEscape reports whether s ends in an escaped character, as a query of a URL (%3D, %20)
// or a quoted text (\n) has it: its last letter or digit is no part of a name.
func endsInEscape(s string) bool {
	if n := len(s); n >= 3 && s[n-3] == '%' {
		return true
	}
	return strings.HasSuffix(s, `\n`) || strings.HasSuffix(s, `\t`)
}
