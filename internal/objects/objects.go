package objects

import (
	"context"
	"fmt"
	"maps"
	"reflect"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"
)

// Ref names an object within a space. Namespace is empty for one of the cluster scope.
type Ref struct {
	Resource        schema.GroupResource
	Namespace, Name string
}

// String names the object for messages.
func (r Ref) String() string {
	if r.Namespace == "" {
		return fmt.Sprintf("%s %q", r.Resource, r.Name)
	}
	return fmt.Sprintf("%s %q", r.Resource, r.Namespace+"/"+r.Name)
}

// ShallowCopy returns a copy of obj whose name and namespace can be set without
// changing obj. Everything below its metadata stays shared.
func ShallowCopy(obj runtime.Object) runtime.Object {
	if object, ok := obj.(*unstructured.Unstructured); ok {
		content := maps.Clone(object.Object)
		if metadata, ok := content["metadata"].(map[string]any); ok {
			content["metadata"] = maps.Clone(metadata)
		}
		return &unstructured.Unstructured{Object: content}
	}
	original := reflect.ValueOf(obj).Elem()
	copied := reflect.New(original.Type())
	copied.Elem().Set(original)
	return copied.Interface().(runtime.Object)
}

// Content returns a copy of obj without the metadata that each write changes, and without what drop takes from the
// copy.
func Content(obj runtime.Object, drop func(metav1.Object)) runtime.Object {
	obj = obj.DeepCopyObject()
	if accessor, err := meta.Accessor(obj); err == nil {
		accessor.SetManagedFields(nil)
		accessor.SetResourceVersion("")
		drop(accessor)
	}
	return obj
}

// WithKey returns annotations or labels with a value or, if that is empty, without its key. The
// map itself, which may be that of an object in a cache, stays as it is.
func WithKey(m map[string]string, key, value string) map[string]string {
	if current, ok := m[key]; current == value && ok == (value != "") {
		return m
	}
	if m = maps.Clone(m); m == nil {
		m = map[string]string{}
	}
	if m[key] = value; value == "" {
		delete(m, key)
	}
	return m
}

// LastKnown returns an object that a handler of an informer's events is called for, as it was last seen. It returns
// false for one that is no T.
func LastKnown[T any](obj any) (T, bool) {
	if unknown, is := obj.(cache.DeletedFinalStateUnknown); is {
		obj = unknown.Obj
	}
	object, is := obj.(T)
	return object, is
}

// Indexed returns the objects that an index has for a value. Its error is that there is no such index.
func Indexed[T any](indexer cache.Indexer, index, value string) ([]T, error) {
	found, err := indexer.ByIndex(index, value)
	if err != nil {
		return nil, fmt.Errorf("reading a cache: %w", err)
	}
	all := make([]T, len(found))
	for i := range found {
		all[i] = found[i].(T)
	}
	return all, nil
}

// IndexBy indexes objects by the values that each has. What is no T is not found by any.
func IndexBy[T any](values func(T) []string) cache.IndexFunc {
	return func(obj any) ([]string, error) {
		if object, is := obj.(T); is {
			return values(object), nil
		}
		return nil, nil
	}
}

// Follow runs informers until ctx ends, and returns when their caches have what there is. It reports whether they do.
func Follow(ctx context.Context, informers ...cache.SharedIndexInformer) bool {
	synced := make([]cache.InformerSynced, len(informers))
	for i, informer := range informers {
		go informer.RunWithContext(ctx)
		synced[i] = informer.HasSynced
	}
	return cache.WaitForCacheSync(ctx.Done(), synced...)
}
