// Package memory keeps a process that rests at the size of what it uses, and
// collects garbage less often while it is at work.
package memory

import (
	"context"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

const (
	// interval is how often Keep adjusts the collector, and restInterval how often it
	// looks whether the process rests.
	interval     = 2 * time.Second
	restInterval = 5 * interval
	// restingRate is the rate of allocations below which a process rests, in
	// bytes per second. Its own controllers cause a tenth of that.
	restingRate = 8 << 20
	// worthwhile is what must be returned at least, in bytes and as a share of
	// what is alive. A collection costs about a millisecond per megabyte alive.
	worthwhile      = 32 << 20
	worthwhileShare = 4
	// pause is how long there should be between two collections at work.
	pause = 4 * time.Second
)

// Keep adjusts the garbage collector, until ctx ends. most is how much garbage may be left
// for a busy process to have pauses between collections, in bytes; zero leaves that to Go.
//
// When the process comes to rest, and while it rests and holds much more than it uses,
// unused memory returns to the operating system. Go would keep what it needed at the
// peak, and not even look how much that is before it has as much again.
//
// While it works so hard that garbage would be collected several times a second, more
// of it may wait. Requests that arrive during a collection wait for a core: a tenth of
// them otherwise, on two cores (test/bench/RESULTS.md, "The noisy neighbour").
//
// GOGC, if it is set, and GOMEMLIMIT hold nevertheless.
func Keep(ctx context.Context, most uint64) {
	if os.Getenv("GOGC") != "" {
		most = 0
	}
	go watch(ctx, most)
}

func watch(ctx context.Context, most uint64) {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	rest := time.NewTicker(restInterval)
	defer rest.Stop()
	percent, worked := usual, true
	last := read()
	lastRest := last
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			now := read()
			if wanted := garbage(last, now, most); most > 0 && wanted != percent {
				debug.SetGCPercent(wanted)
				percent = wanted
			}
			last = now
		case <-rest.C:
			now := read()
			switch {
			case !resting(lastRest, now):
				worked = true
			case worked || now.wasteful():
				debug.FreeOSMemory()
				worked = false
				now = read()
			}
			lastRest = now
		}
	}
}

// usual is Go's garbage, as a percentage of what is alive.
const usual = 100

// garbage returns how much garbage there may be, as a percentage of what is alive.
func garbage(last, now heap, most uint64) int {
	perSecond := (now.allocated - last.allocated) / uint64(interval/time.Second)
	wanted := min(perSecond*uint64(pause/time.Second), most)
	const step = 25 // for each change stops the process for a moment
	return max(usual, int(100*wanted/max(now.live, 1)/step*step))
}

// heap is the state of the heap, in bytes.
type heap struct {
	allocated uint64 // since the start of the process
	live      uint64 // at the end of the last collection
	held      uint64 // resident: in objects, dead or alive, and around them
}

func resting(last, now heap) bool {
	return now.allocated-last.allocated < restingRate*uint64(restInterval/time.Second)
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
