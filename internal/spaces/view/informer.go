package view

import (
	"context"
	"errors"
	"time"

	"k8s.io/client-go/tools/cache"
)

// informer is the shared informer of a type as one space sees it.
type informer struct {
	// SharedIndexInformer is the informer of all spaces, whose state (HasSynced, IsStopped)
	// is that of each space.
	cache.SharedIndexInformer

	indexer indexer
	hub     *Hub
}

func (i *informer) GetStore() cache.Store     { return i.indexer }
func (i *informer) GetIndexer() cache.Indexer { return i.indexer }

// AddEventHandler calls handler with the objects of the space.
func (i *informer) AddEventHandler(handler cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	if i.hub == nil {
		return nil, errors.New("this type has no hub: its changes in a space cannot be watched")
	}
	return i.hub.subscribe(i.indexer, handler), nil
}

// AddEventHandlerWithResyncPeriod is AddEventHandler: the hub decides on resyncs.
func (i *informer) AddEventHandlerWithResyncPeriod(handler cache.ResourceEventHandler, _ time.Duration) (cache.ResourceEventHandlerRegistration, error) {
	return i.AddEventHandler(handler)
}

// AddEventHandlerWithOptions is AddEventHandler.
func (i *informer) AddEventHandlerWithOptions(handler cache.ResourceEventHandler, _ cache.HandlerOptions) (cache.ResourceEventHandlerRegistration, error) {
	return i.AddEventHandler(handler)
}

// RemoveEventHandler undoes AddEventHandler.
func (i *informer) RemoveEventHandler(handle cache.ResourceEventHandlerRegistration) error {
	if s, ok := handle.(*subscription); ok {
		i.hub.unsubscribe(s)
	}
	return nil
}

// Run does nothing: the factory runs the informer of all spaces.
func (i *informer) Run(<-chan struct{}) {}

// RunWithContext does nothing, like Run.
func (i *informer) RunWithContext(context.Context) {}

// AddIndexers is refused: indexes belong to the informer of all spaces.
func (i *informer) AddIndexers(cache.Indexers) error { return errReadOnly }

// SetTransform is refused: the informer of all spaces has its own.
func (i *informer) SetTransform(cache.TransformFunc) error { return errReadOnly }
