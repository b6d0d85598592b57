package published

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tenantry/tenantry/api/v1alpha1"
)

// Metrics by resource; which resources can be published is the platform's to say, so
// that there are few.
var (
	objectsDesc = prometheus.NewDesc("tenantry_published_objects",
		"Number of published objects, by resource and how far they are copied: InAllSpaces, Copying, TenantsObjectsKept, CopiesFailed, NotPublishable.",
		[]string{"resource", "reason"}, nil)
	copiesDesc = prometheus.NewDesc("tenantry_published_copies",
		"Number of copies that spaces are to have of published objects, by resource and state: current, pending, kept (the tenant has an object of its own there), failed.",
		[]string{"resource", "state"}, nil)
	syncSeconds = prometheus.NewHistogram(prometheus.HistogramOpts{
		Name:    "tenantry_published_sync_duration_seconds",
		Help:    "Time to look at all spaces for one published object where a copy was not known to be current, and to write it where it was not.",
		Buckets: []float64{0.01, 0.05, 0.25, 1, 5, 15, 60, 300},
	})
)

// readTimeout is how long metrics wait for the reports about published objects, which
// are in memory unless the manager is just starting.
const readTimeout = time.Second

var _ prometheus.Collector = &Publisher{}

// Describe implements prometheus.Collector.
func (p *Publisher) Describe(descs chan<- *prometheus.Desc) {
	descs <- objectsDesc
	descs <- copiesDesc
	syncSeconds.Describe(descs)
}

// Collect implements prometheus.Collector. It reads the reports that administrators
// read.
func (p *Publisher) Collect(shown chan<- prometheus.Metric) {
	syncSeconds.Collect(shown)
	ctx, cancel := context.WithTimeout(context.Background(), readTimeout)
	defer cancel()
	reports := &v1alpha1.PublishedObjectList{}
	if err := p.Client.List(ctx, reports, client.UnsafeDisableDeepCopy); err != nil {
		return // the cache has not begun, or has ended
	}
	collect(shown, reports.Items)
}

// collect adds reports up by resource.
func collect(shown chan<- prometheus.Metric, reports []v1alpha1.PublishedObject) {
	type series struct{ resource, value string }
	objects, copies := map[series]int32{}, map[series]int32{}
	for i := range reports {
		resource, status := objectOf(&reports[i]).Resource.String(), reports[i].Status
		if c := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionPublished); c != nil {
			objects[series{resource, c.Reason}]++
		}
		copies[series{resource, "current"}] += status.Copies
		copies[series{resource, "kept"}] += status.Kept
		copies[series{resource, "failed"}] += status.Failed
		copies[series{resource, "pending"}] += status.Spaces - status.Copies - status.Kept - status.Failed
	}
	for s, count := range objects {
		shown <- prometheus.MustNewConstMetric(objectsDesc, prometheus.GaugeValue, float64(count), s.resource, s.value)
	}
	for s, count := range copies {
		shown <- prometheus.MustNewConstMetric(copiesDesc, prometheus.GaugeValue, float64(count), s.resource, s.value)
	}
}
