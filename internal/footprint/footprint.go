// Package footprint keeps a process that rests at the size of what it uses.
package footprint

import (
	"context"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

const (
	// interval is how often Keep looks.
	interval = 10 * time.Second
	// restingRate is the rate of allocations below which a process rests, in
	// bytes per second. Its own controllers cause a tenth of that.
	restingRate = 8 << 20
	// worthwhile is what must be returned at least, in bytes and as a share of
	// what is alive. A collection costs about a millisecond per megabyte alive.
	worthwhile      = 32 << 20
	worthwhileShare = 4
)

// Keep returns unused memory to the operating system, until ctx ends, whenever the
// process rests and holds much more than it uses. Go would keep what it needed at
// the peak. The collector itself is left as it is: with less garbage allowed, each
// request would take longer the more tenants there are (test/bench/RESULTS.md).
func Keep(ctx context.Context) {
	go watch(ctx)
}

func watch(ctx context.Context) {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	last := read()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		now := read()
		if resting(last, now) && now.wasteful() {
			debug.FreeOSMemory()
			now = read()
		}
		last = now
	}
}

// heap is the state of the heap, in bytes.
type heap struct {
	allocated uint64 // since the start of the process
	live      uint64 // at the end of the last collection
	held      uint64 // resident: in objects, dead or alive, and around them
}

func resting(last, now heap) bool {
	return now.allocated-last.allocated < restingRate*uint64(interval/time.Second)
}

// wasteful reports whether a collection would return much.
func (h heap) wasteful() bool {
	return h.held > h.live+h.live/worthwhileShare+worthwhile
}

func read() heap {
	samples := []metrics.Sample{
		{Name: "/gc/heap/allocs:bytes"},
		{Name: "/gc/heap/live:bytes"},
		{Name: "/memory/classes/heap/objects:bytes"},
		{Name: "/memory/classes/heap/free:bytes"},
	}
	metrics.Read(samples)
	return heap{
		allocated: samples[0].Value.Uint64(),
		live:      samples[1].Value.Uint64(),
		held:      samples[2].Value.Uint64() + samples[3].Value.Uint64(),
	}
}
