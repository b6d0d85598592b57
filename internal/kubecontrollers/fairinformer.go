package kubecontrollers

import (
	"cmp"
	"fmt"
	"maps"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/tools/cache"

	"github.com/tenantry/tenantry/internal/process/keyed"
	"github.com/tenantry/tenantry/internal/process/workers"
	"github.com/tenantry/tenantry/internal/tenant"
)

// fairInformer is the informer of the objects that a controller works on. A worker begins an item by
// getting its object from the lister. There it begins to be measured, or is told that it is not the turn of
// the tenant. What is not in turn is parked, and the controller hears of it again: some controllers
// give an item up after some errors. Handlers, which lose an event that they get no object for, get all
// (see exempted).
type fairInformer struct {
	cache.SharedIndexInformer
	// debts are those of the workers, and handling those of the handlers of the events of all spaces.
	debts, handling *debts
	sharing         sharing

	mu       sync.Mutex
	handlers []cache.ResourceEventHandler
	parked   map[tenant.Name]*parked
	// given are the keys of objects that the controller has heard of, and is not done with.
	given map[tenant.Name]map[string]given
	// failed are the keys of objects with which a worker has failed.
	failed map[string]*failure
	// nextRetries are when the next of a tenant's may come again.
	nextRetries map[tenant.Name]time.Time
}

// sharing is how tenants share the workers of a controller.
type sharing struct {
	// hidesParked is whether an object that is not in turn is shown as one that is not there. It is for
	// controllers that have nothing to do then. An error takes a worker longer: it logs and waits.
	hidesParked bool
	// showsParked is whether single objects are shown whoever's turn it is. It is for controllers that forget
	// what they have done for an object that is not there: its events wait instead, and those of pods that
	// it selects (see selecting).
	showsParked bool
	// most is how many objects of a tenant that owes much are given to the controller at a time, and countQueued
	// is whether those count that are queued, and not only those that a worker works on.
	most        int
	countQueued bool
	// retries is whether objects come again with which a worker has failed.
	retries bool
}

type given struct {
	working bool
	until   time.Time // it counts
}

// parked are the keys of a tenant's objects that are not in turn, in the order in which they came.
type parked struct {
	keys []string
	// was has the object of each key as the controller heard of it last, or nil.
	was map[string]any
	// namespaces are those of which all objects are to be parked.
	namespaces sets.Set[string]
	timer      *time.Timer
}

func (p *parked) add(key string, was any) {
	before, known := p.was[key]
	if !known {
		p.keys = append(p.keys, key)
	}
	if before == nil {
		p.was[key] = was
	}
}

// failParked is for controllers that do something for what is not there.
func (d *debts) failParked() sharing {
	return sharing{most: int(max(1, d.parallel/2)), countQueued: true, retries: true}
}

// hideParked is for controllers that have nothing to do for what is not there.
func (d *debts) hideParked() sharing {
	s := d.failParked()
	s.hidesParked = true
	return s
}

// showParked is for controllers that get all objects, and whose events wait.
func (d *debts) showParked() sharing {
	s := d.failParked()
	s.showsParked, s.most = true, max(1, min(releasedAtOnce, d.workers/2))
	return s
}

func (d *debts) informer(of cache.SharedIndexInformer, s sharing) *fairInformer {
	i := &fairInformer{
		debts: d, handling: newDebts(1), sharing: s,
		parked: map[tenant.Name]*parked{}, given: map[tenant.Name]map[string]given{}, failed: map[string]*failure{}, nextRetries: map[tenant.Name]time.Time{},
	}
	i.SharedIndexInformer = wrapping{of, i.wrapHandler}
	return i
}

// wrapHandler notes the handler of a controller, which hears of what was parked.
func (i *fairInformer) wrapHandler(handler cache.ResourceEventHandler) cache.ResourceEventHandler {
	handler = newExempted(handler)
	i.handlers = append(i.handlers, handler)
	return i.delayed(handler)
}

// delayed returns the handler of a controller that is to hear of objects in turn.
func (i *fairInformer) delayed(handler cache.ResourceEventHandler) cache.ResourceEventHandler {
	if !i.sharing.showsParked {
		return handler
	}
	return cache.ResourceEventHandlerDetailedFuncs{
		AddFunc: func(obj any, initial bool) {
			if initial || !i.delay(nil, obj) {
				handler.OnAdd(obj, initial)
			}
		},
		UpdateFunc: func(old, obj any) {
			if !i.delay(old, obj) {
				handler.OnUpdate(old, obj)
			}
		},
		DeleteFunc: handler.OnDelete,
	}
}

// delay parks an object that is not in turn, which was another one before.
func (i *fairInformer) delay(was, obj any) bool {
	object, ok := obj.(metav1.Object)
	if !ok {
		return false
	}
	n, is := tenant.Flat(object.GetNamespace()).Tenant()
	if !is {
		return false
	}
	gets, _ := i.give(n, object.GetNamespace()+"/"+object.GetName(), was, false)
	return !gets
}

