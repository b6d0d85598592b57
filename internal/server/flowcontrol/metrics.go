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

func init() { legacyregistry.MustRegister(refusedTotal) }
