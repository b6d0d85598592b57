package view

import (
	"sync"

	"k8s.io/client-go/tools/cache"

	"github.com/tenantry/tenantry/internal/tenant"
)

// Hub knows which spaces have objects of one type, and passes changes on to the
// handlers of the space. It is one handler of one informer, for all spaces.
type Hub struct {
	handle cache.ResourceEventHandlerRegistration

	mu      sync.Mutex
	spaces  map[tenant.Name]*state
	onEmpty []func(tenant.Name)
}

// state is the state of a space that has objects or handlers.
type state struct {
	objects       int
	subscriptions map[*subscription]struct{}
}

// subscription is one handler in one space.
type subscription struct {
	cache.ResourceEventHandlerRegistration
	tenant  tenant.Name
	handler cache.ResourceEventHandler
}

func newHub(flat cache.SharedIndexInformer) (*Hub, error) {
	h := &Hub{spaces: map[tenant.Name]*state{}}
	handle, err := flat.AddEventHandler(h)
	h.handle = handle
	return h, err
}

// HasSynced reports whether the hub has seen the objects of every space.
func (h *Hub) HasSynced() bool { return h.handle.HasSynced() }

// Has reports whether the space of n has an object.
func (h *Hub) Has(n tenant.Name) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	s, ok := h.spaces[n]
	return ok && s.objects > 0
}

// OnEmpty makes the hub call f when a space has lost its last object. The space's
// handlers are gone by then.
func (h *Hub) OnEmpty(f func(tenant.Name)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.onEmpty = append(h.onEmpty, f)
}

// OnAdd implements cache.ResourceEventHandler.
func (h *Hub) OnAdd(obj any, isInInitialList bool) {
	handlers, _ := h.change(obj, 1)
	for _, s := range handlers {
		s.handler.OnAdd(plain(obj), isInInitialList)
	}
}

// OnUpdate implements cache.ResourceEventHandler.
func (h *Hub) OnUpdate(oldObj, newObj any) {
	handlers, _ := h.change(newObj, 0)
	for _, s := range handlers {
		s.handler.OnUpdate(plain(oldObj), plain(newObj))
	}
}

// OnDelete implements cache.ResourceEventHandler.
func (h *Hub) OnDelete(obj any) {
	handlers, emptied := h.change(obj, -1)
	for _, s := range handlers {
		s.handler.OnDelete(plain(obj))
	}
	if emptied == nil {
		return
	}
	if n, err := spaceOf(obj); err == nil {
		for _, f := range emptied {
			f(n)
		}
	}
}

// change counts an object of the space of obj. It returns the handlers to notify
// and, if it was the last object, the functions to call.
func (h *Hub) change(obj any, count int) (handlers []*subscription, emptied []func(tenant.Name)) {
	n, err := spaceOf(obj)
	if err != nil {
		return nil, nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	s := h.stateOf(n)
	s.objects += count
	for subscribed := range s.subscriptions {
		handlers = append(handlers, subscribed)
	}
	// The system space keeps its instance.
	if s.objects == 0 && n != tenant.System {
		delete(h.spaces, n)
		emptied = h.onEmpty
	}
	return handlers, emptied
}

func (h *Hub) stateOf(n tenant.Name) *state {
	s, ok := h.spaces[n]
	if !ok {
		s = &state{subscriptions: map[*subscription]struct{}{}}
		h.spaces[n] = s
	}
	return s
}

// subscribe calls handler with the objects of a space, the existing ones and all
// later changes.
func (h *Hub) subscribe(objects indexer, handler cache.ResourceEventHandler) *subscription {
	s := &subscription{ResourceEventHandlerRegistration: h.handle, tenant: objects.tenant, handler: handler}
	h.mu.Lock()
	h.stateOf(objects.tenant).subscriptions[s] = struct{}{}
	h.mu.Unlock()
	for _, obj := range objects.List() {
		handler.OnAdd(obj, true)
	}
	return s
}

func (h *Hub) unsubscribe(s *subscription) {
	h.mu.Lock()
	defer h.mu.Unlock()
	state, ok := h.spaces[s.tenant]
	if !ok {
		return
	}
	delete(state.subscriptions, s)
	if state.objects == 0 && len(state.subscriptions) == 0 {
		delete(h.spaces, s.tenant)
	}
}
