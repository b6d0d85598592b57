// Package footprint keeps a process small: near what it uses while it works, at
// what it uses while it rests.
package footprint

import (
	"context"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

const (
	// A small process collects garbage when it is as much as what is alive, Go's
	// default; a large one, which starts here, at three quarters. With less, lists
	// would take longer the more tenants there are (test/bench/RESULTS.md).
	large        = 256 << 20
	largePercent = 75
	smallPercent = 100

	// interval is how often watch looks.
	interval = 10 * time.Second
	// restingRate is the rate of allocations below which a process rests, in
	// bytes per second. Its own controllers cause a tenth of that.
	restingRate = 8 << 20
	// worthwhile is what must be returned at least, in bytes and as a share of
	// what is alive. A collection costs about a millisecond per megabyte alive.
	worthwhile      = 32 << 20
	worthwhileShare = 4
)

// Keep keeps this process small until ctx ends. The environment variable GOGC, if
// set, has the last word on how much garbage may collect.
func Keep(ctx context.Context) {
	go watch(ctx, os.Getenv("GOGC") == "")
}

// watch adjusts the garbage collector to the size of the process, and returns
// unused memory to the operating system whenever the process rests and holds much
// more than it uses: Go would keep what it needed at the peak.
func watch(ctx context.Context, adjust bool) {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	last, percent := read(), smallPercent
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		now := read()
		if want := now.gcPercent(); adjust && want != percent {
			debug.SetGCPercent(want) // stops the world for a moment
			percent = want
		}
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

// gcPercent returns the percentage for the garbage collector.
func (h heap) gcPercent() int {
	if h.live >= large {
		return largePercent
	}
	return smallPercent
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
