package tenant

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/tenantry/tenantry/internal/server/metrics"
)

var tenantsDesc = prometheus.NewDesc("tenantry_tenants",
	"Number of tenants by phase: Ready, Progressing (not ready yet or any more), Suspended, Terminating.", []string{"phase"}, nil)

// served is the collector of the Lookup whose tenants the process counts.
var served metrics.Replaceable

// ServeMetrics shows the number of tenants with the metrics of the process.
func (l *Lookup) ServeMetrics() {
	served.Show(metrics.Computed(func(shown chan<- prometheus.Metric) {
		for phase, count := range l.phases() {
			shown <- prometheus.MustNewConstMetric(tenantsDesc, prometheus.GaugeValue, float64(count), phase)
		}
	}, tenantsDesc))
}

// phases returns the number of known tenants by phase.
func (l *Lookup) phases() map[string]int {
	counts := map[string]int{"Ready": 0, "Progressing": 0, "Suspended": 0, "Terminating": 0}
	l.mu.RLock()
	defer l.mu.RUnlock()
	for _, state := range l.states {
		counts[state.phase()]++
	}
	return counts
}

func (s State) phase() string {
	switch {
	case s.Terminating:
		return "Terminating"
	case s.Suspended:
		return "Suspended"
	case s.Ready:
		return "Ready"
	default:
		return "Progressing"
	}
}
