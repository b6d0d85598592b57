package storage

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/tenantry/tenantry/internal/server/metrics"
)

var (
	cacheBytesDesc = prometheus.NewDesc("tenantry_tenant_cache_bytes",
		"Bytes of the server's memory that definitions and custom resources of tenants, and objects of empty entries, take, as --tenant-cache-bytes counts them. "+
			"The tenants with the most have series of their own.", []string{"tenant"}, nil)
	cacheLimitDesc = prometheus.NewDesc("tenantry_tenant_cache_limit_bytes", "What --tenant-cache-bytes allows each tenant.", nil, nil)
	cacheAllDesc   = prometheus.NewDesc("tenantry_tenant_cache_all_bytes", "What all tenants together take of the server's memory: what tenantry_tenant_cache_bytes shows, and three times what they have stored.", nil, nil)
	cacheTotalDesc = prometheus.NewDesc("tenantry_tenant_cache_all_limit_bytes", "What --tenant-cache-total-bytes allows all tenants together, 0 without a limit.", nil, nil)
)

// servedMemory is the bound whose metrics the process shows.
var servedMemory metrics.Replaceable

// ServeMetrics shows with the metrics of the process what each space takes. limit is how many tenants have series of their own.
func (m *CacheMemory) ServeMetrics(limit int) {
	if m != nil {
		servedMemory.Show(m.collector(limit))
	}
}

func (m *CacheMemory) collector(limit int) prometheus.Collector {
	return metrics.Computed(func(shown chan<- prometheus.Metric) {
		var amounts []metrics.Amount
		m.mu.Lock()
		for n, bytes := range m.bytes {
			amounts = append(amounts, metrics.Amount{Tenant: string(n), Bytes: bytes})
		}
		all := m.takeAll()
		m.mu.Unlock()
		for _, one := range metrics.Largest(amounts, limit) {
			shown <- prometheus.MustNewConstMetric(cacheBytesDesc, prometheus.GaugeValue, float64(one.Bytes), one.Tenant)
		}
		shown <- prometheus.MustNewConstMetric(cacheLimitDesc, prometheus.GaugeValue, float64(m.most))
		shown <- prometheus.MustNewConstMetric(cacheAllDesc, prometheus.GaugeValue, float64(all))
		shown <- prometheus.MustNewConstMetric(cacheTotalDesc, prometheus.GaugeValue, float64(m.total))
	}, cacheBytesDesc, cacheLimitDesc, cacheAllDesc, cacheTotalDesc)
}
