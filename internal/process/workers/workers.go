// Package workers measures how long workers of controllers work on the items of their queues.
//
// Upstream's controllers make their queues and workers themselves. What a queue tells of a worker that is done with an
// item, it tells the provider of the process's queue metrics alone. This package is that provider. It has the
// metrics of k8s.io/component-base/metrics/prometheus/workqueue, whose provider has no effect beside it: the first one
// counts, and packages are initialized in the order of their paths.
package workers

import (
	"bytes"
	"runtime"
	"time"

	"k8s.io/utils/lru"
)

// maxItems is far more than all workers of a process. What is noted for a goroutine that is no worker stays until then.
const maxItems = 4096

// items are those that are worked on, by the worker's goroutine.
var items = lru.New(maxItems)

// item is what is to be called when a worker is done.
type item struct {
	began time.Time
	done  func(took time.Duration)
}

// OnDone calls done with the time from now until the calling worker is done with the item that it got from
// its queue. It returns false, and does nothing, when it is called again for the same item. The queue is locked while
// done is called.
func OnDone(done func(took time.Duration)) bool {
	id := goroutine()
	if _, known := items.Get(id); known {
		return false
	}
	items.Add(id, item{time.Now(), done})
	return true
}

// end is called by a worker that is done with an item of any queue.
func end() {
	if items.Len() == 0 {
		return
	}
	id := goroutine()
	if known, ok := items.Get(id); ok {
		items.Remove(id)
		of := known.(item)
		of.done(time.Since(of.began))
	}
}

// goroutine returns what the runtime calls the calling goroutine in traces. A number is never used again.
func goroutine() string {
	var trace [64]byte
	name, _, _ := bytes.Cut(trace[:runtime.Stack(trace[:], false)], []byte(" ["))
	return string(name)
}
