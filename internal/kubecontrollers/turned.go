package kubecontrollers

import (
	"cmp"
	"errors"
	"fmt"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/tools/cache"

	"github.com/tenantry/tenantry/internal/process/workers"
	"github.com/tenantry/tenantry/internal/tenant"
)

// inTurn is the informer of the objects that a controller works on. A worker begins an item by
// getting its object from the lister, so that is where it is told that it is not the turn of a
// tenant. What is not in turn is parked, and the controller hears of it again: some controllers
// give an item up after some errors. Handlers, which lose an event that they get no object for, get all
// (see exempted).
type inTurn struct {
	cache.SharedIndexInformer
	turns *turns
	// cost, if not nil, is what an event of an open informer is charged with at once: its item may wait in the
	// queue for long until a worker is measured.
	cost func(obj any) time.Duration
	// absent is whether an object that is not in turn is shown as one that is not there. It is for
	// controllers that have nothing to do then. An error takes a worker longer: it logs and waits.
	absent bool
	// open is whether single objects are shown whoever's turn it is. It is for controllers that forget
	// what they have done for an object that is not there: its events wait instead, and those of pods that
	// it selects (see selecting).
	open bool

	mu       sync.Mutex
	handlers []cache.ResourceEventHandler
	parked   map[tenant.Name]*parked
	// released are the keys that the controller has heard of again, and not yet taken.
	released sets.Set[string]
}

// parked are the keys of a tenant's objects that are not in turn, in the order in which they came.
type parked struct {
	keys []string
	set  sets.Set[string]
	// namespaces are those of which all objects are to be parked.
	namespaces sets.Set[string]
}

func (p *parked) add(keys ...string) {
	for _, key := range keys {
		if !p.set.Has(key) {
			p.set.Insert(key)
			p.keys = append(p.keys, key)
		}
	}
}

const (
	// releasedAtOnce is how many of them the controller hears of at once, so that others' wait for
	// few in its queue, and releasePause the time until it hears of more.
	releasedAtOnce = 16
	releasePause   = 100 * time.Millisecond
)

func (t *turns) informer(of cache.SharedIndexInformer) *inTurn {
	t.measured = true
	return &inTurn{SharedIndexInformer: of, turns: t, parked: map[tenant.Name]*parked{}, released: sets.New[string]()}
}

// AddEventHandler implements cache.SharedInformer.
func (i *inTurn) AddEventHandler(handler cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	return i.AddEventHandlerWithOptions(handler, cache.HandlerOptions{})
}

// AddEventHandlerWithResyncPeriod implements cache.SharedInformer.
func (i *inTurn) AddEventHandlerWithResyncPeriod(handler cache.ResourceEventHandler, resync time.Duration) (cache.ResourceEventHandlerRegistration, error) {
	return i.AddEventHandlerWithOptions(handler, cache.HandlerOptions{ResyncPeriod: &resync})
}

// AddEventHandlerWithOptions implements cache.SharedInformer.
func (i *inTurn) AddEventHandlerWithOptions(handler cache.ResourceEventHandler, options cache.HandlerOptions) (cache.ResourceEventHandlerRegistration, error) {
	i.handlers = append(i.handlers, handler)
	return i.SharedIndexInformer.AddEventHandlerWithOptions(exempted{i.delayed(handler)}, options)
}

// delayed returns the handler of a controller that is to hear of objects in turn.
func (i *inTurn) delayed(handler cache.ResourceEventHandler) cache.ResourceEventHandler {
	if !i.open {
		return handler
	}
	return cache.ResourceEventHandlerDetailedFuncs{
		AddFunc: func(obj any, initial bool) {
			if initial || !i.delay(obj) {
				handler.OnAdd(obj, initial)
			}
		},
		UpdateFunc: func(old, obj any) {
			if !i.delay(obj) {
				handler.OnUpdate(old, obj)
			}
		},
		DeleteFunc: handler.OnDelete,
	}
}

// delay parks an object that is not in turn.
func (i *inTurn) delay(obj any) bool {
	object, ok := obj.(metav1.Object)
	if !ok {
		return false
	}
	n := tenant.Flat(object.GetNamespace()).Space()
	if !n.IsSpace() {
		return false
	}
	if i.turns.debt(n) <= maxTurnDebt {
		i.turns.charge(n, i.cost(obj))
		return false
	}
	i.park(n, object.GetNamespace()+"/"+object.GetName())
	return true
}

// GetIndexer implements cache.SharedIndexInformer.
func (i *inTurn) GetIndexer() cache.Indexer {
	return indexerInTurn{i.SharedIndexInformer.GetIndexer(), i}
}

type indexerInTurn struct {
	cache.Indexer
	of *inTurn
}

