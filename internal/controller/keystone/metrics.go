package keystone

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tenantry/tenantry/api/v1alpha1"
)

// Metrics by KeystoneSync, of which an administrator makes a few.
var (
	runs = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "tenantry_keystone_sync_runs_total",
		Help: "Runs of KeystoneSyncs, by what they came to: the reason of the condition Ready.",
	}, []string{"sync", "reason"})
	changed = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "tenantry_keystone_sync_changes_total",
		Help: "Objects that KeystoneSyncs have written, by kind and verb (create, update, delete).",
	}, []string{"kind", "verb"})
	runSeconds = prometheus.NewHistogram(prometheus.HistogramOpts{
		Name:    "tenantry_keystone_sync_duration_seconds",
		Help:    "Time of runs of KeystoneSyncs that read all of Keystone's lists.",
		Buckets: []float64{0.1, 0.5, 1, 5, 15, 60, 300, 900},
	})
	lastSuccess = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "tenantry_keystone_sync_last_success_timestamp_seconds",
		Help: "When the last run of a KeystoneSync without errors began.",
	}, []string{"sync"})
	guardTripped = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "tenantry_keystone_sync_guard_tripped",
		Help: "1 while so much has gone from Keystone's lists that somebody has to acknowledge it.",
	}, []string{"sync"})
)

// Collectors returns the metrics of this package.
func Collectors() []prometheus.Collector {
	return []prometheus.Collector{runs, changed, runSeconds, lastSuccess, guardTripped}
}

// observe counts a run.
func observe(name string, found *outcome, begin time.Time) {
	runs.WithLabelValues(name, found.reason).Inc()
	if !found.complete {
		return
	}
	runSeconds.Observe(found.duration.Seconds())
	if found.err == nil && found.reason != v1alpha1.ReasonOverlaps {
		lastSuccess.WithLabelValues(name).Set(float64(begin.Unix()))
	}
	tripped := 0.0
	if found.removed != nil {
		tripped = 1
	}
	guardTripped.WithLabelValues(name).Set(tripped)
}

// forget ends the series of a KeystoneSync that is gone.
func forget(name string) {
	labels := prometheus.Labels{"sync": name}
	runs.DeletePartialMatch(labels)
	lastSuccess.Delete(labels)
	guardTripped.Delete(labels)
}
