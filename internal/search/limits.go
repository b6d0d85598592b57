package search

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/tenantry/tenantry/internal/process/keyed"
	"github.com/tenantry/tenantry/internal/search/index"
	"github.com/tenantry/tenantry/internal/tenant"
)

// Limits are what the users of one tenant may take, and those of all together. Zero values are those of DefaultLimits.
type Limits struct {
	// Rows is how many objects an answer has at most.
	Rows int
	// Time is what a search takes at most, with all that it waits for.
	Time time.Duration
	// Concurrency is how many searches of a tenant run at once. Others wait. Of system users, each may have as many.
	Concurrency int
	// SocketBytes is what the web sockets of all tenants together hold in memory at most.
	SocketBytes int64
}

// DefaultLimits are those without flags.
var DefaultLimits = Limits{Rows: MaxLimit, Time: 10 * time.Second, Concurrency: 1, SocketBytes: 512 << 20}

func (l Limits) orDefaults() Limits {
	return Limits{
		Rows: cmp.Or(l.Rows, DefaultLimits.Rows), Time: cmp.Or(l.Time, DefaultLimits.Time),
		Concurrency: cmp.Or(l.Concurrency, DefaultLimits.Concurrency), SocketBytes: cmp.Or(l.SocketBytes, DefaultLimits.SocketBytes),
	}
}

// Validate returns what is wrong with the limits. Zero is, as a flag.
func (l Limits) Validate() error {
	switch {
	case l.Rows < 1 || l.Rows > MaxLimit:
		return fmt.Errorf("--search-max-items is %d, and must be from 1 to %d", l.Rows, MaxLimit)
	case l.Time < time.Second || l.Time > time.Minute:
		return fmt.Errorf("--search-timeout is %s, and must be from 1s to 1m", l.Time)
	case l.Concurrency < 1 || l.Concurrency > index.Readers/2:
		return fmt.Errorf("--search-concurrency is %d, and must be from 1 to %d", l.Concurrency, index.Readers/2)
	case l.SocketBytes < leastSocketBytes:
		return fmt.Errorf("--search-socket-bytes is %d, and must be %d at least", l.SocketBytes, leastSocketBytes)
	}
	return nil
}

// leastSocketBytes is for some connections with all that they may hold.
const leastSocketBytes = 64 << 20

// turns are those of the searches that run or wait: each tenant, and each system user, has a few at a time, and all of
// them together as many as the database answers at once.
type turns struct {
	of keyed.Turns[turnKey]
	// all is taken by every search, and systems by those of system users, who leave some to tenants.
	all, systems chan struct{}
}

// turnKey is whose turn it is: that of a tenant, or of a user of the system.
type turnKey struct {
	tenant tenant.Name
	user   string
}

// maxWaiting is how many searches of one tenant, or system user, wait. Each holds a request.
const maxWaiting = 100

func newTurns(limits Limits) turns {
	return turns{
		of:  keyed.Turns[turnKey]{Each: limits.Concurrency, Waiting: maxWaiting},
		all: make(chan struct{}, index.Readers), systems: make(chan struct{}, index.Readers/2),
	}
}

// take waits for a turn, and returns what to call when it is over. Its error is that of ctx if that ends first, or that
// too many wait.
func (t *turns) take(ctx context.Context, a *asker) (release func(), err error) {
	if a.userTenant.IsSpace() {
		return t.of.Take(ctx, turnKey{tenant: a.userTenant}, t.all)
	}
	return t.of.Take(ctx, turnKey{a.userTenant, a.user.GetName()}, t.systems, t.all)
}
