package follow

import (
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"

	"github.com/tenantry/tenantry/internal/progress"
)

// Await makes writers of a resource wait until the index of seen has what they have
// written, so that the next decision takes it into account. Other replicas have it a moment
// later.
func Await(store *genericregistry.Store, seen *progress.Progress) {
	store.AfterCreate = func(obj runtime.Object, _ *metav1.CreateOptions) { Wait(obj, seen) }
	store.AfterUpdate = func(obj runtime.Object, _ *metav1.UpdateOptions) { Wait(obj, seen) }
	store.AfterDelete = func(obj runtime.Object, _ *metav1.DeleteOptions) { Wait(obj, seen) }
}

// Wait waits until the index of seen has a stored object. It is for deletions that
// only mark an object, after which upstream does not call AfterDelete.
func Wait(obj runtime.Object, seen *progress.Progress) {
	if accessor, err := meta.Accessor(obj); err == nil {
		seen.Wait(accessor.GetResourceVersion())
	}
}