// GetByKey implements cache.Store.
func (i indexerInTurn) GetByKey(key string) (any, bool, error) {
	obj, exists, err := i.Indexer.GetByKey(key)
	if err != nil || !exists {
		i.of.forget(key) // it is no more
		return obj, exists, err
	}
	switch err := i.of.take(key); {
	case err == nil:
		return obj, true, nil
	case i.of.absent:
		return nil, false, nil
	default:
		return nil, false, err
	}
}

// take measures how long the worker that asks for an object works on it, or returns an error and parks it.
func (i *inTurn) take(key string) error {
	namespace, name, err := cache.SplitMetaNamespaceKey(key)
	if err != nil {
		return fmt.Errorf("reading the namespace of %q: %w", key, err)
	}
	n := tenant.Flat(cmp.Or(namespace, name)).Space()
	if !n.IsSpace() || isExempted() {
		return nil
	}
	if !i.open {
		if err := i.turns.take(n, 0); err != nil || i.waitsBehind(n, key) {
			i.park(n, key)
			return cmp.Or(err, errNotInTurn)
		}
	}
	workers.OnDone(func(took time.Duration) { i.turns.work(n, took) })
	return nil
}

var errNotInTurn = errors.New("other objects of the tenant have waited longer for this controller")

// waitsBehind reports whether other objects of a tenant are parked, unless the key has been.
func (i *inTurn) waitsBehind(n tenant.Name, key string) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.released.Has(key) {
		i.released.Delete(key)
		return false
	}
	return i.parked[n] != nil
}

// park has the controller hear of an object when it is the turn of its tenant, if it is still
// there. There is one timer for each tenant that has parked objects.
func (i *inTurn) park(n tenant.Name, key string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.of(n).add(key)
}

// parkAll is park for all objects of a namespace.
func (i *inTurn) parkAll(n tenant.Name, namespace string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.of(n).namespaces.Insert(namespace)
}

// look calls find, which looks for objects that an event concerns, and charges the tenant of the namespace
// for it and for what find says that they take afterwards. If it is not the tenant's turn, it parks all
// objects of the namespace instead, and returns false.
func (i *inTurn) look(namespace string, find func() time.Duration) bool {
	n := tenant.Flat(namespace).Space()
	if !n.IsSpace() {
		find()
		return true
	}
	if i.turns.debt(n) > maxTurnDebt {
		i.parkAll(n, namespace)
		return false
	}
	began := time.Now()
	afterwards := find()
	i.turns.charge(n, time.Since(began)+afterwards)
	return true
}

// of returns what is parked of a tenant. It is called with the lock.
func (i *inTurn) of(n tenant.Name) *parked {
	p := i.parked[n]
	if p == nil {
		p = &parked{set: sets.New[string](), namespaces: sets.New[string]()}
		i.parked[n] = p
		i.releaseLater(n)
	}
	return p
}

// releaseLater is called with the lock.
func (i *inTurn) releaseLater(n tenant.Name) {
	time.AfterFunc(max(releasePause, i.turns.debt(n)-maxTurnDebt/2), func() { i.release(n) })
}

func (i *inTurn) release(n tenant.Name) {
	defer utilruntime.HandleCrash()
	for _, key := range i.next(n) {
		obj, exists, err := i.SharedIndexInformer.GetIndexer().GetByKey(key)
		if err != nil || !exists {
			i.forget(key)
			continue
		}
		if i.open {
			i.turns.charge(n, i.cost(obj))
		}
		for _, handler := range i.handlers {
			handler.OnAdd(obj, false) // some take no update in which nothing has changed
		}
	}
}

// forget is for a key that was released, and that nobody takes.
func (i *inTurn) forget(key string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.released.Delete(key)
}

// next returns the keys to release, none if it is not yet the turn of the tenant.
func (i *inTurn) next(n tenant.Name) []string {
	i.mu.Lock()
	defer i.mu.Unlock()
	p := i.parked[n]
	if i.turns.debt(n) > maxTurnDebt/2 {
		i.releaseLater(n)
		return nil
	}
	for namespace := range p.namespaces {
		keys, err := i.SharedIndexInformer.GetIndexer().IndexKeys(cache.NamespaceIndex, namespace)
		if err == nil { // the index is there
			p.add(keys...)
		}
	}
	clear(p.namespaces)
	released := p.keys[:min(releasedAtOnce, len(p.keys))]
	p.keys = p.keys[len(released):]
	p.set.Delete(released...)
	if !i.open {
		i.released.Insert(released...)
	}
	if len(p.keys) > 0 {
		i.releaseLater(n)
	} else {
		delete(i.parked, n)
	}
	return released
}
