package kubecontrollers

import (
	"reflect"
	"sync"

	coreinformers "k8s.io/client-go/informers/core/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/tenantry/tenantry/internal/process/stack"
)

// exempted is a handler that gets objects from a lister whether it is a tenant's turn or not. Upstream
// gives listers no context: who asks is read from the stack, if the answer depends on it. It hears of one object
// after the other, as of every informer, though those that waited come from other goroutines.
type exempted struct {
	cache.ResourceEventHandler
	mu *sync.Mutex
}

func newExempted(handler cache.ResourceEventHandler) exempted {
	return exempted{handler, &sync.Mutex{}}
}

// OnAdd implements cache.ResourceEventHandler.
func (e exempted) OnAdd(obj any, initial bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.ResourceEventHandler.OnAdd(obj, initial)
}

// OnUpdate implements cache.ResourceEventHandler.
func (e exempted) OnUpdate(old, obj any) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.ResourceEventHandler.OnUpdate(old, obj)
}

// OnDelete implements cache.ResourceEventHandler.
func (e exempted) OnDelete(obj any) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.ResourceEventHandler.OnDelete(obj)
}

var exemptedMethods = reflect.TypeFor[exempted]().PkgPath() + ".exempted.On"

// isExempted reports whether an exempted handler has called.
func isExempted() bool { return stack.Within(exemptedMethods) }

// exempting returns an informer whose handlers are exempted.
func exempting(informer cache.SharedIndexInformer) wrapping {
	return wrapping{informer, func(handler cache.ResourceEventHandler) cache.ResourceEventHandler { return newExempted(handler) }}
}

// handledPods returns pods whose handlers are exempted.
func handledPods(informer coreinformers.PodInformer) offered[corelisters.PodLister] {
	return offered[corelisters.PodLister]{exempting(informer.Informer()), informer.Lister()}
}
