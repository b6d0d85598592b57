package sync

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/tenantry/tenantry/internal/tenant"
)

const (
	// DefaultOrphanLimit is how many objects may go, however few there are, without anybody having been seen to
	// delete what they are made of.
	DefaultOrphanLimit = 50
	// orphanShare is which part of all objects more than that must not be.
	orphanShare = 10
	// orphanTenants is which part of these may be of one tenant: what one deletes while no syncer works is not to halt
	// the others.
	orphanTenants = 2
	// orphanWindow is the time in which they are counted.
	orphanWindow = 10 * time.Minute
)

// guard stops mass deletion. After an old backup is restored, or with another etcd or host, most objects seem to have
// no counterpart.
type guard struct {
	clock clock.PassiveClock
	// limit is how many may go in any case, and share which part of all.
	limit, share int
	// what names them, and because says what it means that so many would go.
	what, because, wayOut string

	mu sync.Mutex
	// gone has what has gone, or was to go and may not have, in the order in which it was to go first.
	gone []goingObject
	// halted is why nothing may go until a restart, and told whether the log says that something may not.
	halted error
	told   bool
}

type goingObject struct {
	uid types.UID
	at  time.Time
}

// haltedError is why an object does not go, and whether it is the first: there may be ten thousand.
type haltedError struct {
	error
	first bool
}

// guards are those of objects of the host without their own, and of pods of spaces that are not on the host any more.
type guards struct {
	orphans *tenantsGuard
	losses  *tenantsGuard
}

func newGuards(c clock.PassiveClock, limit int, wayOut string) guards {
	const because = "this is probably another etcd or host, or an old backup, so nothing more is deleted"
	guardOf := func(held, what, ofOne string) *tenantsGuard {
		whole := &guard{clock: c, limit: limit, share: orphanShare, what: what, because: because, wayOut: wayOut}
		return &tenantsGuard{guard: whole, ofOne: ofOne, held: held, byTenant: map[tenant.Name]*guard{}}
	}
	return guards{
		orphans: guardOf(heldOrphans, "objects on the host are made of what no space has",
			"it has deleted them while no syncer worked, or this is an old backup, so nothing more of this tenant is deleted"),
		losses: guardOf(heldLosses, "pods of spaces have run on a host, and are not on this one", "the host has lost many pods of this tenant, so no more of them are deleted for now"),
	}
}

// tenantsGuard stops a tenant alone of whose objects too many would go, and all if it would be too many in all, or of
// most tenants.
type tenantsGuard struct {
	*guard
	// ofOne is why what goes of one tenant is too much.
	ofOne string
	// held is what a metric calls what may not go.
	held string
	ofMu sync.Mutex
	// byTenant are those of tenants of which objects have gone within the window, or are not to go.
	byTenant map[tenant.Name]*guard
}

// begin looks, before any has gone, whether so many of all may go of tenants: of all that have objects on the host,
// also those of which none is to go. An old backup lacks much of most of them. Those of which too much would go are
// halted, so that nothing of theirs goes: together they count as one, as two or three that have deleted much while no
// syncer worked would halt all the others otherwise.
func (o *tenantsGuard) begin(going map[tenant.Name]int, all int) error {
	var errs []error
	sum, rest, halted := 0, 0, 0
	for n, going := range going {
		if going == 0 {
			continue
		}
		sum += going
		of := o.ofTenant(n)
		if err := of.begin(going, all); err == nil {
			rest += going
			continue
		} else if errs = append(errs, err); len(errs) == 1 {
			halted = of.most(all)
		}
	}
	if len(errs) < 2 || 2*len(errs) <= len(going) {
		sum = rest + halted
	}
	if err := o.guard.begin(sum, all); err != nil {
		return err
	}
	return errors.Join(errs...)
}

