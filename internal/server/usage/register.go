package usage

import (
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/component-base/metrics/legacyregistry"
)

// serving is the meter whose metrics the process shows. The registry is that of
// the process, which has one server but in tests.
var serving atomic.Pointer[Meter]

var register = sync.OnceFunc(func() { legacyregistry.RawMustRegister(current{}) })

// Serve shows the metrics of m with those of the process.
func (m *Meter) Serve() {
	serving.Store(m)
	register()
}

// current is the collector of the meter that serves.
type current struct{}

// Describe implements prometheus.Collector.
func (current) Describe(descs chan<- *prometheus.Desc) { serving.Load().Describe(descs) }

// Collect implements prometheus.Collector.
func (current) Collect(metrics chan<- prometheus.Metric) { serving.Load().Collect(metrics) }
