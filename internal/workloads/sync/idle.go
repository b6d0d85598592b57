package sync

import (
	"sync"
	"time"

	"k8s.io/utils/clock"
)

// idleSince says since when something of the host has been of no use. A restart forgets it.
type idleSince struct {
	clock clock.PassiveClock
	// stays is how long it stays nevertheless.
	stays time.Duration

	// since has a time.Time for each name.
	since sync.Map
}

func newIdleSince(c clock.PassiveClock, stays time.Duration) *idleSince {
	return &idleSince{clock: c, stays: stays}
}

// left returns how long it stays, which is counted from the first time that
// it is asked.
func (i *idleSince) left(name string) time.Duration {
	since, _ := i.since.LoadOrStore(name, i.clock.Now())
	return i.stays - i.clock.Since(since.(time.Time))
}

// leftOf is left for what another clock has dated: it is counted from then on, if that is longer ago. What has no date is as new.
func (i *idleSince) leftOf(name string, made time.Time) time.Duration {
	left := i.left(name)
	if made.IsZero() {
		return left
	}
	return min(left, i.stays+clocksDiffer-i.clock.Since(made))
}

func (i *idleSince) forget(name string) { i.since.Delete(name) }
