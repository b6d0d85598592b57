package published

import (
	"context"
	"fmt"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/cache"
)

// observer gets the metadata of objects.
type observer interface {
	// set is called with an object, or another version of it.
	set(o *metav1.PartialObjectMetadata)
	// unset is called with an object that is gone.
	unset(o *metav1.PartialObjectMetadata)
	// replace is called with all objects.
	replace(objects []*metav1.PartialObjectMetadata)
}

// follow keeps an observer up to date with the objects of a resource until ctx ends.
func follow(ctx context.Context, client metadata.Interface, r schema.GroupVersionResource, selectors metav1.ListOptions, to *store) {
	objects := client.Resource(r)
	source := listWatch{&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			options.LabelSelector, options.FieldSelector = selectors.LabelSelector, selectors.FieldSelector
			return objects.List(ctx, options)
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			options.LabelSelector, options.FieldSelector = selectors.LabelSelector, selectors.FieldSelector
			return objects.Watch(ctx, options)
		},
	}}
	cache.NewReflectorWithOptions(source, &metav1.PartialObjectMetadata{}, to, cache.ReflectorOptions{Name: "published-objects"}).RunWithContext(ctx)
}

// listWatch is read by list and watch: a streaming list would key objects by
// name, by which those of two spaces are one.
type listWatch struct{ *cache.ListWatch }

// IsWatchListSemanticsUnSupported is asked by reflectors.
func (listWatch) IsWatchListSemanticsUnSupported() bool { return true }

// store hands what a reflector reads to an observer.
type store struct {
	observer observer
	once     sync.Once
	synced   chan struct{}
}

func newStore(o observer) *store { return &store{observer: o, synced: make(chan struct{})} }

// hasSynced reports whether the observer knows all objects.
func (s *store) hasSynced() bool {
	select {
	case <-s.synced:
		return true
	default:
		return false
	}
}

func with(obj any, do func(*metav1.PartialObjectMetadata)) error {
	o, ok := obj.(*metav1.PartialObjectMetadata)
	if !ok {
		return fmt.Errorf("unexpected object %T", obj)
	}
	do(o)
	return nil
}

// Add implements cache.ReflectorStore.
func (s *store) Add(obj any) error { return with(obj, s.observer.set) }

// Update implements cache.ReflectorStore.
func (s *store) Update(obj any) error { return with(obj, s.observer.set) }

// Delete implements cache.ReflectorStore.
func (s *store) Delete(obj any) error { return with(obj, s.observer.unset) }

// Replace implements cache.ReflectorStore.
func (s *store) Replace(objs []any, _ string) error {
	objects := make([]*metav1.PartialObjectMetadata, 0, len(objs))
	for _, obj := range objs {
		if err := with(obj, func(o *metav1.PartialObjectMetadata) { objects = append(objects, o) }); err != nil {
			return err
		}
	}
	s.observer.replace(objects)
	s.once.Do(func() { close(s.synced) })
	return nil
}

// Resync implements cache.ReflectorStore.
func (*store) Resync() error { return nil }
