package accesspolicy

import (
	"slices"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	rbacv1 "k8s.io/api/rbac/v1"
)

// verbs are all that can be granted. Others (impersonate, escalate, bind, approve,
// sign, attest) give the rights of somebody else.
var verbs = []string{"get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"}

// Grantable reports whether a verb on a resource (with a subresource after a
// slash) can be granted to another tenant's users at all. What would make them
// users of the space, or let them give rights in it, cannot.
func Grantable(verb, group, resource string) bool {
	if !slices.Contains(verbs, verb) {
		return false
	}
	reads := verb == "get" || verb == "list" || verb == "watch"
	switch group {
	case authenticationv1.GroupName, authorizationv1.GroupName:
		return false
	case rbacv1.GroupName, certificatesv1.GroupName:
		return reads
	case Resource.Group:
		resource, _, _ = strings.Cut(resource, "/")
		return reads || resource != Resource.Resource && resource != "users"
	case "":
		return resource != "serviceaccounts/token"
	default:
		return true
	}
}
