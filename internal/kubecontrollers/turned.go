package kubecontrollers

import (
	"cmp"
	"fmt"
	"maps"
	"runtime"
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
// getting its object from the lister. There it begins to be measured, or is told that it is not the turn of
// the tenant. What is not in turn is parked, and the controller hears of it again: some controllers
// give an item up after some errors. Handlers, which lose an event that they get no object for, get all
// (see exempted).
type inTurn struct {
	cache.SharedIndexInformer
	// turns are those of the workers, and handling those of the handlers of the events of all spaces.
	turns, handling *turns
	// absent is whether an object that is not in turn is shown as one that is not there. It is for
	// controllers that have nothing to do then. An error takes a worker longer: it logs and waits.
	absent bool
	// open is whether single objects are shown whoever's turn it is. It is for controllers that forget
	// what they have done for an object that is not there: its events wait instead, and those of pods that
	// it selects (see selecting).
	open bool
	// most is how many objects of a tenant that owes much are given to the controller at a time, and countQueued
	// is whether those count that are queued, and not only those that a worker works on.
	most        int
	countQueued bool

	mu       sync.Mutex
	handlers []cache.ResourceEventHandler
	parked   map[tenant.Name]*parked
	// given are the keys of objects that the controller has heard of, and is not done with.
	given map[tenant.Name]map[string]given
}

type given struct {
	working bool
	until   time.Time // it counts
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
	// releasedAtOnce is how many parked objects the controller hears of at once, so that others' wait for
	// few in its queue. releasePeriod is when it hears of more if it is not done with one before.
	releasedAtOnce = 16
	releasePeriod  = time.Second
	// An object counts as given for so long if no worker takes it, which a handler may not want, or if a worker is
	// not done with it: one that waits for a webhook is not to keep all others of its tenant waiting.
	queuedTime  = 5 * time.Second
	workingTime = time.Minute
	// manyGiven is how many there are when those are forgotten that count no more.
	manyGiven = 1024
)

func (t *turns) informer(of cache.SharedIndexInformer) *inTurn {
	t.measured = true
	i := &inTurn{
		turns: t, handling: newTurns(1), most: max(1, runtime.GOMAXPROCS(0)/2), countQueued: true,
		parked: map[tenant.Name]*parked{}, given: map[tenant.Name]map[string]given{},
	}
	i.SharedIndexInformer = wrapping{of, i.hears}
	return i
}

// openInformer is informer for a controller that gets all objects, and whose events wait.
func (t *turns) openInformer(of cache.SharedIndexInformer) *inTurn {
	i := t.informer(of)
	i.open, i.most = true, releasedAtOnce
	return i
}

// hears notes the handler of a controller, which hears of what was parked.
func (i *inTurn) hears(handler cache.ResourceEventHandler) cache.ResourceEventHandler {
	i.handlers = append(i.handlers, handler)
	return exempted{i.delayed(handler)}
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
	return n.IsSpace() && !i.give(n, object.GetNamespace()+"/"+object.GetName(), false)
}

// give notes that the controller gets an object, or parks it if it is not its turn.
func (i *inTurn) give(n tenant.Name, key string, working bool) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	_, known := i.given[n][key]
	if !known && (i.parked[n] != nil || i.room(n) <= 0) {
		i.of(n).add(key)
		return false
	}
	i.note(n, key, working)
	return true
}

func (i *inTurn) isWorkedOn(n tenant.Name, key string) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.given[n][key].working
}

// note is called with the lock.
func (i *inTurn) note(n tenant.Name, key string, working bool) {
	if len(i.given[n])%manyGiven == manyGiven-1 {
		i.prune(n)
	}
	if i.given[n] == nil {
		i.given[n] = map[string]given{}
	}
	counts := queuedTime
	if working {
		counts = workingTime
	}
	i.given[n][key] = given{working, i.turns.now().Add(counts)}
}

// room returns how many more objects of a tenant may be given. It is called with the lock.
func (i *inTurn) room(n tenant.Name) int {
	if !i.turns.owesMuch(n, len(i.given[n])) {
		return releasedAtOnce
	}
	i.prune(n)
	count := 0
	for _, g := range i.given[n] {
		if g.working || i.countQueued {
			count++
		}
	}
	return i.most - count
}

// prune forgets what counts no more. It is called with the lock.
func (i *inTurn) prune(n tenant.Name) {
	maps.DeleteFunc(i.given[n], func(_ string, g given) bool { return i.turns.now().After(g.until) })
	if len(i.given[n]) == 0 {
		delete(i.given, n)
	}
}

