package flowcontrol

import (
	"context"
	"math"
	"time"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	"k8s.io/apiserver/pkg/endpoints/request"
)

const (
	// heavyBody is from how many bytes on a write is taken to be costly before it has
	// been executed. Those of clients at work have a few thousand.
	heavyBody = 64 << 10
	// costlyTime is how long a costly write keeps a core busy at least.
	costlyTime = 50 * time.Millisecond
	// costlyWeight is how many places a costly write takes: with a place for each core,
	// such writes of a tenant take half of the cores, and others find one.
	costlyWeight = 2
	// costlyPatience is patience with a costly write, which is known to be at work.
	costlyPatience = 25 * patience
	// costlyRest bounds how long a place rests after a costly write.
	costlyRest = time.Second
	// definitionAftermath is what a write of a definition causes after its answer, as
	// a multiple of what it took itself: its schema is read, validated and published
	// by half a dozen controllers.
	definitionAftermath = 5
	// halfLife is after how long what requests have cost counts for half.
	halfLife = 5 * time.Second
)

// costs are what the requests of a tenant have lately cost, as time in which they kept a
// core busy.
type costs struct {
	sum, squares float64 // of seconds
	at           time.Time
}

// note adds a request that ended at a time.
func (c *costs) note(busy time.Duration, now time.Time) {
	fade := math.Exp2(-now.Sub(c.at).Seconds() / halfLife.Seconds())
	c.sum = c.sum*fade + busy.Seconds()
	c.squares = c.squares*fade + busy.Seconds()*busy.Seconds()
	c.at = now
}

// likely returns what a request that is found at work at some moment is likely to take in
// all. Few costly ones among many others count by their time and not by their number.
func (c *costs) likely() time.Duration {
	if c.sum == 0 {
		return 0
	}
	return time.Duration(c.squares / c.sum * float64(time.Second))
}

// busy returns for how much of the time that a request was executed it kept a core busy:
// it did not wait for webhooks, for etcd, or for its client to read the answer.
func busy(ctx context.Context, took time.Duration) time.Duration {
	if waits, ok := request.LatencyTrackersFrom(ctx); ok {
		for _, wait := range []request.DurationTracker{
			waits.MutatingWebhookTracker, waits.ValidatingWebhookTracker, waits.StorageTracker, waits.ResponseWriteTracker,
		} {
			took -= wait.GetLatency()
		}
	}
	return max(took, 0)
}

// aftermathOf returns how much work a costly write is, after its answer and outside of a
// place, as a multiple of what it took.
func aftermathOf(info *request.RequestInfo) int {
	if info.APIGroup == apiextensions.GroupName && info.Resource == "customresourcedefinitions" {
		return definitionAftermath
	}
	return 1
}
