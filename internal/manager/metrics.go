package manager

import (
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

// shown are the metrics of several controllers.
type shown []prometheus.Collector

// Describe implements prometheus.Collector.
func (s shown) Describe(descs chan<- *prometheus.Desc) {
	for _, c := range s {
		c.Describe(descs)
	}
}

// Collect implements prometheus.Collector.
func (s shown) Collect(shown chan<- prometheus.Metric) {
	for _, c := range s {
		c.Collect(shown)
	}
}

// Metrics are those of reconciling, for the registry of a process that has others: of
// the go runtime, work queues and clients it has its own.
func Metrics() prometheus.Collector { return reconciling{metrics.Registry} }

type reconciling struct{ prometheus.Gatherer }

// Describe implements prometheus.Collector. Controllers add metrics later.
func (reconciling) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (r reconciling) Collect(shown chan<- prometheus.Metric) {
	registry, ok := r.Gatherer.(prometheus.Collector)
	if !ok {
		return
	}
	all := make(chan prometheus.Metric)
	go func() {
		defer close(all)
		registry.Collect(all)
	}()
	for metric := range all {
		if strings.HasPrefix(metric.Desc().String(), `Desc{fqName: "controller_runtime_`) {
			shown <- metric
		}
	}
}