// allow returns nil if an object of a tenant, and of so many, may go. What may not go does not count, and what may and
// does not go, as somebody refuses it, counts once.
func (o *tenantsGuard) allow(n tenant.Name, uid types.UID, all int) error {
	of := o.ofTenant(n)
	of.mu.Lock()
	defer of.mu.Unlock()
	o.guard.mu.Lock()
	defer o.guard.mu.Unlock()
	both := []*guard{of, o.guard}
	for _, g := range both {
		if err := g.mayGo(uid, all); err != nil {
			first := !g.told
			g.told = true
			heldDeletions.WithLabelValues(o.held).Inc()
			return haltedError{err, first}
		}
	}
	for _, g := range both {
		g.note(uid)
	}
	return nil
}

// isHalted reports whether nothing of a tenant may go until a restart.
func (o *tenantsGuard) isHalted(n tenant.Name) bool {
	for _, g := range []*guard{o.guard, o.ofTenant(n)} {
		g.mu.Lock()
		halted := g.halted != nil
		if g.mu.Unlock(); halted {
			return true
		}
	}
	return false
}

func (o *tenantsGuard) ofTenant(n tenant.Name) *guard {
	o.ofMu.Lock()
	defer o.ofMu.Unlock()
	if o.byTenant[n] == nil {
		maps.DeleteFunc(o.byTenant, func(_ tenant.Name, of *guard) bool { return of.isIdle() })
		o.byTenant[n] = &guard{
			clock: o.clock, limit: (o.limit + 1) / orphanTenants, share: orphanTenants * o.share, wayOut: o.wayOut,
			what: fmt.Sprintf("%s, and are of the tenant %q", o.what, n), because: o.ofOne,
		}
	}
	return o.byTenant[n]
}

// isIdle reports whether nothing has gone within the window, and more may go.
func (g *guard) isIdle() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.halted == nil && (len(g.gone) == 0 || g.clock.Since(g.gone[len(g.gone)-1].at) > orphanWindow)
}

// begin looks, before any has gone, whether so many of all may go. If not, none will.
func (g *guard) begin(going, all int) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.halted = g.check(going, all)
	return g.halted
}

// mayGo returns nil if an object of so many may go. The lock is held.
func (g *guard) mayGo(uid types.UID, all int) error {
	if g.halted != nil {
		return g.halted
	}
	for len(g.gone) > 0 && g.clock.Since(g.gone[0].at) > orphanWindow {
		g.gone = g.gone[1:]
	}
	if g.has(uid) {
		return nil
	}
	return g.check(len(g.gone)+1, all+len(g.gone))
}

func (g *guard) has(uid types.UID) bool {
	return slices.ContainsFunc(g.gone, func(o goingObject) bool { return o.uid == uid })
}

// note notes that an object goes. The lock is held.
func (g *guard) note(uid types.UID) {
	if !g.has(uid) {
		g.told = false
		g.gone = append(g.gone, goingObject{uid, g.clock.Now()})
	}
}

// check returns nil if so many of all objects may go.
func (g *guard) check(going, all int) error {
	if going <= g.most(all) {
		return nil
	}
	return fmt.Errorf("%d of %d %s: %s: %s", going, all, g.what, g.because, g.wayOut)
}

// most returns how many of all may go.
func (g *guard) most(all int) int { return max(g.limit, all/g.share) }

// deletions are what somebody was seen to delete, for as long as an orphan of it may be found.
type deletions struct {
	clock clock.PassiveClock

	mu   sync.Mutex
	seen map[types.UID]deletion
	next time.Time
}

type deletion struct {
	at time.Time
	// forced is whether it is a pod: one that ends by itself is there until the host's has ended, and no quota
	// counts one that is not.
	forced bool
}

func newDeletions(c clock.PassiveClock) *deletions {
	return &deletions{clock: c, seen: map[types.UID]deletion{}}
}

// note notes a deletion, and forgets old ones.
func (d *deletions) note(uid types.UID, forced bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := d.clock.Now()
	if now.After(d.next) {
		d.next = now.Add(orphanWindow)
		for old, seen := range d.seen {
			if now.Sub(seen.at) > orphanWindow {
				delete(d.seen, old)
			}
		}
	}
	d.seen[uid] = deletion{at: now, forced: forced}
}

// of returns the deletion of an object, if it was seen.
func (d *deletions) of(uid types.UID) (deletion, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	seen, ok := d.seen[uid]
	return seen, ok
}
