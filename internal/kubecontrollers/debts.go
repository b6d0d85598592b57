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
// goes by. A tenant that owes much is served when others do not wait, see fairInformer.
type debts struct {
	now     func() time.Time
	workers int
	// parallel is how many workers count as one: as many as there are cores work at the same time.
	parallel time.Duration

	mu sync.Mutex
	// until is when what a tenant had done is paid back.
	until map[tenant.Name]time.Time
	// usual is how long a worker usually works on an item of a tenant that owes something.
	usual map[tenant.Name]time.Duration
	// latest are the last two tenants that were charged, or wait.
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

// take charges a tenant for work that takes some time. If it is not the tenant's turn it
// returns an error, after which the controller tries again later.
func (d *debts) take(n tenant.Name, took time.Duration) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.owes(n) > maxDebt {
		return errNotInTurn(n)
	}
	// What takes longer than one may owe is done all the same, and paid back wholly.
	d.add(n, took, max(maxOwed, debtDivisor*took))
	return nil
}

func errNotInTurn(n tenant.Name) error {
	return fmt.Errorf("this controller has just worked long for tenant %q; it is the turn of other tenants", n)
}

// charge is take for work that has been done. What it took may be a stall of the server.
func (d *debts) charge(n tenant.Name, took time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.add(n, took, maxOwed)
}

// work charges a tenant for what a worker has done: with an item or, if workers are not measured, for a request.
func (d *debts) work(n tenant.Name, took time.Duration) {
	took /= d.parallel
	d.mu.Lock()
	defer d.mu.Unlock()
	d.add(n, took, maxOwed)
	d.usual[n] += (took - d.usual[n]) / 4
}

// owesMuch reports whether a tenant owes much, or will when workers are done with a number of items.
func (d *debts) owesMuch(n tenant.Name, items int) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.owes(n)+time.Duration(items)*debtDivisor*d.usual[n] > maxDebt
}

// waits notes that a tenant has something for the controller to do. It may be behind much of another's in a queue.
func (d *debts) waits(n tenant.Name) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.see(n)
}

func (d *debts) see(n tenant.Name) {
	if d.latest[0].tenant != n {
		d.latest[1] = d.latest[0]
	}
	d.latest[0] = charged{n, d.now()}
}

// contended reports whether another tenant was charged, or began to wait, a short while ago.
func (d *debts) contended(n tenant.Name) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, c := range d.latest {
		if c.tenant != "" && c.tenant != n && d.now().Sub(c.at) < contention {
			return true
		}
	}
	return false
}

// collects is for the garbage collector, which gets no items from a lister. What it writes for a tenant is not refused:
// it has read a lot for it before.
func (d *debts) collects(method string, n tenant.Name) bool {
	return method != http.MethodGet || d.debt(n) < maxOwed-maxDebt/2 || !d.contended(n)
}

// mayStillSend is for a controller that goes on where it was when an item comes again. Others' wait for at most as
// many items as there are workers.
func mayStillSend(*debts, string, tenant.Name) bool { return workers.Worked() < maxWorked }

// mayStillRead is mayStillSend for a controller that writes what it has found only at the end. An item that needs
// longer fails, which the controller writes too: for a budget, that nothing may be disrupted.
func mayStillRead(_ *debts, method string, _ tenant.Name) bool {
	return method != http.MethodGet || workers.Worked() < maxWorked
}

// debt returns how long a tenant pays back for what it had done.
func (d *debts) debt(n tenant.Name) time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.owes(n)
}

// owes returns the time until what a tenant had done is paid back.
func (d *debts) owes(n tenant.Name) time.Duration { return max(d.until[n].Sub(d.now()), 0) }

func (d *debts) add(n tenant.Name, took, most time.Duration) {
	d.see(n)
	owes := d.owes(n)
	until := d.now().Add(min(owes+debtDivisor*took, max(owes, most)))
	for other, paid := range d.until {
		if !paid.After(d.now()) {
			delete(d.until, other)
			delete(d.usual, other)
		}
	}
	d.until[n] = until
}
