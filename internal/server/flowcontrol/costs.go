package flowcontrol

import (
	"context"
	"math"
	"time"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	"k8s.io/apiserver/pkg/endpoints/request"
)

// costs are the recent costs of a tenant's requests, as time in which they kept a
// core busy.
type costs struct {
	sum, squares float64 // of seconds
	at           time.Time
}

// note adds a request that ended at the time now.
func (c *costs) note(busy time.Duration, now time.Time) {
	decay := math.Exp2(-now.Sub(c.at).Seconds() / halfLife.Seconds())
	c.sum = c.sum*decay + busy.Seconds()
	c.squares = c.squares*decay + busy.Seconds()*busy.Seconds()
	c.at = now
}

// likely returns the likely cost of a request that is running at a random moment. It weighs
// requests by their time, so a few costly ones among many others count.
func (c *costs) likely() time.Duration {
	if c.sum == 0 {
		return 0
	}
	return time.Duration(c.squares / c.sum * float64(time.Second))
}

// busy returns how long a request kept a core busy: the time in which it was executed
// and did not wait for webhooks, etcd, or its client to read the response.
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

// followUpOf returns how much work a costly write causes after its response, while it has no
// seat, as a multiple of its own.
func followUpOf(info *request.RequestInfo) int {
	if info.APIGroup == apiextensions.GroupName && info.Resource == "customresourcedefinitions" {
		return definitionFollowUp
	}
	return 1
}
