package tenant

import (
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
)

// builtin are the resources of the built-in groups.
var builtin = sync.OnceValue(func() map[schema.GroupResource]struct{} {
	resources := make(map[schema.GroupResource]struct{})
	for kind := range legacyscheme.Scheme.AllKnownTypes() {
		plural, _ := meta.UnsafeGuessKindToResource(kind)
		resources[plural.GroupResource()] = struct{}{}
	}
	return resources
})

// isServed reports whether there is a resource in a built-in group, and true for all
// other groups: spaces define what is in these.
func isServed(r schema.GroupResource) bool {
	if !legacyscheme.Scheme.IsGroupRegistered(r.Group) {
		return true
	}
	_, ok := builtin()[r]
	return ok
}
