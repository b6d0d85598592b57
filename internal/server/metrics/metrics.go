package metrics

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/component-base/metrics/legacyregistry"
)

// Others is the value of the label tenant for all tenants without series of their
// own. It is not a valid name of a tenant.
const Others = "_other"

// Replaceable is a collector in the process's registry that delegates to the one that was
// set last. A process has one server except in tests. The zero value is ready for use.
type Replaceable struct {
	mu        sync.RWMutex
	collector prometheus.Collector
}

// Show makes s delegate to collector.
func (s *Replaceable) Show(collector prometheus.Collector) {
	s.mu.Lock()
	first := s.collector == nil
	s.collector = collector
	s.mu.Unlock()
	if first {
		legacyregistry.RawMustRegister(s)
	}
}

func (s *Replaceable) current() prometheus.Collector {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.collector
}

// Describe implements prometheus.Collector.
func (s *Replaceable) Describe(descs chan<- *prometheus.Desc) { s.current().Describe(descs) }

// Collect implements prometheus.Collector.
func (s *Replaceable) Collect(metrics chan<- prometheus.Metric) { s.current().Collect(metrics) }

// Computed returns a collector of metrics that are computed whenever they are read.
func Computed(collect func(shown chan<- prometheus.Metric), descs ...*prometheus.Desc) prometheus.Collector {
	return computed{descs, collect}
}

type computed struct {
	descs   []*prometheus.Desc
	collect func(shown chan<- prometheus.Metric)
}

func (c computed) Describe(descs chan<- *prometheus.Desc) {
	for _, desc := range c.descs {
		descs <- desc
	}
}

func (c computed) Collect(shown chan<- prometheus.Metric) { c.collect(shown) }
