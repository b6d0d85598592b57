package dns

import (
	"errors"
	"sync"
	"time"

	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
)

// The kinds of answers. There are so many series, and none of a tenant.
const (
	// kindSpace is a record of the space, kindNone that there is none.
	kindSpace = "space"
	kindNone  = "none"
	// kindOutside is what an upstream says, kindCached what one has said.
	kindOutside = "outside"
	kindCached  = "cached"
	// kindUnknown is for unidentified clients, kindRejected for questions that nobody is answered, or by TCP alone.
	kindUnknown  = "unknown"
	kindRejected = "rejected"
	// kindBusy is that too many questions wait, or upstreams were asked too much, kindFailed that no upstream has
	// answered.
	kindBusy   = "busy"
	kindFailed = "failed"
)

var (
	durations = metrics.NewHistogramVec(&metrics.HistogramOpts{
		Name: "tenantry_dns_duration_seconds", StabilityLevel: metrics.ALPHA,
		Help: "How long answers of tenantry dns took, by their kind: space (records of a space), none (a space has no such name or record), outside (an upstream was asked), cached (it was asked before), " +
			"busy (too many questions of the tenant, or of all, wait for their turn, or the tenant has had upstreams asked too much), failed (no upstream has answered), unknown (the client's address is not that of one pod of a space), rejected (NOTIMP, BADVERS, REFUSED, and what is answered by TCP alone).",
		Buckets: []float64{.00002, .00005, .0001, .0002, .0005, .001, .0025, .01, .05, .25, 1, 2.5, 5},
	}, []string{"kind"})
	dropped = metrics.NewCounter(&metrics.CounterOpts{
		Name: "tenantry_dns_dropped_total", StabilityLevel: metrics.ALPHA,
		Help: "Questions and connections that tenantry dns has dropped, because their tenant had more than its share.",
	})
)

// ServeMetrics shows the metrics of DNS among those of the process.
var ServeMetrics = sync.OnceFunc(func() { legacyregistry.MustRegister(durations, dropped) })

func observe(kind string, began time.Time) {
	durations.WithLabelValues(kind).Observe(time.Since(began).Seconds())
}

func countDropped() { dropped.Inc() }

// kindOf returns the kind of an answer that is an error.
func kindOf(err error) string {
	if errors.Is(err, errBusy) {
		return kindBusy
	}
	return kindFailed
}
