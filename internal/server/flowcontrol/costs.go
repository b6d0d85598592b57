package flowcontrol

import (
	"context"
	"math"
	"time"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	"k8s.io/apiserver/pkg/endpoints/request"
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
