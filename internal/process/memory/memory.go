package memory

import (
	"context"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"strconv"
	"strings"
	"time"
)

const (
	// interval is how often Keep adjusts the collector, and idleInterval how often it
	// looks whether the process is idle.
	interval     = 2 * time.Second
	idleInterval = 5 * interval
	// idleRate is the rate of allocations below which a process is idle, in bytes per
	// second. Its own controllers cause a tenth of that.
	idleRate = 8 << 20
	// worthwhile is the least memory that is worth a collection, in bytes and as a part of
	// the live heap. A collection costs about a millisecond per live megabyte.
	worthwhile      = 32 << 20
	worthwhileShare = 4
	// pause is the time between two collections to aim at while the process is busy.
	pause = 4 * time.Second
)

// Keep adjusts the garbage collector, until ctx ends. most is how much garbage may be left
// for a busy process to have pauses between collections, in bytes; zero leaves that to Go.
//
// When the process becomes idle, and while it is idle and holds much more than it uses,
// unused memory returns to the operating system. Go would keep what it needed at the
// peak, and would not collect before it has allocated as much again.
//
// While the process would collect garbage several times a second, it may leave more
// garbage. Requests that arrive during a collection wait for a core: a tenth of
// them otherwise, on two cores (test/bench/RESULTS.md, "The noisy neighbour").
//
// In a container with a limit of memory, Go collects garbage before seven eighths of that are in use.
//
// GOGC and GOMEMLIMIT, if they are set, have precedence.
func Keep(ctx context.Context, most uint64) {
	if os.Getenv("GOGC") != "" {
		most = 0
	}
	if limit := containerLimit(os.ReadFile(containerFile)); limit > 0 && os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(limit / 8 * 7)
	}
	go watch(ctx, most)
}

// containerFile has the limit of the container's cgroup.
const containerFile = "/sys/fs/cgroup/memory.max"

// containerLimit returns the limit of memory that a file of a cgroup has, in bytes, 0 if there is none.
func containerLimit(content []byte, err error) int64 {
	limit, notANumber := strconv.ParseInt(strings.TrimSpace(string(content)), 10, 64)
	if err != nil || notANumber != nil { // "max" is none
		return 0
	}
	return limit
}

func watch(ctx context.Context, most uint64) {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	idle := time.NewTicker(idleInterval)
	defer idle.Stop()
	percent, busy := defaultPercent, true
	last := read()
	lastIdle := last
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
		case <-idle.C:
			now := read()
			switch {
			case !isIdle(lastIdle, now):
				busy = true
			case busy || now.wasteful():
				debug.FreeOSMemory()
				busy = false
				now = read()
			}
			lastIdle = now
		}
	}
}

// defaultPercent is Go's default of GOGC.
const defaultPercent = 100

// garbage returns how much garbage there may be, as a percentage of the live heap.
func garbage(last, now heap, most uint64) int {
	perSecond := (now.allocated - last.allocated) / uint64(interval/time.Second)
	wanted := min(perSecond*uint64(pause/time.Second), most)
	const step = 25 // each change stops the process for a moment
	return max(defaultPercent, int(100*wanted/max(now.live, 1)/step*step))
}

// heap is the state of the heap, in bytes.
type heap struct {
	allocated uint64 // since the start of the process
	live      uint64 // at the end of the last collection
	held      uint64 // resident: in objects, dead or alive, and around them
}

func isIdle(last, now heap) bool {
	return now.allocated-last.allocated < idleRate*uint64(idleInterval/time.Second)
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
