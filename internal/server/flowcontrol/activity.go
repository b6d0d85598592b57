package flowcontrol

import (
	"sync/atomic"
	"time"

	"github.com/tenantry/tenantry/internal/tenant"
)

// activity tracks whether one tenant is served at a time or several are.
//
// While several are, a seat is held after a request: reading requests, encrypting and
// sending responses and collecting garbage use the cores for about as long again, but
// outside of a seat; after large responses, for twice as long. So a tenant with a seat for
// each core but one leaves a core to others.
type activity struct{ last atomic.Pointer[period] }

// period is a time in which one tenant is served.
type period struct {
	tenant tenant.Name
	since  time.Time
	after  bool // after another tenant
}

// shared notes a request of n and reports whether other tenants are served, too.
func (t *activity) shared(n tenant.Name, now time.Time) bool {
	last := t.last.Load()
	switch {
	case last == nil:
		t.last.Store(&period{tenant: n, since: now})
		return false
	case last.tenant != n:
		t.last.Store(&period{tenant: n, since: now, after: true})
		return true
	default:
		return last.after && now.Sub(last.since) < othersFor
	}
}

// alone reports whether n has been the only tenant for long.
func (t *activity) alone(n tenant.Name, now time.Time) bool {
	last := t.last.Load()
	return last != nil && last.tenant == n && now.Sub(last.since) >= aloneAfter
}

// holdTime returns how long a seat is held after a request: at most as long as such a
// request takes that does not wait for a core, etcd or its client. After a costly write it is
// the time for which the write kept a core busy, or a multiple of it.
func holdTime(class class, took, busy time.Duration, followUp int) time.Duration {
	switch {
	case class == read:
		return min(took, readHold)
	case class == write && busy >= costlyTime:
		return time.Duration(followUp) * min(busy, costlyHold)
	case class == write:
		return min(took, writeHold)
	default:
		return min(2*took, largeReadHold)
	}
}
