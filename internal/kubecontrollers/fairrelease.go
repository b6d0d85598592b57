package kubecontrollers

import (
	"time"

	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/tools/cache"

	"github.com/tenantry/tenantry/internal/tenant"
)

// parkedOf returns what is parked of a tenant. It is called with the lock. There is one timer for each tenant
// that has parked objects.
func (i *fairInformer) parkedOf(n tenant.Name) *parked {
	p := i.parked[n]
	if p == nil {
		p = &parked{was: map[string]any{}, namespaces: sets.New[string]()}
		p.timer = time.AfterFunc(releasePeriod, func() { i.releaseAgain(n) })
		i.parked[n] = p
	}
	return p
}

// releaseAgain releases objects until none is parked.
func (i *fairInformer) releaseAgain(n tenant.Name) {
	i.release(n)
	i.mu.Lock()
	defer i.mu.Unlock()
	if p := i.parked[n]; p != nil {
		p.timer.Reset(releasePeriod)
	}
}

// release has the controller hear of parked objects, if they are still there, as far as it is their turn.
func (i *fairInformer) release(n tenant.Name) {
	defer utilruntime.HandleCrash()
	for _, next := range i.next(n) {
		obj, exists, err := i.SharedIndexInformer.GetIndexer().GetByKey(next.key)
		if err != nil || !exists {
			i.gone(n, next.key)
			continue
		}
		for _, handler := range i.handlers {
			handler.OnAdd(obj, false) // some take no update in which nothing has changed
			if next.was != nil {
				handler.OnUpdate(next.was, obj) // some look for what has
			}
		}
	}
}

// released is the key of an object, and the object as the controller heard of it last, or nil.
type released struct {
	key string
	was any
}

// next returns what to release.
func (i *fairInformer) next(n tenant.Name) (next []released) {
	i.mu.Lock()
	defer i.mu.Unlock()
	p := i.parked[n]
	if p == nil || i.handling.debt(n) > maxDebt {
		return nil
	}
	for namespace := range p.namespaces {
		keys, err := i.SharedIndexInformer.GetIndexer().IndexKeys(cache.NamespaceIndex, namespace)
		if err == nil { // the index is there
			for _, key := range keys {
				p.add(key, nil)
			}
		}
	}
	clear(p.namespaces)
	keys := p.keys[:min(max(0, i.room(n)), len(p.keys))]
	p.keys = p.keys[len(keys):]
	for _, key := range keys {
		next = append(next, released{key, p.was[key]})
		delete(p.was, key)
		i.note(n, key, false)
	}
	if len(p.keys) == 0 {
		p.timer.Stop()
		delete(i.parked, n)
	}
	return next
}