// give notes that the controller gets an object, or parks it if it is not its turn. known is whether it was noted
// before.
func (i *fairInformer) give(n tenant.Name, key string, was any, working bool) (gets, known bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	_, known = i.given[n][key]
	if !known && (i.parked[n] != nil || i.room(n) <= 0) {
		i.parkedOf(n).add(key, was)
		return false, false
	}
	i.note(n, key, working)
	return true, known
}

func (i *fairInformer) isWorkedOn(n tenant.Name, key string) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.given[n][key].working
}

// note is called with the lock. What a worker works on stays that when the controller hears of it again.
func (i *fairInformer) note(n tenant.Name, key string, working bool) {
	if before := i.given[n][key]; before.working && !working && i.debts.now().Before(before.until) {
		return
	}
	if len(i.given[n])%manyGiven == manyGiven-1 {
		i.prune(n)
	}
	counts := queuedTime
	if working {
		counts = workingTime
	}
	keyed.Set(i.given, n, key, given{working, i.debts.now().Add(counts)})
}

// room returns how many more objects of a tenant may be given. It is called with the lock.
func (i *fairInformer) room(n tenant.Name) int {
	most, countQueued := i.sharing.most, i.sharing.countQueued
	if !i.debts.owesMuch(n, len(i.given[n])) {
		if !i.sharing.hidesParked || i.debts.debt(n) > 0 {
			return releasedAtOnce
		}
		// How long workers will work for it is not known before one of them is done.
		most, countQueued = max(1, i.debts.workers/2), false
	}
	i.prune(n)
	count := 0
	for _, g := range i.given[n] {
		if g.working || countQueued {
			count++
		}
	}
	return most - count
}

// prune forgets what counts no more. It is called with the lock.
func (i *fairInformer) prune(n tenant.Name) {
	maps.DeleteFunc(i.given[n], func(_ string, g given) bool { return i.debts.now().After(g.until) })
	if len(i.given[n]) == 0 {
		delete(i.given, n)
	}
}

// done is called when a worker is done with an object, or does not find it any more.
func (i *fairInformer) done(n tenant.Name, key string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	keyed.Delete(i.given, n, key)
	if i.parked[n] != nil {
		go i.release(n) // the controller's queue is locked
	}
}

// GetIndexer implements cache.SharedIndexInformer.
func (i *fairInformer) GetIndexer() cache.Indexer {
	return fairIndexer{i.SharedIndexInformer.GetIndexer(), i}
}

type fairIndexer struct {
	cache.Indexer
	of *fairInformer
}

// GetByKey implements cache.Store.
func (i fairIndexer) GetByKey(key string) (any, bool, error) {
	obj, exists, err := i.Indexer.GetByKey(key)
	if err != nil {
		return nil, false, err
	}
	n, err := spaceOfKey(key)
	if err != nil || isExempted() {
		return obj, exists, err
	}
	switch {
	case !exists:
		i.of.gone(n, key)
		return nil, false, nil
	case i.of.take(n, key):
		return obj, true, nil
	case i.of.sharing.hidesParked:
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
func (i *fairInformer) take(n tenant.Name, key string) bool {
	if !n.IsSpace() {
		workers.OnDone(func(_ time.Duration, failed bool) {
			i.done(n, key)
			i.again(n, key, failed)
		})
		return true
	}
	done := func(took time.Duration, failed bool) {
		i.debts.work(n, took)
		i.done(n, key)
		i.again(n, key, failed)
	}
	if i.sharing.showsParked {
		// A worker may ask for the owner of each of thousands of pods.
		if !i.isWorkedOn(n, key) && workers.OnDone(done) {
			i.mu.Lock()
			i.note(n, key, true)
			i.mu.Unlock()
		}
		return true
	}
	gets, known := i.give(n, key, nil, true)
	if gets && !workers.OnDone(done) && !known {
		i.done(n, key) // it belongs to the item that the worker works on already
	}
	return gets
}

// parkAll parks all objects of a namespace.
func (i *fairInformer) parkAll(n tenant.Name, namespace string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.parkedOf(n).namespaces.Insert(namespace)
}

// look calls find, which looks for objects that an event concerns, and charges the tenant of the namespace
// for it. If its events have taken long, it parks all objects of the namespace instead, and returns false.
func (i *fairInformer) look(namespace string, find func()) bool {
	n, is := tenant.Flat(namespace).Tenant()
	if !is {
		find()
		return true
	}
	if i.handling.debt(n) > maxDebt {
		i.parkAll(n, namespace)
		return false
	}
	began := time.Now()
	find()
	i.handling.charge(n, time.Since(began))
	return true
}
