package flowcontrol

import (
	"sync/atomic"
	"time"

	"github.com/tenantry/tenantry/internal/tenant"
)

const (
	// solitude is after how long without others a tenant has wide lanes, and wide is
	// how many times as wide they are. Nobody has to wait for it then, and requests
	// that wait for etcd leave the cores to others.
	solitude = 10 * time.Second
	wide     = 8
)

// turns notices whether one tenant alone is served.
type turns struct{ last atomic.Pointer[turn] }

type turn struct {
	tenant tenant.Name
	since  time.Time
}

// alone notes a request of n and reports whether n has long been the only tenant.
func (t *turns) alone(n tenant.Name, now time.Time) bool {
	last := t.last.Load()
	if last == nil || last.tenant != n {
		t.last.Store(&turn{tenant: n, since: now})
		return false
	}
	return now.Sub(last.since) >= solitude
}
