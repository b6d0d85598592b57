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

// served is the collector of the ledger whose quotas the process shows.
var served metrics.Replaceable

// ServeMetrics shows the quotas of tenants with the metrics of the process. limit is
// how many of them have series of their own.
func (l *Ledger) ServeMetrics(limit int) {
	served.Show(collector(limit, func() []*corev1.ResourceQuota {
		quotas, err := l.accounts.latest.informer.Lister().List(labels.Everything())
		if err != nil {
			return nil
		}
		return slices.DeleteFunc(quotas, func(q *corev1.ResourceQuota) bool { return !IsTenantQuota(q) })
	}))
}

// collector shows the quotas of tenants.
func collector(limit int, quotas func() []*corev1.ResourceQuota) prometheus.Collector {
	return metrics.Computed(func(shown chan<- prometheus.Metric) { collect(shown, quotas(), limit) }, usedDesc, hardDesc)
}

func collect(shown chan<- prometheus.Metric, quotas []*corev1.ResourceQuota, limit int) {
	type ranked struct {
		*corev1.ResourceQuota
		fullness float64
	}
	byRoom := make([]ranked, len(quotas))
	for i, q := range quotas {
		byRoom[i] = ranked{q, fullnessOf(q)}
	}
	own, others := metrics.Top(byRoom, limit, func(a, b ranked) int {
		return cmp.Or(cmp.Compare(b.fullness, a.fullness), cmp.Compare(a.Namespace, b.Namespace))
	})
	names := namesOf(quotas)
	for _, q := range own {
		alone := sums{}
		alone.add(q.Status)
		alone.collect(shown, string(tenant.Flat(q.Namespace).Space()), names)
	}
	together := sums{}
	for _, q := range others {
		together.add(q.Status)
	}
	together.collect(shown, metrics.Others, names)
}

// sums of what quotas say of each resource.
type sums map[corev1.ResourceName]struct{ used, hard float64 }

func (s sums) add(status corev1.ResourceQuotaStatus) {
	for name, hard := range status.Hard {
		sum, used := s[name], status.Used[name]
		sum.used += used.AsApproximateFloat64()
		sum.hard += hard.AsApproximateFloat64()
		s[name] = sum
	}
}

func (s sums) collect(shown chan<- prometheus.Metric, n string, names []corev1.ResourceName) {
	for _, name := range names {
		if sum, ok := s[name]; ok {
			shown <- prometheus.MustNewConstMetric(usedDesc, prometheus.GaugeValue, sum.used, n, string(name))
			shown <- prometheus.MustNewConstMetric(hardDesc, prometheus.GaugeValue, sum.hard, n, string(name))
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
