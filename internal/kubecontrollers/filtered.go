package kubecontrollers

import (
	"slices"
	"time"

	"k8s.io/client-go/tools/cache"

	"github.com/tenantry/tenantry/internal/objects"
)

// filtered is an informer that shows a controller the objects to keep and no others: to
// handlers with a resync period, in its indexer and by what lists from that.
type filtered struct {
	cache.SharedIndexInformer
	keep func(obj any) bool
}

// AddEventHandlerWithResyncPeriod implements cache.SharedInformer.
func (f filtered) AddEventHandlerWithResyncPeriod(handler cache.ResourceEventHandler, resync time.Duration) (cache.ResourceEventHandlerRegistration, error) {
	return f.AddEventHandlerWithOptions(handler, cache.HandlerOptions{ResyncPeriod: &resync})
}

// AddEventHandlerWithOptions implements cache.SharedInformer.
func (f filtered) AddEventHandlerWithOptions(handler cache.ResourceEventHandler, options cache.HandlerOptions) (cache.ResourceEventHandlerRegistration, error) {
	if options.ResyncPeriod != nil {
		handler = cache.FilteringResourceEventHandler{FilterFunc: func(obj any) bool { return f.keep(lastKnown(obj)) }, Handler: handler}
	}
	return f.SharedIndexInformer.AddEventHandlerWithOptions(handler, options)
}

// GetIndexer implements cache.SharedIndexInformer.
func (f filtered) GetIndexer() cache.Indexer {
	return filteredIndexer{f.SharedIndexInformer.GetIndexer(), f.keep}
}

// offeredOnly returns an informer, and its lister, with the objects of type T to keep and no others.
func offeredOnly[T, L any](informer cache.SharedIndexInformer, newLister func(cache.Indexer) L, keep func(T) bool) offered[L] {
	of := filtered{informer, func(obj any) bool {
		object, is := obj.(T)
		return is && keep(object)
	}}
	return offered[L]{of, newLister(of.GetIndexer())}
}

// mapped is an informer whose indexer, if it is asked for one object of type T, returns what it is mapped to.
type mapped[T any] struct {
	cache.SharedIndexInformer
	mapping func(T) T
}

// GetIndexer implements cache.SharedIndexInformer.
func (m mapped[T]) GetIndexer() cache.Indexer {
	return mappedIndexer[T]{m.SharedIndexInformer.GetIndexer(), m.mapping}
}

type mappedIndexer[T any] struct {
	cache.Indexer
	mapping func(T) T
}

// GetByKey implements cache.Store.
func (i mappedIndexer[T]) GetByKey(key string) (any, bool, error) {
	obj, exists, err := i.Indexer.GetByKey(key)
	if object, is := obj.(T); is {
		obj = i.mapping(object)
	}
	return obj, exists, err
}

type filteredIndexer struct {
	cache.Indexer
	keep func(obj any) bool
}

func (i filteredIndexer) kept(objects []any) []any {
	return slices.DeleteFunc(objects, func(obj any) bool { return !i.keep(obj) })
}

// List implements cache.Store.
func (i filteredIndexer) List() []any { return i.kept(i.Indexer.List()) }

// GetByKey implements cache.Store.
func (i filteredIndexer) GetByKey(key string) (any, bool, error) {
	obj, exists, err := i.Indexer.GetByKey(key)
	if !exists || !i.keep(obj) {
		return nil, false, err
	}
	return obj, true, err
}

// Index implements cache.Indexer.
func (i filteredIndexer) Index(name string, obj any) ([]any, error) {
	objects, err := i.Indexer.Index(name, obj)
	return i.kept(objects), err
}

// ByIndex implements cache.Indexer.
func (i filteredIndexer) ByIndex(name, value string) ([]any, error) {
	objects, err := i.Indexer.ByIndex(name, value)
	return i.kept(objects), err
}

// lastKnown returns an object that a handler is called for as it was last seen.
func lastKnown(obj any) any {
	last, _ := objects.LastKnown[any](obj)
	return last
}
