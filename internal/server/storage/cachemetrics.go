package storage

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/tenantry/tenantry/internal/server/metrics"
)

var (
	cacheBytesDesc = prometheus.NewDesc("tenantry_tenant_cache_bytes",
		"Bytes of the server's memory that custom resources of tenants, and objects of empty entries, take in watch caches, as --tenant-cache-bytes counts them. "+
			"The tenants with the most have series of their own.", []string{"tenant"}, nil)
	cacheLimitDesc = prometheus.NewDesc("tenantry_tenant_cache_limit_bytes", "What --tenant-cache-bytes allows each tenant.", nil, nil)
	cacheAllDesc   = prometheus.NewDesc("tenantry_tenant_cache_all_bytes", "What all tenants together take of what tenantry_tenant_cache_bytes shows.", nil, nil)
	cacheTotalDesc = prometheus.NewDesc("tenantry_tenant_cache_all_limit_bytes", "What --tenant-cache-total-bytes allows all tenants together, 0 without a limit.", nil, nil)
)

// servedMemory is the bound whose metrics the process shows.
var servedMemory metrics.Replaceable

// ServeMetrics shows with the metrics of the process what each space takes. limit is how many tenants have series of their own.
func (m *CacheMemory) ServeMetrics(limit int) {
	if m != nil {
		servedMemory.Show(cacheCollector{m, limit})
	}
}

type cacheCollector struct {
	of    *CacheMemory
	limit int
}

// Describe implements prometheus.Collector.
func (cacheCollector) Describe(descs chan<- *prometheus.Desc) {
	descs <- cacheBytesDesc
	descs <- cacheLimitDesc
	descs <- cacheAllDesc
	descs <- cacheTotalDesc
}

// Collect implements prometheus.Collector.
func (c cacheCollector) Collect(shown chan<- prometheus.Metric) {
	var amounts []metrics.Amount
	c.of.mu.Lock()
	for n, bytes := range c.of.bytes {
		amounts = append(amounts, metrics.Amount{Tenant: string(n), Bytes: bytes})
	}
	all := c.of.all
	c.of.mu.Unlock()
	for _, one := range metrics.Largest(amounts, c.limit) {
		shown <- prometheus.MustNewConstMetric(cacheBytesDesc, prometheus.GaugeValue, float64(one.Bytes), one.Tenant)
	}
	shown <- prometheus.MustNewConstMetric(cacheLimitDesc, prometheus.GaugeValue, float64(c.of.most))
	shown <- prometheus.MustNewConstMetric(cacheAllDesc, prometheus.GaugeValue, float64(all))
	shown <- prometheus.MustNewConstMetric(cacheTotalDesc, prometheus.GaugeValue, float64(c.of.total))
}
