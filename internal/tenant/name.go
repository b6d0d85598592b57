package tenant

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
)

// Name is the name of a tenant, and of its space. The zero value names no tenant. A request
// may be about many spaces, see Scope.
type Name string

// System is the tenant of the platform's own users, and the name of the system
// space: everything outside tenant spaces.
const System Name = "system"

// Platform is the name by which a space's own webhooks and policies know every
// user of the system tenant who acts in the space: controllers, administrators,
// nodes. It comes without UID, groups and extra. No tenant has a user of this name.
const Platform = "system:tenantry"

// Namespaces are the namespaces that every space has.
var Namespaces = []string{metav1.NamespaceDefault, metav1.NamespaceSystem, metav1.NamespacePublic, corev1.NamespaceNodeLease}

// Parse returns s as the name of a tenant, which may be System.
func Parse(s string) (Name, error) {
	switch {
	case !isLabel(s):
		return "", fmt.Errorf("invalid tenant name %q: %s", s, strings.Join(validation.IsDNS1123Label(s), "; "))
	case Scope(s) == All:
		return "", fmt.Errorf(`invalid tenant name %q: "all" is reserved: in a URL it stands for every tenant`, s)
	}
	return Name(s), nil
}

// isLabel reports whether s is a DNS label. It is called several times per request, for
// which upstream's regular expression is too slow.
func isLabel(s string) bool {
	if len(s) == 0 || len(s) > validation.DNS1123LabelMaxLength || s[0] == '-' || s[len(s)-1] == '-' {
		return false
	}
	for i := range len(s) {
		if c := s[i]; (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' {
			return false
		}
	}
	return true
}

// IsSpace reports whether n names a tenant's space: not the system space, and nothing
// that only a Scope can be, such as "all".
func (n Name) IsSpace() bool {
	_, ok := n.Scope().Tenant()
	return ok
}

// Root returns the URL path of the space of n, below which ordinary paths are about it.
func (n Name) Root() string { return n.Scope().Root() }

// Scope returns the scope of the one space of n.
func (n Name) Scope() Scope { return Scope(n) }

// String returns the name.
func (n Name) String() string { return string(n) }
