// Package metrics shows metrics that are computed when they are read with those of
// the process.
package metrics

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/component-base/metrics/legacyregistry"
)

// Others is the value of the label tenant for all tenants without series of their
// own. No tenant can be called so.
const Others = "_other"

// Slot is the place of one collector in the registry of the process. That has one
// server but in tests, where the last collector is shown. The zero value is ready
// for use.
type Slot struct {
	mu        sync.RWMutex
	collector prometheus.Collector
}

// Show makes the metrics of collector those of the slot.
func (s *Slot) Show(collector prometheus.Collector) {
	s.mu.Lock()
	first := s.collector == nil
	s.collector = collector
	s.mu.Unlock()
	if first {
		legacyregistry.RawMustRegister(s)
	}
}

func (s *Slot) shown() prometheus.Collector {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.collector
}

// Describe implements prometheus.Collector.
func (s *Slot) Describe(descs chan<- *prometheus.Desc) { s.shown().Describe(descs) }

// Collect implements prometheus.Collector.
func (s *Slot) Collect(metrics chan<- prometheus.Metric) { s.shown().Collect(metrics) }
