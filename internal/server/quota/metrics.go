package quota

import (
	"cmp"
	"math"
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/tenantry/tenantry/internal/server/metrics"
	"github.com/tenantry/tenantry/internal/tenant"
)

// shownResources is how many resources have series, those with a limit in the most
// tenants: a Tenant can have a limit for anything.
const shownResources = 32

var (
	usedDesc = prometheus.NewDesc("tenantry_tenant_quota_used",
		"What tenants use of their quota, by resource, in its unit (cores, bytes, objects). The tenants with the least room have series of their own.",
		[]string{"tenant", "resource"}, nil)
	hardDesc = prometheus.NewDesc("tenantry_tenant_quota_hard",
		"Hard limits of tenants' quotas, by resource, in its unit (cores, bytes, objects). The tenants with the least room have series of their own.",
		[]string{"tenant", "resource"}, nil)
)

// slot is where the metrics of the ledger that serves are shown.
var slot metrics.Slot

// ServeMetrics shows the quotas of tenants with the metrics of the process. limit is
// how many of them have series of their own.
func (l *Ledger) ServeMetrics(limit int) {
	slot.Show(collector{limit, func() []*corev1.ResourceQuota {
		quotas, err := l.accessor.latest.informer.Lister().List(labels.Everything())
		if err != nil {
			return nil
		}
		return slices.DeleteFunc(quotas, func(q *corev1.ResourceQuota) bool { return !IsTenantQuota(q) })
	}})
}

// collector shows the quotas of tenants.
type collector struct {
	limit  int
	quotas func() []*corev1.ResourceQuota
}

// Describe implements prometheus.Collector.
func (collector) Describe(descs chan<- *prometheus.Desc) {
	descs <- usedDesc
	descs <- hardDesc
}

// Collect implements prometheus.Collector.
func (c collector) Collect(shown chan<- prometheus.Metric) {
	quotas := c.quotas()
	fullness := make(map[*corev1.ResourceQuota]float64, len(quotas))
	for _, q := range quotas {
		fullness[q] = fullnessOf(q)
	}
	slices.SortFunc(quotas, func(a, b *corev1.ResourceQuota) int {
		return cmp.Or(cmp.Compare(fullness[b], fullness[a]), cmp.Compare(a.Namespace, b.Namespace))
	})
	names := namesOf(quotas)
	own := min(c.limit, len(quotas))
	for i, q := range quotas[:own] {
		n, _ := tenant.Unflatten(q.Namespace)
		collect(shown, string(n), names, quotas[i:i+1])
	}
	collect(shown, metrics.Others, names, quotas[own:])
}

// collect shows the sum of some quotas.
func collect(shown chan<- prometheus.Metric, n string, names []corev1.ResourceName, quotas []*corev1.ResourceQuota) {
	for _, name := range names {
		var used, hard float64
		limited := false
		for _, q := range quotas {
			if limit, ok := q.Status.Hard[name]; ok {
				amount := q.Status.Used[name]
				used, hard, limited = used+amount.AsApproximateFloat64(), hard+limit.AsApproximateFloat64(), true
			}
		}
		if limited {
			shown <- prometheus.MustNewConstMetric(usedDesc, prometheus.GaugeValue, used, n, string(name))
			shown <- prometheus.MustNewConstMetric(hardDesc, prometheus.GaugeValue, hard, n, string(name))
		}
	}
}

// fullnessOf returns how much of a quota is used, of that of which there is the least
// left: 1 is all.
func fullnessOf(q *corev1.ResourceQuota) float64 {
	fullest := 0.0
	for name, used := range q.Status.Used {
		hard := q.Status.Hard[name]
		if share := used.AsApproximateFloat64() / hard.AsApproximateFloat64(); !math.IsNaN(share) {
			fullest = max(fullest, share)
		}
	}
	return fullest
}

// namesOf returns the resources that most quotas limit.
func namesOf(quotas []*corev1.ResourceQuota) []corev1.ResourceName {
	counts := make(map[corev1.ResourceName]int)
	for _, q := range quotas {
		for name := range q.Status.Hard {
			counts[name]++
		}
	}
	names := make([]corev1.ResourceName, 0, len(counts))
	for name := range counts {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b corev1.ResourceName) int {
		return cmp.Or(cmp.Compare(counts[b], counts[a]), cmp.Compare(a, b))
	})
	return names[:min(shownResources, len(names))]
}
