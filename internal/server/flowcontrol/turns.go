package flowcontrol

import (
	"sync/atomic"
	"time"

	"github.com/tenantry/tenantry/internal/tenant"
)

// turns notices whether one tenant is served at a time or several are.
//
// While several are, a place rests after a request. To read requests, to encrypt and
// send answers and to collect garbage takes as much of the cores again, and none of it
// in a place; after large answers twice as much. So a tenant with a place for each core
// but one leaves a core to others.
type turns struct{ last atomic.Pointer[turn] }

type turn struct {
	tenant tenant.Name
	since  time.Time
	after  bool // another tenant
}

// shared notes a request of n and reports whether other tenants are served, too.
func (t *turns) shared(n tenant.Name, now time.Time) bool {
	last := t.last.Load()
	switch {
	case last == nil:
		t.last.Store(&turn{tenant: n, since: now})
		return false
	case last.tenant != n:
		t.last.Store(&turn{tenant: n, since: now, after: true})
		return true
	default:
		return last.after && now.Sub(last.since) < othersFor
	}
}

// alone reports whether n has long been the only tenant that is served.
func (t *turns) alone(n tenant.Name, now time.Time) bool {
	last := t.last.Load()
	return last != nil && last.tenant == n && now.Sub(last.since) >= aloneAfter
}

// rest returns for how long a place rests after a request that took some time: no
// longer than such a request takes that did not wait for a core, etcd or its client,
// but after a costly write for as long as that kept a core busy, or a multiple of it.
func rest(class class, took, busy time.Duration, aftermath int) time.Duration {
	switch {
	case class == read:
		return min(took, readRest)
	case class == write && busy >= costlyTime:
		return time.Duration(aftermath) * min(busy, costlyRest)
	case class == write:
		return min(took, writeRest)
	default:
		return min(2*took, largeReadRest)
	}
}
