package quota

import (
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/tenantry/tenantry/api/v1alpha1"
)

const (
	// advanceBytes is what is charged in advance, and what this server keeps of one quota at most.
	advanceBytes = 128 << 10
	// frequentWrites are so many writes of a quota within a window that the next one charges in advance.
	frequentWrites = 3
	// roomyAdvances must still fit into a quota for it to be charged in advance. Closer to its limit it is exact.
	roomyAdvances = 16
	// settleWindows are as long as a tenant must be quiet, so that what is taken from an advance is settled by then, too.
	settleWindows = 12
)

// advances save the writes of a quota that many small writes are charged to, one after the other: most tenants are
// limited in their stored bytes alone. A quota that is written often, and is far from its limit, is charged some bytes
// more. For a while, this server then takes what is stored from them, and adds to them what is freed, without writing
// the quota. What is left is given back. So what is used is never less than what is stored, and a crash leaves too
// much.
//
// A window begins with a write of the quota. A recount corrects the quota when it was not written for much longer, and
// so when no server has an advance of it. There is a timer for a quota while there is a window.
type advances struct {
	window   time.Duration
	giveBack func(to ref, freed corev1.ResourceList)

	mu sync.Mutex
	of map[ref]*advance
}

// advance is what this server has of a quota.
type advance struct {
	writes int
	left   int64
	until  time.Time
	timer  *time.Timer
}

func newAdvances(settle time.Duration, giveBack func(to ref, freed corev1.ResourceList)) *advances {
	return &advances{window: settle / settleWindows, giveBack: giveBack, of: make(map[ref]*advance)}
}

// isRoomy reports whether a quota may be charged in advance.
func isRoomy(q *corev1.ResourceQuota) bool {
	used, limit := q.Status.Used[v1alpha1.ResourceStoredBytes], q.Status.Hard[v1alpha1.ResourceStoredBytes]
	return used.Value()+roomyAdvances*advanceBytes <= limit.Value()
}

// bytesAlone returns the stored bytes that a tenant's quota is charged, if that is all.
func bytesAlone(of ref, charged corev1.ResourceList) (int64, bool) {
	bytes, ok := charged[v1alpha1.ResourceStoredBytes]
	return bytes.Value(), ok && len(charged) == 1 && of.flatName == keyOf(of.namespace.Space())
}

func storedBytes(bytes int64) corev1.ResourceList {
	return corev1.ResourceList{v1alpha1.ResourceStoredBytes: *resource.NewQuantity(bytes, resource.BinarySI)}
}

// due returns how many bytes to charge in advance with what is added.
func (a *advances) due(of ref, added corev1.ResourceList) int64 {
	bytes, alone := bytesAlone(of, added)
	a.mu.Lock()
	defer a.mu.Unlock()
	found := a.current(of)
	if !alone || bytes > advanceBytes || found == nil || found.writes < frequentWrites {
		return 0
	}
	return advanceBytes - found.left
}

// wrote begins a window: a quota was written since, for some bytes, and charged so many in advance.
func (a *advances) wrote(of ref, since time.Time, bytes corev1.ResourceList, charged int64) {
	if _, alone := bytesAlone(of, bytes); !alone {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	found := a.of[of]
	if found == nil {
		found = &advance{}
		found.timer = time.AfterFunc(a.window, func() { a.expire(of, found) })
		a.of[of] = found
	}
	found.writes++
	found.left += charged
	found.until = since.Add(a.window)
}

// take takes what is added from the advance, and reports whether there was enough.
func (a *advances) take(of ref, added corev1.ResourceList) bool {
	bytes, alone := bytesAlone(of, added)
	a.mu.Lock()
	defer a.mu.Unlock()
	found := a.current(of)
	if !alone || found == nil || found.left < bytes {
		return false
	}
	found.left -= bytes
	return true
}

// put adds what is freed to the advance, and reports whether there was room for it.
func (a *advances) put(of ref, freed corev1.ResourceList) bool {
	bytes, alone := bytesAlone(of, freed)
	a.mu.Lock()
	defer a.mu.Unlock()
	found := a.current(of)
	if !alone || found == nil || found.writes < frequentWrites || found.left+bytes > advanceBytes {
		return false
	}
	found.left += bytes
	return true
}

// end gives back what is left, and reports whether that is something.
func (a *advances) end(of ref) bool {
	a.mu.Lock()
	var left int64
	if found := a.of[of]; found != nil {
		left, found.left = found.left, 0
	}
	a.mu.Unlock()
	if left > 0 {
		a.giveBack(of, storedBytes(left))
	}
	return left > 0
}

// current returns what there is of a quota in its window.
func (a *advances) current(of ref) *advance {
	if found := a.of[of]; found != nil && time.Now().Before(found.until) {
		return found
	}
	return nil
}

// expire gives back what is left when the window is over.
func (a *advances) expire(of ref, found *advance) {
	a.mu.Lock()
	if rest := time.Until(found.until); rest > 0 {
		found.timer.Reset(rest)
		a.mu.Unlock()
		return
	}
	delete(a.of, of)
	left := found.left
	a.mu.Unlock()
	if left > 0 {
		a.giveBack(of, storedBytes(left))
	}
}
