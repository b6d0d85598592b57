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
	// garbage is how much garbage may collect before it is collected, in bytes,
	// and garbageShare how much in any case, in percent of what is alive. Much of
	// it makes collections rare, which is a third of the processor time of large
	// lists in a small process; little of it keeps a large process small
	// (test/bench/RESULTS.md).
	garbage      = 128 << 20
	garbageShare = 50

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
	last, percent := read(), 100
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
	percent := garbage * 100 / max(h.live, 1)
	return int(min(max(percent, garbageShare), 200))
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
