package tenant

import (
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/component-base/metrics/legacyregistry"
)

var tenantsDesc = prometheus.NewDesc("tenantry_tenants",
	"Number of tenants by phase: Ready, Progressing (not ready yet or any more), Suspended, Terminating.", []string{"phase"}, nil)

// serving is the Lookup whose metric the process shows. The registry is that of
// the process, which has one server but in tests.
var serving atomic.Pointer[Lookup]

var register = sync.OnceFunc(func() { legacyregistry.RawMustRegister(phases{}) })

// ServeMetrics shows the number of tenants with the metrics of the process.
func (l *Lookup) ServeMetrics() {
	serving.Store(l)
	register()
}

// phases is the collector of the Lookup that serves.
type phases struct{}

// Describe implements prometheus.Collector.
func (phases) Describe(descs chan<- *prometheus.Desc) { descs <- tenantsDesc }

// Collect implements prometheus.Collector.
func (phases) Collect(metrics chan<- prometheus.Metric) {
	for phase, count := range serving.Load().phases() {
		metrics <- prometheus.MustNewConstMetric(tenantsDesc, prometheus.GaugeValue, float64(count), phase)
	}
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
