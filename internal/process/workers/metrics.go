package workers

import (
	"strings"
	"sync"

	"k8s.io/client-go/util/workqueue"
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
)

func init() { workqueue.SetProvider(provider{}) }

const subsystem = "workqueue"

func gauge(name, help string) *metrics.GaugeVec {
	return metrics.NewGaugeVec(&metrics.GaugeOpts{
		Subsystem: subsystem, Name: name, Help: help, StabilityLevel: metrics.BETA}, []string{"name"})
}

func counter(name, help string) *metrics.CounterVec {
	return metrics.NewCounterVec(&metrics.CounterOpts{
		Subsystem: subsystem, Name: name, Help: help, StabilityLevel: metrics.BETA}, []string{"name"})
}

func histogram(name, help string) *metrics.HistogramVec {
	return metrics.NewHistogramVec(&metrics.HistogramOpts{
		Subsystem: subsystem, Name: name, Help: help, StabilityLevel: metrics.BETA,
		Buckets: metrics.ExponentialBuckets(10e-9, 10, 10)}, []string{"name"})
}

var (
	depth        = gauge("depth", "Current depth of workqueue")
	adds         = counter("adds_total", "Total number of adds handled by workqueue")
	latency      = histogram("queue_duration_seconds", "How long in seconds an item stays in workqueue before being requested.")
	workDuration = histogram("work_duration_seconds", "How long in seconds processing an item from workqueue takes.")
	unfinished   = gauge("unfinished_work_seconds", "Seconds of work that is in progress and not in work_duration_seconds yet.")
	longest      = gauge("longest_running_processor_seconds", "Seconds that the longest running worker of workqueue has been working.")
	retries      = counter("retries_total", "Total number of retries handled by workqueue")
)

// register registers the metrics when the first queue is made: what is shown of them depends on feature gates, which
// are not known before.
var register = sync.OnceFunc(func() {
	for _, m := range []metrics.Registerable{depth, adds, latency, workDuration, unfinished, longest, retries} {
		legacyregistry.MustRegister(m)
	}
})

// provider implements workqueue.MetricsProvider.
type provider struct{}

// NewDepthMetric implements workqueue.MetricsProvider.
func (provider) NewDepthMetric(queue string) workqueue.GaugeMetric {
	register()
	return depth.WithLabelValues(queue)
}

// NewAddsMetric implements workqueue.MetricsProvider.
func (provider) NewAddsMetric(queue string) workqueue.CounterMetric {
	register()
	return adds.WithLabelValues(queue)
}

// NewLatencyMetric implements workqueue.MetricsProvider.
func (provider) NewLatencyMetric(queue string) workqueue.HistogramMetric {
	register()
	return latency.WithLabelValues(queue)
}

// NewWorkDurationMetric implements workqueue.MetricsProvider. A queue observes it in the worker's goroutine.
// Workers of the garbage collector take their items from no lister, and have one for each event of an object.
func (provider) NewWorkDurationMetric(queue string) workqueue.HistogramMetric {
	register()
	if strings.HasPrefix(queue, "garbage_collector_") {
		return workDuration.WithLabelValues(queue)
	}
	return ending{workDuration.WithLabelValues(queue)}
}

// NewUnfinishedWorkSecondsMetric implements workqueue.MetricsProvider.
func (provider) NewUnfinishedWorkSecondsMetric(queue string) workqueue.SettableGaugeMetric {
	register()
	return unfinished.WithLabelValues(queue)
}

// NewLongestRunningProcessorSecondsMetric implements workqueue.MetricsProvider.
func (provider) NewLongestRunningProcessorSecondsMetric(queue string) workqueue.SettableGaugeMetric {
	register()
	return longest.WithLabelValues(queue)
}

// NewRetriesMetric implements workqueue.MetricsProvider. A queue counts in the goroutine of who adds to it.
func (provider) NewRetriesMetric(queue string) workqueue.CounterMetric {
	register()
	return retrying{retries.WithLabelValues(queue)}
}

// ending tells that a worker is done.
type ending struct{ workqueue.HistogramMetric }

// Observe implements workqueue.HistogramMetric.
func (e ending) Observe(seconds float64) {
	e.HistogramMetric.Observe(seconds)
	end()
}

// retrying tells that an item comes again.
type retrying struct{ workqueue.CounterMetric }

// Inc implements workqueue.CounterMetric.
func (r retrying) Inc() {
	r.CounterMetric.Inc()
	again()
}
