package flowcontrol

import (
	"sync/atomic"
	"time"

	"github.com/tenantry/tenantry/internal/tenant"
)

const (
	// company is for how long after another tenant's request a tenant is not alone.
	company = time.Second
	// mostRest bounds how long a place rests after a request.
	mostRest = 5 * time.Millisecond
)

// turns notices whether one tenant is served at a time or several are.
//
// While several are, a place rests after a request for as long as that took.
// Otherwise a busy tenant, whose next request always waits, would never let the
// cores go idle, and Go's scheduler looks for what has arrived on the network
// only then, or every 10 milliseconds: longer than most requests take.
type turns struct{ last atomic.Pointer[turn] }

type turn struct {
	tenant tenant.Name
	since  time.Time // when it took over from another
}

// shared notes a request of n and reports whether other tenants are served, too.
func (t *turns) shared(n tenant.Name, now time.Time) bool {
	last := t.last.Load()
	switch {
	case last == nil:
		t.last.Store(&turn{tenant: n})
		return false
	case last.tenant != n:
		t.last.Store(&turn{tenant: n, since: now})
		return true
	default:
		return now.Sub(last.since) < company
	}
}

// rest returns for how long a place rests after a request that took some time.
func rest(took time.Duration) time.Duration { return min(took, mostRest) }
