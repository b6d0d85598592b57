package tenant

import (
	"context"
	"errors"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"github.com/tenantry/tenantry/internal/tenant"
)

// errGone is why the requests of a deleted tenant end.
var errGone = errors.New("the tenant is deleted")

// incarnation is one of the tenants that have had a name.
type incarnation struct {
	name tenant.Name
	uid  types.UID
}

// requests are those that run in the spaces of tenants.
type requests struct {
	mu sync.Mutex
	of map[incarnation]*running
}

// running are the requests in one tenant's space. There is none without requests.
type running struct {
	ctx   context.Context
	end   context.CancelCauseFunc
	count int
}

func (r *requests) begin(i incarnation) *running {
	r.mu.Lock()
	defer r.mu.Unlock()
	own, ok := r.of[i]
	if !ok {
		own = &running{}
		own.ctx, own.end = context.WithCancelCause(context.Background())
		if r.of == nil {
			r.of = make(map[incarnation]*running)
		}
		r.of[i] = own
	}
	own.count++
	return own
}

func (r *requests) done(i incarnation, own *running) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if own.count--; own.count > 0 {
		return
	}
	own.end(nil)
	if r.of[i] == own {
		delete(r.of, i)
	}
}

// endUnless ends the requests of all tenants that are no longer there.
func (r *requests) endUnless(there func(incarnation) bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, own := range r.of {
		if !there(i) {
			own.end(errGone)
			delete(r.of, i)
		}
	}
}

func (r *requests) end(gone incarnation) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if own, ok := r.of[gone]; ok {
		own.end(errGone)
		delete(r.of, gone)
	}
}

// Attach returns the context of a request in the space of n, which ends with the
// tenant that has the given UID, and what to call when the request is done. A
// watch would otherwise go on in the space of the next tenant of the name, and
// a write that waits for a webhook would end up there.
func (l *Lookup) Attach(ctx context.Context, n tenant.Name, uid types.UID) (context.Context, context.CancelFunc) {
	i := incarnation{n, uid}
	own := l.requests.begin(i)
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(own.ctx, func() { cancel(errGone) })
	// The tenant may have gone before its requests were known to run.
	if state, ok, err := l.Get(ctx, n); err != nil || !ok || state.UID != uid {
		cancel(errGone)
	}
	return ctx, func() {
		stop()
		cancel(nil)
		l.requests.done(i, own)
	}
}
