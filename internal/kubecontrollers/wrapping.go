package kubecontrollers

import (
	"time"

	"k8s.io/client-go/tools/cache"
)

// wrapping is an informer that puts something around the handlers of a controller, by whichever method the
// controller adds them.
type wrapping struct {
	cache.SharedIndexInformer
	wrap func(handler cache.ResourceEventHandler) cache.ResourceEventHandler
}

// AddEventHandler implements cache.SharedInformer.
func (w wrapping) AddEventHandler(handler cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	return w.AddEventHandlerWithOptions(handler, cache.HandlerOptions{})
}

// AddEventHandlerWithResyncPeriod implements cache.SharedInformer.
func (w wrapping) AddEventHandlerWithResyncPeriod(handler cache.ResourceEventHandler, resync time.Duration) (cache.ResourceEventHandlerRegistration, error) {
	return w.AddEventHandlerWithOptions(handler, cache.HandlerOptions{ResyncPeriod: &resync})
}

// AddEventHandlerWithOptions implements cache.SharedInformer.
func (w wrapping) AddEventHandlerWithOptions(handler cache.ResourceEventHandler, options cache.HandlerOptions) (cache.ResourceEventHandlerRegistration, error) {
	return w.SharedIndexInformer.AddEventHandlerWithOptions(w.wrap(handler), options)
}

// noting returns an informer that calls note with each object that a handler is about to be called for.
func noting(informer cache.SharedIndexInformer, note func(obj any)) wrapping {
	return wrapping{informer, func(handler cache.ResourceEventHandler) cache.ResourceEventHandler {
		return cache.ResourceEventHandlerDetailedFuncs{
			AddFunc:    func(obj any, initial bool) { note(obj); handler.OnAdd(obj, initial) },
			UpdateFunc: func(old, obj any) { note(obj); handler.OnUpdate(old, obj) },
			DeleteFunc: func(obj any) { note(obj); handler.OnDelete(obj) },
		}
	}}
}
