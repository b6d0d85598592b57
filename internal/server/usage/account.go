package usage

import (
	"net/http"
	"sync/atomic"
	"time"
)

// kind of a request that is open for a while.
type kind int

const (
	short   kind = iota // ends by itself; its duration is measured
	endless             // watches and the like
	kinds
)

// bounds are the upper bounds of the buckets of durations, in seconds.
var bounds = [...]float64{0.005, 0.025, 0.1, 0.5, 1, 5, 30}

// classes of status codes. 429 says that a limit of the tenant was reached.
var classes = [...]string{"1xx", "2xx", "3xx", "4xx", "5xx", "429"}

// account is what is counted for a tenant. Its zero value is ready for use.
type account struct {
	requests [len(classes)]atomic.Uint64
	open     [kinds]atomic.Int64
	buckets  [len(bounds) + 1]atomic.Uint64
	nanos    atomic.Int64 // of all short requests
	sent     atomic.Uint64
}

// count counts an answer.
func (a *account) count(k kind, status int, sent uint64, took time.Duration) {
	a.requests[classOf(status)].Add(1)
	a.sent.Add(sent)
	if k != short {
		return
	}
	bucket := 0
	for bucket < len(bounds) && took.Seconds() > bounds[bucket] {
		bucket++
	}
	a.buckets[bucket].Add(1)
	a.nanos.Add(int64(took))
}

func classOf(status int) int {
	if status == http.StatusTooManyRequests {
		return len(classes) - 1
	}
	return min(max(status/100, 1), 5) - 1
}
