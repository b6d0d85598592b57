package follow

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"

	"github.com/tenantry/tenantry/internal/progress"
)

// Object is a pointer to a type of the API.
type Object interface {
	runtime.Object
	metav1.Object
}

// Index is told of the objects of a resource.
type Index[T Object] interface {
	// Set is called with a new object, or another version of one.
	Set(obj T)
	// Delete is called with the last version of an object.
	Delete(obj T)
	// Replace is called with all objects.
	Replace(objs []T)
}

// store tells an index what a reflector reads, and notes the versions.
type store[T Object] struct {
	index Index[T]
	seen  *progress.Progress
}

var _ cache.ReflectorStore = store[*metav1.PartialObjectMetadata]{}

// Add implements cache.ReflectorStore.
func (s store[T]) Add(obj any) error { return s.tell(obj, s.index.Set) }

// Update implements cache.ReflectorStore.
func (s store[T]) Update(obj any) error { return s.tell(obj, s.index.Set) }

// Delete implements cache.ReflectorStore.
func (s store[T]) Delete(obj any) error { return s.tell(obj, s.index.Delete) }

func (s store[T]) tell(obj any, do func(T)) error {
	typed, ok := obj.(T)
	if !ok {
		return fmt.Errorf("unexpected object %T", obj)
	}
	do(typed)
	s.seen.Note(typed.GetResourceVersion())
	return nil
}

// Replace implements cache.ReflectorStore.
func (s store[T]) Replace(objs []any, version string) error {
	typed := make([]T, len(objs))
	for i, obj := range objs {
		var ok bool
		if typed[i], ok = obj.(T); !ok {
			return fmt.Errorf("unexpected object %T", obj)
		}
	}
	s.index.Replace(typed)
	s.seen.Note(version)
	return nil
}

// Resync implements cache.ReflectorStore.
func (store[T]) Resync() error { return nil }
