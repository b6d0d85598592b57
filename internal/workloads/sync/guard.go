package sync

import (
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
)

const (
	// DefaultOrphanLimit is how many objects may go, however few there are, without anybody having been seen to
	// delete what they are made of.
	DefaultOrphanLimit = 50
	// orphanShare is which part of all objects more than that must not be.
	orphanShare = 10
	// orphanWindow is the time in which they are counted.
	orphanWindow = 10 * time.Minute
)

// guard stops what would delete too much: who reads an old backup, another etcd or another host finds
// most objects without what they are made of.
type guard struct {
	clock clock.PassiveClock
	// limit is how many may go in any case, and what names them.
	limit  int
	what   string
	wayOut string

	mu   sync.Mutex
	gone []time.Time
	// halted is why nothing may go until a restart.
	halted error
}

// guards are those of objects of the host without their own, and of pods of spaces that are not on the host any more.
type guards struct{ orphans, losses *guard }

func newGuards(c clock.PassiveClock, limit int, wayOut string) guards {
	return guards{
		orphans: &guard{clock: c, limit: limit, what: "objects on the host are made of what no space has", wayOut: wayOut},
		losses:  &guard{clock: c, limit: limit, what: "pods of spaces have run on a host, and are not on this one", wayOut: wayOut},
	}
}

// begin looks, before any has gone, whether so many of all may go. If not, none will.
func (g *guard) begin(going, all int) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.halted = g.check(going, all)
	return g.halted
}

// allow returns nil if one more object of so many may go.
func (g *guard) allow(all int) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.halted != nil {
		return g.halted
	}
	now := g.clock.Now()
	for len(g.gone) > 0 && now.Sub(g.gone[0]) > orphanWindow {
		g.gone = g.gone[1:]
	}
	if err := g.check(len(g.gone)+1, all+len(g.gone)); err != nil {
		return err
	}
	g.gone = append(g.gone, now)
	return nil
}

// check returns nil if so many of all objects may go.
func (g *guard) check(going, all int) error {
	if going <= g.limit || going*orphanShare <= all {
		return nil
	}
	return fmt.Errorf("%d of %d %s: this is probably another etcd or host, or an old backup, so nothing more is deleted: %s",
		going, all, g.what, g.wayOut)
}

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
