package follow

import (
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/client-go/tools/cache"

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

// noting is an index that notes the versions of its objects.
type noting struct {
	cache.ReflectorStore
	seen *progress.Progress
}

// Add implements cache.ReflectorStore.
func (n noting) Add(obj any) error { return n.note(obj, n.ReflectorStore.Add(obj)) }

// Update implements cache.ReflectorStore.
func (n noting) Update(obj any) error { return n.note(obj, n.ReflectorStore.Update(obj)) }

// Delete implements cache.ReflectorStore.
func (n noting) Delete(obj any) error { return n.note(obj, n.ReflectorStore.Delete(obj)) }

// Replace implements cache.ReflectorStore.
func (n noting) Replace(objs []any, version string) error {
	err := n.ReflectorStore.Replace(objs, version)
	if err == nil {
		n.seen.Note(version)
	}
	return err
}

func (n noting) note(obj any, err error) error {
	if accessor, missing := meta.Accessor(obj); err == nil && missing == nil {
		n.seen.Note(accessor.GetResourceVersion())
	}
	return err
}
