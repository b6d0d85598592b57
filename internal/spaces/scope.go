package spaces

import (
	"context"
	"errors"
	"maps"
	"reflect"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/informers/internalinterfaces"
	"k8s.io/client-go/tools/cache"
)

// Scope is the use of a factory by something that may end before the factory does, such as controllers whose
// process has lost their lease. When it ends, its handlers are removed, and informers that nothing else uses
// end: they do not run a second time. Handlers hear of nothing before the scope is started, even from informers that
// run: what adds them may not be complete, as upstream's controllers, which expect that.
type Scope struct {
	Groups
	of *Factory
	// begun ends when handlers begin to hear of what there is: when the scope is started, or ends.
	begun   context.Context
	begin   context.CancelFunc
	started atomic.Bool

	mu       sync.Mutex
	ended    bool
	used     map[reflect.Type]*scopedInformer
	handlers []func() // remove them
}

var _ informers.SharedInformerFactory = &Scope{}

// Scope returns a new scope, which must be ended.
func (f *Factory) Scope() *Scope {
	s := &Scope{of: f, used: map[reflect.Type]*scopedInformer{}}
	s.begun, s.begin = context.WithCancel(context.Background())
	s.Groups = Groups{s}
	return s
}

var errScopeEnded = errors.New("what asks for this informer has ended")

// End removes the handlers that were added by way of the scope, ends the informers that nothing else uses, and waits
// for them. A caller that asks for an informer afterwards gets one that never runs.
func (s *Scope) End() {
	s.mu.Lock()
	handlers, used := s.handlers, s.used
	s.ended, s.handlers, s.used = true, nil, nil
	s.mu.Unlock()
	s.begin() // handlers that wait are over, for which their removal waits
	for _, remove := range handlers {
		remove()
	}
	for _, ended := range s.of.release(used) {
		<-ended
	}
}

// release takes informers back, and returns what is closed when those have ended that nothing uses.
func (f *Factory) release(used map[reflect.Type]*scopedInformer) (ending []<-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for key, u := range used {
		u.of.left = u.of.left.Union(u.indexes)
		if u.of.scopes--; u.of.scopes > 0 || u.of.kept {
			continue
		}
		delete(f.informers, key)
		if u.of.stop != nil {
			u.of.stop()
			ending = append(ending, u.of.ended)
		}
	}
	return ending
}

// InformerFor returns the shared informer of the type of obj, see Factory.InformerFor.
func (s *Scope) InformerFor(obj runtime.Object, _ internalinterfaces.NewInformerFunc) cache.SharedIndexInformer {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := reflect.TypeOf(obj)
	if informer, ok := s.used[key]; ok {
		return informer
	}
	s.of.mu.Lock()
	defer s.of.mu.Unlock()
	informer := &scopedInformer{scope: s, indexes: sets.New[string]()}
	if s.ended {
		own, err := s.of.newInformer(obj)
		if err != nil {
			panic(err) // as in Factory.shared
		}
		informer.SharedIndexInformer, informer.of = own, &shared{}
		return informer
	}
	informer.of = s.of.shared(obj)
	informer.SharedIndexInformer = informer.of.SharedIndexInformer
	informer.of.scopes++
	s.used[key] = informer
	return informer
}

// ForResource returns the shared informer of a resource in client-go's scheme.
func (s *Scope) ForResource(resource schema.GroupVersionResource) (informers.GenericInformer, error) {
	return forResource(s, resource)
}

// Start runs the requested informers that do not run yet, until the scope ends. It does not block.
func (s *Scope) Start(stop <-chan struct{}) { s.StartWithContext(wait.ContextForChannel(stop)) }

// StartWithContext is Start. With a context that has ended it starts nothing.
func (s *Scope) StartWithContext(ctx context.Context) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if ctx.Err() != nil {
		return
	}
	s.of.mu.Lock()
	defer s.of.mu.Unlock()
	for _, informer := range s.used {
		s.of.start(informer.of)
	}
	s.started.Store(true)
	s.begin()
}

// Shutdown is End.
func (s *Scope) Shutdown() { s.End() }

