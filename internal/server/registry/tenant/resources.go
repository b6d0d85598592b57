package tenant

import (
	"reflect"
	"sync"

	extensions "k8s.io/api/extensions/v1beta1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kubernetes/pkg/api/legacyscheme"

	"github.com/tenantry/tenantry/internal/server/spaceapi"
)

// builtin are the resources of the built-in groups that are stored. Their types have
// ObjectMeta and a list: those of lists, options and events of watches have no
// ObjectMeta, those of reviews, scales and bindings no list.
var builtin = sync.OnceValue(func() map[schema.GroupResource]struct{} {
	resources := make(map[schema.GroupResource]struct{})
	for kind, of := range legacyscheme.Scheme.AllKnownTypes() {
		_, isObject := reflect.New(of).Interface().(metav1.ObjectMetaAccessor)
		if isObject && legacyscheme.Scheme.Recognizes(kind.GroupVersion().WithKind(kind.Kind+"List")) {
			plural, _ := meta.UnsafeGuessKindToResource(kind)
			resources[plural.GroupResource()] = struct{}{}
		}
	}
	return resources
})

// IsCounted reports whether spaces may have objects of a resource in a built-in group,
// and true for all other groups: spaces define what is in these.
func IsCounted(r schema.GroupResource) bool {
	if spaceapi.Use("create", r, "") != nil {
		return false
	}
	if !legacyscheme.Scheme.IsGroupRegistered(r.Group) {
		return true
	}
	if r.Group == extensions.GroupName { // known to old clients, and served no more
		return false
	}
	_, ok := builtin()[r]
	return ok
}
