package sync

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"

	"github.com/tenantry/tenantry/internal/process/keyed"
)

// firstBackoff is for how long a write is not repeated at first, and firstWithdrawal for how long a pod is not made
// again that was taken from the host. Both double up to maxBackoff. Chosen: several hundred pods of a tenant that are
// tried again and again are a few in a second.
const (
	firstBackoff    = time.Second
	firstWithdrawal = 30 * time.Second
)

// write is something that the syncer writes about an item: the same item may have one of each wait.
type write uint8

const (
	writeCreation write = iota
	writeWithdrawal
	writeUpdate
	writeStatus
	writeGates
	writeDebuggers
	writeResources
	writeEnd
	writes
)

// backoffs are writes that were refused, or that did not hold, and wait: what is written brings an event of the pod,
// by which it would be looked at, and written, again at once. There is one only while a pod of it is there.
type backoffs struct {
	clock clock.PassiveClock
	held  keyed.Values[itemWrite, backoff]
}

type itemWrite struct {
	item  item
	write write
}

type backoff struct {
	// what was written: something else is written at once.
	what  string
	until time.Time
	delay time.Duration
	// refused are the things of it that were refused, and why.
	refused map[string]string
}

// put delays a write, and returns by how much.
func (b *backoffs) put(w itemWrite, what string, refused map[string]string) time.Duration {
	return b.held.Change(w, func(before backoff) backoff {
		delay := firstBackoff
		if w.write == writeWithdrawal {
			delay = firstWithdrawal
		}
		if before.what == what {
			delay = max(delay, min(2*before.delay, maxBackoff))
		}
		return backoff{what: what, until: b.clock.Now().Add(delay), delay: delay, refused: refused}
	}).delay
}

// of returns what is known of a write, nothing if it was something else.
func (b *backoffs) of(w itemWrite, what string) backoff {
	if held := b.held.Get(w); held.what == what {
		return held
	}
	return backoff{}
}

// refused returns the things of a write that were refused, and why, until it is written, or something else is.
func (b *backoffs) refused(w itemWrite, what string) map[string]string { return b.of(w, what).refused }

// left returns for how long a write still waits, if it is more than nothing.
func (b *backoffs) left(w itemWrite, what string) time.Duration {
	return b.of(w, what).until.Sub(b.clock.Now())
}

// drop forgets a write.
func (b *backoffs) drop(w itemWrite) { b.held.Delete(w) }

// forget forgets all writes about an item.
func (b *backoffs) forget(i item) {
	for w := range writes {
		b.drop(itemWrite{i, w})
	}
}

// backOff has a write about a pod wait, and the pod looked at after that. refused are the things of it that were
// refused, if somebody asks for them.
func (s *syncer) backOff(pod *corev1.Pod, w write, what string, refused map[string]string) {
	i := itemOf(podItem, pod)
	s.queue.AddAfter(i, s.backoffs.put(itemWrite{i, w}, what, refused))
}

// postponeRetry reports whether a write about a pod waits. If so, the pod is looked at after that.
func (s *syncer) postponeRetry(pod *corev1.Pod, w write, what string) bool {
	i := itemOf(podItem, pod)
	return s.queue.after(i, s.backoffs.left(itemWrite{i, w}, what))
}
