package waiting

import (
	"context"
	"sync"

	"github.com/tenantry/tenantry/internal/tenant"
)

// Turns are those of the tenants that have taken or wait for one: a tenant has one at a time. The zero
// value is ready for use.
type Turns struct {
	mu sync.Mutex
	of map[tenant.Name]*turn
}

// turn is taken by who has sent to taken, and kept for who uses it.
type turn struct {
	taken chan struct{}
	users int
}

// Take waits for the turn of a tenant, and returns what to call when it is over. Its error is that of
// ctx, if that ends first.
func (t *Turns) Take(ctx context.Context, n tenant.Name) (release func(), err error) {
	t.mu.Lock()
	if t.of == nil {
		t.of = map[tenant.Name]*turn{}
	}
	own := t.of[n]
	if own == nil {
		own = &turn{taken: make(chan struct{}, 1)}
		t.of[n] = own
	}
	own.users++
	t.mu.Unlock()
	leave := func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if own.users--; own.users == 0 {
			delete(t.of, n)
		}
	}
	select {
	case own.taken <- struct{}{}:
		return func() { <-own.taken; leave() }, nil
	case <-ctx.Done():
		leave()
		return nil, ctx.Err()
	}
}
