package flowcontrol

import (
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
)

// refusedTotal has no label for the tenant, which would make its series unbounded.
var refusedTotal = metrics.NewCounterVec(&metrics.CounterOpts{
	Name:           "tenantry_rate_limited_requests_total",
	Help:           "Requests refused because their tenant has reached a limit of its rateLimit, by limit.",
	StabilityLevel: metrics.ALPHA,
}, []string{"limit"})

// unended counts what keeps seats, and cores, although its clients were answered.
var unended = metrics.NewGauge(&metrics.GaugeOpts{
	Name:           "tenantry_unended_writes",
	Help:           "Writes of tenants that were answered and may still be at work, with their seats. Each is looked for by the garbage collector, within two minutes after its end.",
	StabilityLevel: metrics.ALPHA,
})

// endedWatches has no label for the tenant, as refusedTotal.
var endedWatches = metrics.NewCounter(&metrics.CounterOpts{
	Name:           "tenantry_ended_watches_total",
	Help:           "Watches that were ended because those of their tenant held more of large events than --tenant-watch-bytes.",
	StabilityLevel: metrics.ALPHA,
})

// closedConnections has no label for the address, as refusedTotal.
var closedConnections = metrics.NewCounter(&metrics.CounterOpts{
	Name:           "tenantry_closed_connections_total",
	Help:           "Connections of clients that were closed because there were --max-connections: new ones, or those of the address that had the most.",
	StabilityLevel: metrics.ALPHA,
})

func init() {
	legacyregistry.MustRegister(refusedTotal, unended, endedWatches, closedConnections)
}
