package tenant

import (
	"context"
	"errors"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"github.com/tenantry/tenantry/internal/tenant"
)

// errGone is why requests end before they are done.
var errGone = errors.New("the tenant is deleted or suspended")

// group is requests that end at once.
type group struct {
	name tenant.Name
	// uid tells a tenant from others that have had its name.
	uid types.UID
	// system is true for requests of the system's users, which go on in the space
	// of a suspended tenant.
	system bool
}

// admits reports whether requests of the group may run in the state of the tenant
// that has its name.
func (g group) admits(state State, exists bool) bool {
	return exists && state.UID == g.uid && (g.system || !state.Suspended)
}

// requests are those that run in the spaces of tenants.
type requests struct {
	mu sync.Mutex
	of map[group]*running
}

// running are the requests of one group. There is none without requests.
type running struct {
	ctx   context.Context
	end   context.CancelCauseFunc
	count int
}

func (r *requests) begin(g group) *running {
	r.mu.Lock()
	defer r.mu.Unlock()
	own, ok := r.of[g]
	if !ok {
		own = &running{}
		own.ctx, own.end = context.WithCancelCause(context.Background())
		if r.of == nil {
			r.of = make(map[group]*running)
		}
		r.of[g] = own
	}
	own.count++
	return own
}

func (r *requests) done(g group, own *running) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if own.count--; own.count > 0 {
		return
	}
	own.end(nil)
	if r.of[g] == own {
		delete(r.of, g)
	}
}

// settle ends the requests that may no longer run.
func (r *requests) settle(mayRun func(group) bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for g, own := range r.of {
		if !mayRun(g) {
			own.end(errGone)
			delete(r.of, g)
		}
	}
}

// settleOne ends the requests of an earlier state of a tenant that may not run in
// its state now.
func (r *requests) settleOne(n tenant.Name, earlier, now State, exists bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, system := range []bool{false, true} {
		g := group{n, earlier.UID, system}
		if own, ok := r.of[g]; ok && !g.admits(now, exists) {
			own.end(errGone)
			delete(r.of, g)
		}
	}
}

// Bind returns the context of a request in the space of n, which ends with the
// tenant that has the given UID, and what to call when the request is done. A
// watch would otherwise go on in the space of the next tenant of the name, and
// a write that waits for a webhook would end up there. Requests of others than the
// system's users end with the suspension of the tenant, too. The context says which
// tenant it was (tenant.UIDFrom): a server that stalls may learn too late that it ended,
// and etcd compares that (Deletions.Fence).
func (l *Lookup) Bind(ctx context.Context, n tenant.Name, uid types.UID, system bool) (context.Context, context.CancelFunc) {
	g := group{n, uid, system}
	own := l.requests.begin(g)
	ctx, cancel := context.WithCancelCause(tenant.WithUID(ctx, n, uid))
	stop := context.AfterFunc(own.ctx, func() { cancel(errGone) })
	// The tenant may have gone before its requests were known to run.
	if state, ok, err := l.Get(ctx, n); err != nil || !g.admits(state, ok) {
		cancel(errGone)
	}
	return ctx, func() {
		stop()
		cancel(nil)
		l.requests.done(g, own)
	}
}
