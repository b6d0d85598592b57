package sync

import (
	"time"

	"k8s.io/utils/clock"

	"github.com/tenantry/tenantry/internal/process/keyed"
)

// idleSince says since when something of the host has been of no use. A restart forgets it.
type idleSince struct {
	clock clock.PassiveClock
	// stays is how long it stays nevertheless.
	stays time.Duration

	keyed.Values[string, time.Time]
}

func newIdleSince(c clock.PassiveClock, stays time.Duration) *idleSince {
	return &idleSince{clock: c, stays: stays}
}

// left returns how long it stays, which is counted from the first time that
// it is asked.
func (i *idleSince) left(name string) time.Duration {
	return i.stays - i.clock.Since(i.GetOrSet(name, i.clock.Now()))
}

// leftOf is left for what another clock has dated: it is counted from then on, if that is longer ago. What has no date
// is as new.
func (i *idleSince) leftOf(name string, made time.Time) time.Duration {
	left := i.left(name)
	if made.IsZero() {
		return left
	}
	return min(left, i.stays+clocksDiffer-i.clock.Since(made))
}
