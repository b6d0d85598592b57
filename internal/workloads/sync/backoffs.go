package sync

import (
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"
)

// firstBackoff is for how long a write is not repeated at first. It doubles up to maxBackoff.
const firstBackoff = time.Second

// write is something that the syncer writes about an item: the same item may have one of each wait.
type write uint8

const (
	writeCreation write = iota
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

	mu   sync.Mutex
	held map[itemWrite]backoff
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

func newBackoffs(c clock.PassiveClock) *backoffs {
	return &backoffs{clock: c, held: map[itemWrite]backoff{}}
}

// put delays a write, and returns by how much.
func (b *backoffs) put(w itemWrite, what string, refused map[string]string) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	delay := firstBackoff
	if before, ok := b.held[w]; ok && before.what == what {
		delay = min(2*before.delay, maxBackoff)
	}
	b.held[w] = backoff{what: what, until: b.clock.Now().Add(delay), delay: delay, refused: refused}
	return delay
}

// refused returns the things of a write that were refused, and why, until it is written, or something else is.
func (b *backoffs) refused(w itemWrite, what string) map[string]string {
	b.mu.Lock()
	defer b.mu.Unlock()
	if held, ok := b.held[w]; ok && held.what == what {
		return held.refused
	}
	return nil
}

// left returns for how long a write still waits.
func (b *backoffs) left(w itemWrite, what string) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	if held, ok := b.held[w]; ok && held.what == what {
		return held.until.Sub(b.clock.Now())
	}
	return 0
}

// drop forgets a write.
func (b *backoffs) drop(w itemWrite) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.held, w)
}

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
