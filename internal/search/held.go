package search

import (
	"sync"

	"github.com/tenantry/tenantry/internal/process/keyed"
	"github.com/tenantry/tenantry/internal/tenant"
)

const (
	// connectionBytes and watchBytes are what a connection and a subscription take, with the requests that they are,
	// whatever they hold.
	connectionBytes, watchBytes = 64 << 10, 64 << 10
	// stateBytes is what an object takes beside its JSON while a subscription knows it.
	stateBytes = 128
)

// held is what the connections of all tenants hold in memory: what their subscriptions know, and what waits to be
// written. Each tenant has a bound of its own, and they have this one together. A tenant that holds little is not
// refused because of one that holds much.
type held struct {
	// most is how many bytes these are, zero any number.
	most int64

	mu     sync.Mutex
	bytes  int64
	tenant map[tenant.Name]int64
	of     map[tenant.Name]map[*holder]struct{}
}

// holder is one connection.
type holder struct {
	in     *held
	tenant tenant.Name
	bytes  int64
	// expel ends it. It must not wait.
	expel func()
}

// tooMuch is what a client is told that is refused, or whose connection is ended.
const tooMuch = "all web sockets hold more memory than this server gives them, and this tenant's the most; subscribe to less"

// enter counts a connection until it leaves. It returns nil if there is no room, and no tenant holds more than this
// one.
func (h *held) enter(n tenant.Name, expel func()) *holder {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.tenant == nil {
		h.tenant, h.of = map[tenant.Name]int64{}, map[tenant.Name]map[*holder]struct{}{}
	}
	if h.exceeds(connectionBytes) && h.tenant[n]+connectionBytes >= h.tenant[h.fullest()] {
		limited.WithLabelValues("memory").Inc()
		return nil
	}
	o := &holder{in: h, tenant: n, expel: expel}
	keyed.Set(h.of, n, o, struct{}{})
	h.add(o, connectionBytes)
	return o
}

func (h *held) exceeds(more int64) bool { return h.most > 0 && h.bytes+more > h.most }

// fullest returns the tenant that holds the most.
func (h *held) fullest() (fullest tenant.Name) {
	for n, bytes := range h.tenant {
		if bytes > h.tenant[fullest] {
			fullest = n
		}
	}
	return fullest
}

// add notes that a connection holds more, or less. Beyond the bound the largest connection of the tenant that holds the
// most is ended.
func (o *holder) add(bytes int64) {
	o.in.mu.Lock()
	defer o.in.mu.Unlock()
	if _, ok := o.in.of[o.tenant][o]; ok { // else it was ended
		o.in.add(o, bytes)
	}
}

// add is called with the lock.
func (h *held) add(o *holder, bytes int64) {
	o.bytes += bytes
	h.tenant[o.tenant] += bytes
	h.bytes += bytes
	for bytes > 0 && h.exceeds(0) {
		var largest *holder
		for other := range h.of[h.fullest()] {
			if largest == nil || other.bytes > largest.bytes {
				largest = other
			}
		}
		limited.WithLabelValues("memory").Inc()
		h.remove(largest)
		largest.expel()
	}
}

// leave is the end of a connection.
func (o *holder) leave() {
	o.in.mu.Lock()
	defer o.in.mu.Unlock()
	o.in.remove(o)
}

func (h *held) remove(o *holder) {
	if _, ok := h.of[o.tenant][o]; !ok {
		return
	}
	keyed.Delete(h.of, o.tenant, o)
	h.bytes -= o.bytes
	if h.tenant[o.tenant] -= o.bytes; len(h.of[o.tenant]) == 0 {
		delete(h.tenant, o.tenant)
	}
}

// total returns how many bytes are held.
func (h *held) total() int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.bytes
}
