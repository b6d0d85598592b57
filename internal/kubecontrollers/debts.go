package kubecontrollers

import (
	"fmt"
	"net/http"
	"runtime"
	"sync"
	"time"

	"github.com/tenantry/tenantry/internal/process/workers"
	"github.com/tenantry/tenantry/internal/tenant"
)

// debts are what tenants owe for the time of a controller's workers, which package spaces sees
// only as far as single requests take long: four times what has been worked for them, paid back as time
// goes by. Who owes much is served when others do not wait, see inTurn.
type debts struct {
	now     func() time.Time
	workers int
	// parallel is how many workers count as one: as many as there are cores work at the same time.
	parallel time.Duration
	// measured is whether workers are measured, and their requests with them.
	measured bool

	mu sync.Mutex
	// until is when what a tenant had done is paid back.
	until map[tenant.Name]time.Time
	// usual is how long a worker usually works on an item of a tenant that owes something.
	usual map[tenant.Name]time.Duration
	// latest are the last two tenants that were charged.
	latest [2]charged
}

type charged struct {
	tenant tenant.Name
	at     time.Time
}

func newDebts(workers int) *debts {
	parallel := time.Duration(min(workers, runtime.GOMAXPROCS(0)))
	return &debts{now: time.Now, workers: workers, parallel: parallel, until: map[tenant.Name]time.Time{}, usual: map[tenant.Name]time.Duration{}}
}

const (
	turnDivisor = 4
	maxTurnDebt = 10 * time.Second
	// maxOwed is how much a tenant owes at most, but for an item that it has taken.
	maxOwed = 2 * maxTurnDebt
	// contention is how long a tenant's work is a reason to make others wait.
	contention = 5 * time.Second
	// maxWorked is after what time a worker sends no more requests for an item. Some thousand have been answered by then.
	maxWorked = 5 * time.Second
)

// take charges a tenant for work that takes some time. If it is not the tenant's turn it
// returns an error, after which the controller tries again later.
func (t *debts) take(n tenant.Name, took time.Duration) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.owes(n) > maxTurnDebt {
		return errNotInTurn(n)
	}
	// What takes longer than one may owe is done all the same, and paid back wholly.
	t.add(n, took, max(maxOwed, turnDivisor*took))
	return nil
}

func errNotInTurn(n tenant.Name) error {
	return fmt.Errorf("this controller has just worked long for tenant %q; it is the turn of other tenants", n)
}

// charge is take for work that has been done. What it took may be a stall of the server.
func (t *debts) charge(n tenant.Name, took time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.add(n, took, maxOwed)
}

// work charges a tenant for what a worker has done.
func (t *debts) work(n tenant.Name, took time.Duration) {
	took /= t.parallel
	t.mu.Lock()
	defer t.mu.Unlock()
	t.add(n, took, maxOwed)
	t.usual[n] += (took - t.usual[n]) / 4
}

// owesMuch reports whether a tenant owes much, or will when workers are done with a number of items.
func (t *debts) owesMuch(n tenant.Name, items int) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.owes(n)+time.Duration(items)*turnDivisor*t.usual[n] > maxTurnDebt
}

// request charges a tenant for a request of a worker, unless that worker is measured.
func (t *debts) request(n tenant.Name, took time.Duration) {
	if !t.measured {
		t.work(n, took)
	}
}

// contended reports whether another tenant was charged a short while ago.
func (t *debts) contended(n tenant.Name) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, c := range t.latest {
		if c.tenant != "" && c.tenant != n && t.now().Sub(c.at) < contention {
			return true
		}
	}
	return false
}

// collects is for the garbage collector, which gets no items from a lister. What it writes for a tenant is not refused: it has
// read a lot for it before.
func (t *debts) collects(method string, n tenant.Name) bool {
	return method != http.MethodGet || t.debt(n) < maxOwed-maxTurnDebt/2 || !t.contended(n)
}

// isShort is for a controller that goes on where it was when an item comes again. Others' wait for at most as
// many items as there are workers.
func isShort(*debts, string, tenant.Name) bool { return workers.Worked() < maxWorked }

// debt returns how long a tenant pays back for what it had done.
func (t *debts) debt(n tenant.Name) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.owes(n)
}

// owes returns the time until what a tenant had done is paid back.
func (t *debts) owes(n tenant.Name) time.Duration { return max(t.until[n].Sub(t.now()), 0) }

func (t *debts) add(n tenant.Name, took, most time.Duration) {
	if t.latest[0].tenant != n {
		t.latest[1] = t.latest[0]
	}
	t.latest[0] = charged{n, t.now()}
	owes := t.owes(n)
	until := t.now().Add(min(owes+turnDivisor*took, max(owes, most)))
	for other, paid := range t.until {
		if !paid.After(t.now()) {
			delete(t.until, other)
			delete(t.usual, other)
		}
	}
	t.until[n] = until
}
