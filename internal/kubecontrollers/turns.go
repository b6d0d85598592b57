package kubecontrollers

import (
	"fmt"
	"sync"
	"time"

	"github.com/tenantry/tenantry/internal/tenant"
)

// turns are the shares of tenants in what a worker does between requests, which package spaces
// does not see. Each has a quarter of the time of one worker when it has more to do than for a
// short while.
type turns struct {
	now func() time.Time

	mu sync.Mutex
	// until is when what a tenant had done is paid back.
	until map[tenant.Name]time.Time
}

func newTurns() *turns { return &turns{now: time.Now, until: map[tenant.Name]time.Time{}} }

const (
	turnDivisor = 4
	maxTurnDebt = 10 * time.Second
)

// take charges a tenant for work that takes some time. If it is not the tenant's turn it
// returns an error, after which the controller tries again later.
func (t *turns) take(n tenant.Name, took time.Duration) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.now()
	for other, until := range t.until {
		if !until.After(now) {
			delete(t.until, other)
		}
	}
	until, owes := t.until[n]
	if !owes {
		until = now
	}
	if until.Sub(now) > maxTurnDebt {
		return fmt.Errorf("this controller has just worked long for tenant %q; it is the turn of other tenants", n)
	}
	t.until[n] = until.Add(turnDivisor * took)
	return nil
}