// done is called when a worker is done with an object, or does not find it any more.
func (i *inTurn) done(n tenant.Name, key string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	delete(i.given[n], key)
	if len(i.given[n]) == 0 {
		delete(i.given, n)
	}
	if i.parked[n] != nil {
		go i.release(n) // the controller's queue is locked
	}
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
	if err != nil {
		return nil, false, err
	}
	n, err := spaceOfKey(key)
	if err != nil || !n.IsSpace() || isExempted() {
		return obj, exists, err
	}
	switch {
	case !exists:
		i.of.done(n, key)
		return nil, false, nil
	case i.of.take(n, key):
		return obj, true, nil
	case i.of.absent:
		return nil, false, nil
	default:
		return nil, false, errNotInTurn(n)
	}
}

func spaceOfKey(key string) (tenant.Name, error) {
	namespace, name, err := cache.SplitMetaNamespaceKey(key)
	if err != nil {
		return "", fmt.Errorf("reading the namespace of %q: %w", key, err)
	}
	return tenant.Flat(cmp.Or(namespace, name)).Space(), nil
}

// take measures how long the worker that asks for an object works on it, or parks it.
func (i *inTurn) take(n tenant.Name, key string) bool {
	done := func(took time.Duration) {
		i.turns.work(n, took)
		i.done(n, key)
	}
	if i.open {
		// A worker may ask for the owner of each of thousands of pods.
		if !i.isWorkedOn(n, key) && workers.OnDone(done) {
			i.mu.Lock()
			i.note(n, key, true)
			i.mu.Unlock()
		}
		return true
	}
	if !i.give(n, key, true) {
		return false
	}
	if !workers.OnDone(done) {
		i.done(n, key) // it belongs to the item that the worker works on already
	}
	return true
}

// parkAll parks all objects of a namespace.
func (i *inTurn) parkAll(n tenant.Name, namespace string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.of(n).namespaces.Insert(namespace)
}

// look calls find, which looks for objects that an event concerns, and charges the tenant of the namespace
// for it. If its events have taken long, it parks all objects of the namespace instead, and returns false.
func (i *inTurn) look(namespace string, find func()) bool {
	n := tenant.Flat(namespace).Space()
	if !n.IsSpace() {
		find()
		return true
	}
	if i.handling.debt(n) > maxTurnDebt {
		i.parkAll(n, namespace)
		return false
	}
	began := time.Now()
	find()
	i.handling.charge(n, time.Since(began))
	return true
}

// of returns what is parked of a tenant. It is called with the lock. There is one timer for each tenant
// that has parked objects.
func (i *inTurn) of(n tenant.Name) *parked {
	p := i.parked[n]
	if p == nil {
		p = &parked{set: sets.New[string](), namespaces: sets.New[string]()}
		i.parked[n] = p
		time.AfterFunc(releasePeriod, func() { i.releaseAgain(n) })
	}
	return p
}

// releaseAgain releases objects until none is parked.
func (i *inTurn) releaseAgain(n tenant.Name) {
	i.release(n)
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.parked[n] != nil {
		time.AfterFunc(releasePeriod, func() { i.releaseAgain(n) })
	}
}

// release has the controller hear of parked objects, if they are still there, as far as it is their turn.
func (i *inTurn) release(n tenant.Name) {
	defer utilruntime.HandleCrash()
	for _, key := range i.next(n) {
		obj, exists, err := i.SharedIndexInformer.GetIndexer().GetByKey(key)
		if err != nil || !exists {
			i.done(n, key)
			continue
		}
		for _, handler := range i.handlers {
			handler.OnAdd(obj, false) // some take no update in which nothing has changed
		}
	}
}

// next returns the keys to release.
func (i *inTurn) next(n tenant.Name) []string {
	i.mu.Lock()
	defer i.mu.Unlock()
	p := i.parked[n]
	if p == nil || i.handling.debt(n) > maxTurnDebt {
		return nil
	}
	for namespace := range p.namespaces {
		keys, err := i.SharedIndexInformer.GetIndexer().IndexKeys(cache.NamespaceIndex, namespace)
		if err == nil { // the index is there
			p.add(keys...)
		}
	}
	clear(p.namespaces)
	released := p.keys[:min(max(0, i.room(n)), len(p.keys))]
	p.keys = p.keys[len(released):]
	p.set.Delete(released...)
	for _, key := range released {
		i.note(n, key, false)
	}
	if len(p.keys) == 0 {
		delete(i.parked, n)
	}
	return released
}
