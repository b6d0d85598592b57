package usage

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/tenantry/tenantry/internal/server/metrics"
)

// Metrics about what tenants ask. The label tenant is a tenant's name, "_other" for
// all without series of their own and "_none" for requests without a tenant.
var (
	requestsDesc = prometheus.NewDesc("tenantry_tenant_requests_total",
		"Number of requests answered, by the tenant of the user and the class of the status code; 429 is a class of its own.",
		[]string{"tenant", "code"}, nil)
	durationDesc = prometheus.NewDesc("tenantry_tenant_request_duration_seconds",
		"Time to answer requests, watches and other requests without an end left out, by the tenant of the user.",
		[]string{"tenant"}, nil)
	openDesc = prometheus.NewDesc("tenantry_tenant_requests_in_flight",
		"Number of requests that are being served, watches and other requests without an end left out, by the tenant of the user.",
		[]string{"tenant"}, nil)
	watchesDesc = prometheus.NewDesc("tenantry_tenant_watches",
		"Number of watches and other requests without an end that are being served, by the tenant of the user.",
		[]string{"tenant"}, nil)
	sentDesc = prometheus.NewDesc("tenantry_tenant_response_bytes_total",
		"Bytes sent in answers, before TLS, by the tenant of the user.",
		[]string{"tenant"}, nil)
)

func (m *Meter) collector() prometheus.Collector {
	return metrics.Computed(m.collect, requestsDesc, durationDesc, openDesc, watchesDesc, sentDesc)
}

func (m *Meter) collect(shown chan<- prometheus.Metric) {
	m.removeGone()
	m.rotate()
	m.mu.RLock()
	defer m.mu.RUnlock()
	for n, account := range m.own {
		account.collect(shown, string(n))
	}
	m.none.collect(shown, nobody)
	// What those that gave up their series still have in flight is somebody else's.
	m.together.collect(shown, metrics.Others, m.left...)
}

func (a *account) collect(shown chan<- prometheus.Metric, name string, more ...*account) {
	for class, code := range classes {
		if count := a.requests[class].Load(); count > 0 {
			shown <- prometheus.MustNewConstMetric(requestsDesc, prometheus.CounterValue, float64(count), name, code)
		}
	}
	buckets, count := make(map[float64]uint64, len(bounds)), uint64(0)
	for i, bound := range bounds {
		count += a.buckets[i].Load()
		buckets[bound] = count
	}
	count += a.buckets[len(bounds)].Load()
	shown <- prometheus.MustNewConstHistogram(durationDesc, count, float64(a.nanos.Load())/1e9, buckets, name)
	open := [kinds]int64{a.open[short].Load(), a.open[endless].Load()}
	for _, other := range more {
		open[short] += other.open[short].Load()
		open[endless] += other.open[endless].Load()
	}
	shown <- prometheus.MustNewConstMetric(openDesc, prometheus.GaugeValue, float64(open[short]), name)
	shown <- prometheus.MustNewConstMetric(watchesDesc, prometheus.GaugeValue, float64(open[endless]), name)
	shown <- prometheus.MustNewConstMetric(sentDesc, prometheus.CounterValue, float64(a.sent.Load()), name)
}
