package spacepolicy

import (
	"context"
	"sync"
	"time"

	"github.com/tenantry/tenantry/internal/process/keyed"
	"github.com/tenantry/tenantry/internal/tenant"
)

// pending are objects that were admitted a short while ago, with what they cost. A webhook of their space may hold many
// between admission and the write, and those that are written are known of a moment later.
type pending[C interface{ Max(C) C }] struct {
	mu sync.Mutex
	of map[tenant.Name]map[*admitted[C]]bool
}

type admitted[C any] struct {
	key   string
	costs C
}

// pendingTime is how long an object is pending after its request has ended.
const pendingTime = 10 * time.Second

// include adds what is pending in a space to what is there. Of objects with one key the largest counts, in each
// respect: a write may have no effect. It is called with the lock.
func (p *pending[C]) include(n tenant.Name, all map[string]C) {
	for object := range p.of[n] {
		all[object.key] = object.costs.Max(all[object.key])
	}
}

// add notes an object until some time after its request. It is called with the lock.
func (p *pending[C]) add(ctx context.Context, n tenant.Name, key string, costs C) {
	if p.of == nil {
		p.of = map[tenant.Name]map[*admitted[C]]bool{}
	}
	object := &admitted[C]{key, costs}
	keyed.Set(p.of, n, object, true)
	context.AfterFunc(ctx, func() { time.AfterFunc(pendingTime, func() { p.remove(n, object) }) })
}

func (p *pending[C]) remove(n tenant.Name, object *admitted[C]) {
	p.mu.Lock()
	defer p.mu.Unlock()
	keyed.Delete(p.of, n, object)
}
