package workers

import (
	"time"

	"k8s.io/utils/lru"

	"github.com/tenantry/tenantry/internal/process/stack"
)

// maxItems is far more than all workers of a process. What is noted for a goroutine that is no worker stays until then.
const maxItems = 4096

// items are those that are worked on, by the worker's goroutine.
var items = lru.New(maxItems)

// item is what is to be called when a worker is done.
type item struct {
	began  time.Time
	failed bool
	done   func(took time.Duration, failed bool)
}

// OnDone calls done with the time from now until the calling worker is done with the item that it got from
// its queue, and whether it is to be tried again after a failure. It returns false, and does nothing, when it is called
// again for the same item. The queue is locked while done is called.
func OnDone(done func(took time.Duration, failed bool)) bool {
	id := stack.Goroutine()
	if _, known := items.Get(id); known {
		return false
	}
	items.Add(id, &item{began: time.Now(), done: done})
	return true
}

// Worked returns for how long the calling worker has worked on the item of which OnDone was called, and zero if there
// is none.
func Worked() time.Duration {
	known, ok := items.Get(stack.Goroutine())
	if !ok {
		return 0
	}
	return time.Since(known.(*item).began)
}

// again is called by who has an item of any queue come again later, which may be for another reason than a failure.
func again() {
	if !stack.Requeues() {
		return
	}
	if known, ok := items.Get(stack.Goroutine()); ok {
		known.(*item).failed = true
	}
}

// end is called by a worker that is done with an item of any queue.
func end() {
	if items.Len() == 0 {
		return
	}
	id := stack.Goroutine()
	if known, ok := items.Get(id); ok {
		items.Remove(id)
		of := known.(*item)
		of.done(time.Since(of.began), of.failed)
	}
}
