package sync

import (
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"

	"github.com/tenantry/tenantry/internal/tenant"
)

// minHold is for how long a write is not repeated at first. It doubles up to maxBackoff.
const minHold = time.Second

// write is something that the syncer writes about a pod.
type write uint8

const (
	creation write = iota
	change
	status
	gates
	debugging
	resizing
	writes
)

// holds are writes that were refused, or that did not hold, and wait: what is written brings an event of the pod,
// by which it would be looked at, and written, again at once. There is one only while a pod of it is there.
type holds struct {
	clock clock.PassiveClock

	mu   sync.Mutex
	held map[heldWrite]hold
}

type heldWrite struct {
	item  item
	write write
}

type hold struct {
	// what was written: something else is written at once.
	what  string
	until time.Time
	delay time.Duration
	// refused are the things of it that were refused, and why.
	refused map[string]string
}

func newHolds(c clock.PassiveClock) *holds { return &holds{clock: c, held: map[heldWrite]hold{}} }

// put has a write wait, and returns for how long.
func (h *holds) put(w heldWrite, what string, refused map[string]string) time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	delay := minHold
	if before, ok := h.held[w]; ok && before.what == what {
		delay = min(2*before.delay, maxBackoff)
	}
	h.held[w] = hold{what: what, until: h.clock.Now().Add(delay), delay: delay, refused: refused}
	return delay
}

// refused returns the things of a write that were refused, and why, until it is written, or something else is.
func (h *holds) refused(w heldWrite, what string) map[string]string {
	h.mu.Lock()
	defer h.mu.Unlock()
	if held, ok := h.held[w]; ok && held.what == what {
		return held.refused
	}
	return nil
}

// left returns for how long a write still waits.
func (h *holds) left(w heldWrite, what string) time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	if held, ok := h.held[w]; ok && held.what == what {
		return held.until.Sub(h.clock.Now())
	}
	return 0
}

// drop forgets a write.
func (h *holds) drop(w heldWrite) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.held, w)
}

// forget forgets all writes about an item.
func (h *holds) forget(i item) {
	for w := range writes {
		h.drop(heldWrite{i, w})
	}
}

// itemOf returns the item of a pod of a space.
func itemOf(pod *corev1.Pod) item {
	return item{podItem, tenant.Flat(pod.Namespace).Space(), pod.Namespace, pod.Name}
}

// hold has a write about a pod wait, and the pod looked at after that. refused are the things of it that were refused, if somebody
// asks for them.
func (s *syncer) hold(pod *corev1.Pod, w write, what string, refused map[string]string) {
	i := itemOf(pod)
	s.queue.AddAfter(i, s.holds.put(heldWrite{i, w}, what, refused))
}

// isHeld reports whether a write about a pod waits. If so, the pod is looked at after that.
func (s *syncer) isHeld(pod *corev1.Pod, w write, what string) bool {
	i := itemOf(pod)
	return s.queue.after(i, s.holds.left(heldWrite{i, w}, what))
}
