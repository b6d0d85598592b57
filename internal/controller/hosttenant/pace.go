package hosttenant

import (
	"sync"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tenantry/tenantry/api/v1alpha1"
)

const (
	// eventRate is how many Tenants of a ControlPlane are looked at each second because
	// something changes in it, and eventBurst how many at once. Each costs the host a few
	// requests at most.
	eventRate, eventBurst = 20, 200
	// settlePeriod is after what time a Tenant is looked at that has changed in a control plane: a
	// new one changes some times in a row, and the host is told once.
	settlePeriod = 100 * time.Millisecond
	// countPeriod is the same for one of which only what it may use and uses has changed: that changes as
	// long as somebody works in the space, and each time the host would store the Tenant anew.
	countPeriod = 30 * time.Second
	// looksOfChange is how often a Tenant may have to be looked at after a change of the host until
	// it is Ready and counted: then none waits for its turn. maxCredit bounds what of it is saved.
	looksOfChange, maxCredit = 16, 100_000
)

// pace bounds how often the Tenants of a ControlPlane are looked at because of its own events, so
// that servers that change their objects all the time do not make the operator ask and write the
// host without end. What follows a change of the host is not bounded by it.
type pace struct {
	limit *rate.Limiter

	mu     sync.Mutex
	credit int
	// known are the changes of the host by the names of Tenants: each counts once, whatever the
	// servers make of it.
	known map[string]change
	// delayed are the Tenants that wait for their turn, once each.
	delayed map[string]turn
}

// turn is when a Tenant may be looked at, by the limit, and when it is.
type turn struct {
	allowed, due time.Time
	timer        *time.Timer
}

// change is what the host wants of a Tenant.
type change struct {
	uid        types.UID
	generation int64
}

func newPace() *pace {
	return &pace{limit: rate.NewLimiter(eventRate, eventBurst), known: map[string]change{}, delayed: map[string]turn{}}
}

// changed notes that a Tenant of the control plane is written for what the host wants.
func (p *pace) changed(t *v1alpha1.Tenant) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if is := (change{t.UID, t.Generation}); p.known[t.Name] != is {
		p.known[t.Name] = is
		p.credit = min(p.credit+looksOfChange, maxCredit)
	}
}

// forget forgets a Tenant that is gone.
func (p *pace) forget(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.known, name)
}

// enqueue calls add for a Tenant after settle or, if that is later, when it is its turn. For one that waits
// already it is called once, at the earlier time.
func (p *pace) enqueue(name string, settle time.Duration, add func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	next, waits := p.delayed[name]
	if !waits {
		next.allowed = now
		if p.credit > 0 {
			p.credit--
		} else {
			next.allowed = now.Add(p.limit.Reserve().Delay())
		}
	}
	due := now.Add(settle)
	if due.Before(next.allowed) {
		due = next.allowed
	}
	if waits {
		if !due.Before(next.due) || !next.timer.Stop() {
			return
		}
	}
	next.due, next.timer = due, time.AfterFunc(due.Sub(now), func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.delayed, name)
		add()
	})
	p.delayed[name] = next
}
