package usage

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/tenantry/tenantry/api/v1alpha1"
	"github.com/tenantry/tenantry/internal/server/metrics"
	"github.com/tenantry/tenantry/internal/tenant"
)

var (
	objectsDesc = prometheus.NewDesc("tenantry_tenant_objects",
		"Number of objects stored in the space of a tenant, events left out, as last counted. The tenants with the most bytes have series of their own.",
		[]string{"tenant"}, nil)
	bytesDesc = prometheus.NewDesc("tenantry_tenant_stored_bytes",
		"Bytes that the objects of a tenant take in etcd, events and etcd's history left out, as last counted. The tenants with the most bytes have series of their own.",
		[]string{"tenant"}, nil)
)

// Stored shows what tenants have stored, by the status of their Tenants, which is the
// same on every server.
type Stored struct {
	// Limit is how many tenants have series of their own.
	Limit int
	// Each calls visit with every tenant that has been counted.
	Each func(visit func(n tenant.Name, usage *v1alpha1.TenantUsage))
}

// servedStored is the Stored whose metrics the process shows.
var servedStored metrics.Replaceable

// Serve shows the metrics with those of the process.
func (s Stored) Serve() { servedStored.Show(s.collector()) }

func (s Stored) collector() prometheus.Collector {
	return metrics.Computed(s.collect, objectsDesc, bytesDesc)
}

func (s Stored) collect(shown chan<- prometheus.Metric) {
	var amounts []metrics.Amount
	s.Each(func(n tenant.Name, u *v1alpha1.TenantUsage) {
		amounts = append(amounts, metrics.Amount{Tenant: string(n), Objects: u.Objects, Bytes: u.StoredBytes})
	})
	for _, one := range metrics.Largest(amounts, s.Limit) {
		shown <- prometheus.MustNewConstMetric(objectsDesc, prometheus.GaugeValue, float64(one.Objects), one.Tenant)
		shown <- prometheus.MustNewConstMetric(bytesDesc, prometheus.GaugeValue, float64(one.Bytes), one.Tenant)
	}
}
