package storage

import (
	"cmp"
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tenantry/tenantry/internal/server/metrics"
	"github.com/tenantry/tenantry/internal/tenant"
)

var (
	cacheBytesDesc = prometheus.NewDesc("tenantry_tenant_cache_bytes",
		"Bytes of the server's memory that custom resources of tenants, and objects of empty entries, take in watch caches, as --tenant-cache-bytes counts them. "+
			"The tenants with the most have series of their own.", []string{"tenant"}, nil)
	cacheLimitDesc = prometheus.NewDesc("tenantry_tenant_cache_limit_bytes", "What --tenant-cache-bytes allows each tenant.", nil, nil)
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
}

// Collect implements prometheus.Collector.
func (c cacheCollector) Collect(shown chan<- prometheus.Metric) {
	type share struct {
		name  tenant.Name
		bytes int64
	}
	var shares []share
	c.of.mu.Lock()
	for n, bytes := range c.of.bytes {
		shares = append(shares, share{n, bytes})
	}
	c.of.mu.Unlock()
	slices.SortFunc(shares, func(a, b share) int {
		return cmp.Or(cmp.Compare(b.bytes, a.bytes), cmp.Compare(a.name, b.name))
	})
	own := min(c.limit, len(shares))
	others := share{name: metrics.Others}
	for _, other := range shares[own:] {
		others.bytes += other.bytes
	}
	for _, one := range append(shares[:own:own], others) {
		shown <- prometheus.MustNewConstMetric(cacheBytesDesc, prometheus.GaugeValue, float64(one.bytes), string(one.name))
	}
	shown <- prometheus.MustNewConstMetric(cacheLimitDesc, prometheus.GaugeValue, float64(c.of.most))
}
