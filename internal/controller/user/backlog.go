package user

import (
	"sync"

	"github.com/tenantry/tenantry/internal/tenant"
)

// item is what is to be looked at in a space: a User or, if there is a namespace, what belongs
// to the User there.
type item struct {
	uid, namespace string
	// after is the namespace up to which a User that is being deleted is done with.
	after string
	// failed is whether something has failed in one of these.
	failed bool
}

// backlog is what is to be looked at, by tenant. A tenant is in the queue of the controller
// once, however much that is.
type backlog struct {
	mu    sync.Mutex
	items map[tenant.Name]map[item]bool
}

func (b *backlog) add(n tenant.Name, i item) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.items == nil {
		b.items = map[tenant.Name]map[item]bool{}
	}
	if b.items[n] == nil {
		b.items[n] = map[item]bool{}
	}
	b.items[n][i] = true
}

// take returns at most so many items of a tenant.
func (b *backlog) take(n tenant.Name, most int) []item {
	b.mu.Lock()
	defer b.mu.Unlock()
	var taken []item
	for i := range b.items[n] {
		if len(taken) == most {
			return taken
		}
		taken = append(taken, i)
		delete(b.items[n], i)
	}
	delete(b.items, n)
	return taken
}

// has reports whether there are items of a tenant.
func (b *backlog) has(n tenant.Name) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.items[n]) > 0
}