// WaitForCacheSync waits for the requested informers to have read everything.
func (s *Scope) WaitForCacheSync(stop <-chan struct{}) map[reflect.Type]bool {
	return s.WaitForCacheSyncWithContext(wait.ContextForChannel(stop)).Synced
}

// WaitForCacheSyncWithContext is WaitForCacheSync with a context that ends the wait.
func (s *Scope) WaitForCacheSyncWithContext(ctx context.Context) cache.SyncResult {
	s.mu.Lock()
	used := make(map[reflect.Type]cache.SharedIndexInformer, len(s.used))
	for key, informer := range s.used {
		used[key] = informer
	}
	s.mu.Unlock()
	return waitForSync(ctx, used)
}

// InformerName is the name of the informers in metrics: none.
func (s *Scope) InformerName() *cache.InformerName { return nil }

// scopedInformer is a shared informer that notes what is to be taken back.
type scopedInformer struct {
	cache.SharedIndexInformer
	scope   *Scope
	of      *shared
	indexes sets.Set[string]
}

// AddEventHandler implements cache.SharedInformer.
func (i *scopedInformer) AddEventHandler(handler cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	return i.AddEventHandlerWithOptions(handler, cache.HandlerOptions{})
}

// AddEventHandlerWithResyncPeriod implements cache.SharedInformer.
func (i *scopedInformer) AddEventHandlerWithResyncPeriod(handler cache.ResourceEventHandler, resync time.Duration) (cache.ResourceEventHandlerRegistration, error) {
	return i.AddEventHandlerWithOptions(handler, cache.HandlerOptions{ResyncPeriod: &resync})
}

// AddEventHandlerWithOptions implements cache.SharedInformer.
func (i *scopedInformer) AddEventHandlerWithOptions(handler cache.ResourceEventHandler, options cache.HandlerOptions) (cache.ResourceEventHandlerRegistration, error) {
	registration, err := i.SharedIndexInformer.AddEventHandlerWithOptions(scopedHandler{handler, i.scope}, options)
	if err != nil {
		return nil, err
	}
	remove := func() { _ = i.SharedIndexInformer.RemoveEventHandler(registration) } // it is one of this informer
	i.scope.mu.Lock()
	defer i.scope.mu.Unlock()
	if i.scope.ended {
		remove()
		return nil, errScopeEnded
	}
	i.scope.handlers = append(i.scope.handlers, remove)
	return registration, nil
}

// AddIndexers implements cache.SharedIndexInformer. An index stays with an informer that goes on: a later scope, which
// adds the same one again, finds it there.
func (i *scopedInformer) AddIndexers(indexers cache.Indexers) error {
	i.scope.mu.Lock()
	defer i.scope.mu.Unlock()
	i.scope.of.mu.Lock()
	defer i.scope.of.mu.Unlock()
	added := maps.Clone(indexers)
	maps.DeleteFunc(added, func(name string, _ cache.IndexFunc) bool { return i.of.left.Has(name) })
	if err := i.SharedIndexInformer.AddIndexers(added); err != nil {
		return err
	}
	i.indexes = i.indexes.Union(sets.KeySet(added))
	return nil
}

// scopedHandler is a handler of a scope. Until the scope is started, what it is to hear waits in the informer, which
// has a queue and a goroutine for each handler anyway.
type scopedHandler struct {
	cache.ResourceEventHandler
	scope *Scope
}

// waits waits for the start of the scope, and reports whether that has not ended before.
func (h scopedHandler) waits() bool {
	if h.scope.started.Load() {
		return true
	}
	<-h.scope.begun.Done()
	return h.scope.started.Load()
}

// OnAdd implements cache.ResourceEventHandler.
func (h scopedHandler) OnAdd(obj any, isInInitialList bool) {
	if h.waits() {
		h.ResourceEventHandler.OnAdd(obj, isInInitialList)
	}
}

// OnUpdate implements cache.ResourceEventHandler.
func (h scopedHandler) OnUpdate(before, obj any) {
	if h.waits() {
		h.ResourceEventHandler.OnUpdate(before, obj)
	}
}

// OnDelete implements cache.ResourceEventHandler.
func (h scopedHandler) OnDelete(obj any) {
	if h.waits() {
		h.ResourceEventHandler.OnDelete(obj)
	}
}
