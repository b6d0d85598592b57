package kubecontrollers

import (
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"

	"github.com/tenantry/tenantry/internal/spaces"
	"github.com/tenantry/tenantry/internal/tenant"
)

// The collector keeps a node for every object it hears of. Nearly all objects of
// an idle tenant own nothing and are owned by nothing; it does not hear of them
// before that changes:
//
//   - an object with owners, or that has lost them, or that is being deleted, is
//     always of interest;
//   - any other object is once something names it as its owner. It is then shown
//     to the collector before what it owns.

// interest is what the collector has been shown of owners.
type interest struct {
	typed informers.SharedInformerFactory
	// waits is called with the tenants of objects about which the collector has something to do.
	waits func(tenant.Name)

	mu sync.Mutex
	// owners are the identities (flattened UIDs) that objects name as owner,
	// whether or not they exist.
	owners map[types.UID]named
	// handlers are the collector's own, by resource.
	handlers map[schema.GroupVersionResource]cache.ResourceEventHandler
}

// named is what is known of an owner.
type named struct {
	// objects is how many name it.
	objects int
	// shown says that the collector has been shown it.
	shown bool
}

func newInterest(typed informers.SharedInformerFactory, waits func(tenant.Name)) *interest {
	return &interest{
		typed:    typed,
		waits:    waits,
		owners:   map[types.UID]named{},
		handlers: map[schema.GroupVersionResource]cache.ResourceEventHandler{},
	}
}

// handler returns a handler that calls next, the collector's for a resource,
// with the identities of the objects that are of interest.
func (i *interest) handler(resource schema.GroupVersionResource, next cache.ResourceEventHandler) cache.ResourceEventHandler {
	i.mu.Lock()
	i.handlers[resource] = next
	i.mu.Unlock()
	return i.following(next, identityOf, i.concerns)
}

// following returns a handler that calls next with the identities of the objects that
// are of interest, after it has shown those of their owners that the collector does not
// hear of by itself.
func (i *interest) following(next cache.ResourceEventHandler, identity func(any) any, concerns func(any) bool) cache.ResourceEventHandler {
	return cache.ResourceEventHandlerDetailedFuncs{
		AddFunc: func(obj any, initial bool) {
			if object := identity(obj); concerns(object) {
				i.showOwners(object)
				i.noteWork(object, !initial && (hasOwners(object) || isEnding(object)))
				next.OnAdd(object, initial)
			}
		},
		UpdateFunc: func(old, obj any) {
			before, object := identity(old), identity(obj)
			if concerns(object) || hasOwners(before) {
				if !sameOwners(before, object) {
					i.showOwners(object)
					i.release(before)
				}
				i.noteWork(object, !sameOwners(before, object) || isEnding(object))
				next.OnUpdate(before, object)
			}
		},
		DeleteFunc: func(obj any) {
			object := identity(obj)
			i.noteWork(object, concerns(object))
			i.release(object)
			next.OnDelete(object)
		},
	}
}

// noteWork notes that a tenant waits for the collector, which looks at all that an object owns, or is owned by.
func (i *interest) noteWork(obj any, is bool) {
	if object, ok := obj.(metav1.Object); ok && is {
		i.waits(tenant.Flat(object.GetName()).Space())
	}
}

func isEnding(obj any) bool {
	object, ok := obj.(metav1.Object)
	return ok && object.GetDeletionTimestamp() != nil
}

func hasOwners(obj any) bool {
	object, ok := obj.(metav1.Object)
	return !ok || len(object.GetOwnerReferences()) > 0
}

func sameOwners(before, after any) bool {
	old, wasObject := before.(metav1.Object)
	object, isObject := after.(metav1.Object)
	return wasObject && isObject && slices.EqualFunc(old.GetOwnerReferences(), object.GetOwnerReferences(),
		func(a, b metav1.OwnerReference) bool { return a.UID == b.UID && a.Name == b.Name })
}

func (i *interest) concerns(obj any) bool {
	object, ok := obj.(metav1.Object)
	if !ok || hasOwners(obj) || object.GetDeletionTimestamp() != nil {
		return true
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.owners[object.GetUID()].objects > 0
}

// release takes back what an object, or a former state of it, has noted.
func (i *interest) release(obj any) {
	object, ok := obj.(metav1.Object)
	if !ok {
		return
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, owner := range object.GetOwnerReferences() {
		known := i.owners[owner.UID]
		if known.objects--; known.objects <= 0 {
			delete(i.owners, owner.UID)
			continue
		}
		i.owners[owner.UID] = known
	}
}

// showOwners shows the collector the owners of an object that it has not heard
// of. An owner whose event comes later is of interest by then: it is noted
// first, and the shared store has what handlers were called for.
func (i *interest) showOwners(obj any) {
	object, ok := obj.(metav1.Object)
	if !ok {
		return
	}
	for _, owner := range object.GetOwnerReferences() {
		if i.note(owner.UID) {
			continue
		}
		// An object that names the owner wrongly (out of its namespace, say) does not
		// lead to it. The next one may.
		if i.show(object.GetNamespace(), owner) {
			i.noteShown(owner.UID)
		}
	}
}

// show shows the collector an owner and reports whether there is one. The owner's own
// events come concurrently and may overtake this one, so it is looked up again until it
// has not changed: what the collector hears last is what the store has.
func (i *interest) show(namespace string, owner metav1.OwnerReference) bool {
	shown, next := i.find(namespace, owner)
	if shown == nil {
		return false
	}
	next.OnAdd(shown, false)
	for {
		latest, _ := i.find(namespace, owner)
		if latest == nil {
			next.OnDelete(shown)
			return false
		}
		if latest.GetResourceVersion() == shown.GetResourceVersion() {
			return true
		}
		next.OnUpdate(shown, latest)
		shown = latest
	}
}

// note notes an owner and reports whether the collector has been shown it.
func (i *interest) note(uid types.UID) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	known := i.owners[uid]
	known.objects++
	i.owners[uid] = known
	return known.shown
}

func (i *interest) noteShown(uid types.UID) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if known, ok := i.owners[uid]; ok {
		known.shown = true
		i.owners[uid] = known
	}
}

// find returns the identity of an owner from the shared informers, and the
// collector's handler for it.
func (i *interest) find(namespace string, owner metav1.OwnerReference) (metav1.Object, cache.ResourceEventHandler) {
	resource, ok := spaces.ResourceOf(schema.FromAPIVersionAndKind(owner.APIVersion, owner.Kind))
	if !ok {
		return nil, nil
	}
	i.mu.Lock()
	next := i.handlers[resource]
	i.mu.Unlock()
	if next == nil {
		return nil, nil
	}
	informer, err := i.typed.ForResource(resource)
	if err != nil {
		return nil, nil
	}
	name := tenant.Flat(owner.Name).Plain()
	// A namespaced owner is in the object's namespace, by its own name.
	for _, key := range []string{namespace + "/" + name, owner.Name} {
		obj, exists, err := informer.Informer().GetStore().GetByKey(key)
		if err != nil || !exists {
			continue
		}
		if object, ok := identityOf(obj).(metav1.Object); ok && object.GetUID() == owner.UID {
			return object, next
		}
	}
	return nil, nil
}

// AddEventHandlerWithResyncPeriod is what the collector watches with. Resyncs are
// left out: an event without a change tells the graph nothing.
func (i identityIndexInformer) AddEventHandlerWithResyncPeriod(handler cache.ResourceEventHandler, _ time.Duration) (cache.ResourceEventHandlerRegistration, error) {
	return i.SharedIndexInformer.AddEventHandlerWithResyncPeriod(i.interest.handler(i.resource, handler), 0)
}
