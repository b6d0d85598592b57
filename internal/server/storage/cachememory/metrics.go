package cachememory

import (
	"maps"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tenantry/tenantry/internal/server/metrics"
	"github.com/tenantry/tenantry/internal/tenant"
)

var (
	cacheBytesDesc = prometheus.NewDesc("tenantry_tenant_cache_bytes",
		"Bytes of the server's memory that definitions, policies and custom resources of tenants, and objects of empty entries, take, as --tenant-cache-bytes counts them. "+
			"The tenants with the most have series of their own.", []string{"tenant"}, nil)
	cacheLimitDesc = prometheus.NewDesc("tenantry_tenant_cache_limit_bytes", "What --tenant-cache-bytes allows each tenant.", nil, nil)
	cacheAllDesc   = prometheus.NewDesc("tenantry_tenant_cache_all_bytes", "What all tenants together take of the server's memory: what tenantry_tenant_cache_bytes shows, and three times what they have stored.", nil, nil)
	cacheTotalDesc = prometheus.NewDesc("tenantry_tenant_cache_all_limit_bytes", "What --tenant-cache-total-bytes allows all tenants together, 0 without a limit.", nil, nil)
)

// servedMemory is the bound whose metrics the process shows.
var servedMemory metrics.Replaceable

// ServeMetrics shows with the metrics of the process what each space takes. limit is how many tenants have series of
// their own.
func (m *Budget) ServeMetrics(limit int) {
	if m != nil {
		servedMemory.Show(m.collector(limit))
	}
}

func (m *Budget) collector(limit int) prometheus.Collector {
	return metrics.Computed(func(shown chan<- prometheus.Metric) {
		var amounts []metrics.Amount
		now := m.Usage()
		for n, bytes := range now.Bytes {
			amounts = append(amounts, metrics.Amount{Tenant: string(n), Bytes: bytes})
		}
		for _, one := range metrics.Largest(amounts, limit) {
			shown <- prometheus.MustNewConstMetric(cacheBytesDesc, prometheus.GaugeValue, float64(one.Bytes), one.Tenant)
		}
		shown <- prometheus.MustNewConstMetric(cacheLimitDesc, prometheus.GaugeValue, float64(m.most))
		shown <- prometheus.MustNewConstMetric(cacheAllDesc, prometheus.GaugeValue, float64(now.All))
		shown <- prometheus.MustNewConstMetric(cacheTotalDesc, prometheus.GaugeValue, float64(m.total))
	}, cacheBytesDesc, cacheLimitDesc, cacheAllDesc, cacheTotalDesc)
}

// Usage is what a budget counts at one moment.
type Usage struct {
	// Bytes are what the objects of each space take, Headroom what they have got when nothing was left, and Lists what
	// is decoded for its requests.
	Bytes, Headroom, Lists map[tenant.Name]int64
	// All is what all spaces take, with what they have stored.
	All int64
	// Resources are how many have caches, and Objects how many count in them.
	Resources, Objects int
}

// Usage returns what is counted now.
func (m *Budget) Usage() Usage {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := Usage{
		Bytes: maps.Clone(m.bytes), Headroom: maps.Clone(m.headroom), Lists: maps.Clone(m.lists), All: m.takeAllLocked(), Resources: len(m.definitions),
	}
	for _, d := range m.definitions {
		for c := range d.all {
			now.Objects += len(c.held)
		}
	}
	return now
}
