package search

import (
	"context"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"

	"github.com/tenantry/tenantry/internal/search/query"
	servermetrics "github.com/tenantry/tenantry/internal/server/metrics"
)

var (
	lag = metrics.NewHistogram(&metrics.HistogramOpts{
		Name: "tenantry_search_wait_duration_seconds", StabilityLevel: metrics.ALPHA,
		Help:    "How long searches waited for the rights and the index to have everything that was written before them, half a second at most for the index.",
		Buckets: []float64{.001, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10},
	})
	rebuilds = metrics.NewCounter(&metrics.CounterOpts{
		Name: "tenantry_search_rebuilds_total", StabilityLevel: metrics.ALPHA,
		Help: "How often an index has failed and was begun anew. Meanwhile there are no answers.",
	})
	refused = metrics.NewCounter(&metrics.CounterOpts{
		Name: "tenantry_search_refused_objects_total", StabilityLevel: metrics.ALPHA,
		Help: "How many versions of objects the database of the index has refused. They are found by kind, namespace and name alone, and answers say so to who may list them.",
	})
	limited = metrics.NewCounterVec(&metrics.CounterOpts{
		Name: "tenantry_search_limited_total", StabilityLevel: metrics.ALPHA,
		Help: "How many searches were not answered because of a limit: concurrency (--search-concurrency, others of the tenant took too long), time (--search-timeout), objects (--search-max-objects) or memory (--search-socket-bytes, connections that were refused or ended).",
	}, []string{"limit"})
	durations = metrics.NewHistogramVec(&metrics.HistogramOpts{
		Name: "tenantry_search_duration_seconds", StabilityLevel: metrics.ALPHA,
		Help:    "How long searches took, with what they waited for, by the kind of query: all, filter, keyword, both, graphql, or watch.",
		Buckets: []float64{.005, .01, .025, .05, .1, .2, .5, 1, 2, 5, 10},
	}, []string{"query"})
	readyDesc   = prometheus.NewDesc("tenantry_search_ready", "1 if the index has everything, and searches are answered.", nil, nil)
	rowsDesc    = prometheus.NewDesc("tenantry_search_rows", "How many objects are in the index.", nil, nil)
	heldDesc    = prometheus.NewDesc("tenantry_search_socket_bytes", "How many bytes web sockets hold: what subscriptions know, and answers that wait for their clients.", nil, nil)
	missingDesc = prometheus.NewDesc("tenantry_search_omitted_objects", "How many objects are not in the index, because their tenant has more than --search-max-objects. Searches that would show them are refused.", nil, nil)
	behindDesc  = prometheus.NewDesc("tenantry_search_behind_revisions", "By how many revisions of etcd the index is behind what its process has been told of, in the space that is the farthest behind.", nil, nil)
)

// observe notes how long a search of a kind took.
func observe(kind string, began time.Time) {
	durations.WithLabelValues(kind).Observe(time.Since(began).Seconds())
}

// ofGraphQL and ofWatch are the kinds of what is asked in GraphQL and of the searches of subscriptions.
const (
	ofGraphQL = "graphql"
	ofWatch   = "watch"
)

// kindOf returns the kind of a query. There are four, so that tenants cannot make series.
func kindOf(q query.Query) string {
	switch {
	case len(q.Filters) > 0 && len(q.Keywords) > 0:
		return "both"
	case len(q.Filters) > 0:
		return "filter"
	case len(q.Keywords) > 0:
		return "keyword"
	default:
		return "all"
	}
}

// ServeMetrics shows the metrics of the service among those of the process.
func (s *Service) ServeMetrics() {
	register()
	shownMetrics.Show(collector{s})
}

var register = sync.OnceFunc(func() { legacyregistry.MustRegister(lag, rebuilds, refused, limited, durations) })

// shownMetrics is the place of what is computed when metrics are read: one process may have several services, one after
// the other.
var shownMetrics servermetrics.Replaceable

// collector computes what is asked of the database when metrics are read.
type collector struct{ *Service }

// Describe implements prometheus.Collector.
func (collector) Describe(descs chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{readyDesc, heldDesc, rowsDesc, missingDesc, behindDesc} {
		descs <- desc
	}
}

// collectTimeout is what the database gets to say how much there is.
const collectTimeout = 2 * time.Second

// Collect implements prometheus.Collector.
func (c collector) Collect(shown chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), collectTimeout)
	defer cancel()
	ready := 1.0
	if c.Ready(ctx) != nil {
		ready = 0
	}
	shown <- prometheus.MustNewConstMetric(readyDesc, prometheus.GaugeValue, ready)
	shown <- prometheus.MustNewConstMetric(heldDesc, prometheus.GaugeValue, float64(c.sockets.held.total()))
	current := c.finder.session()
	if current == nil {
		return
	}
	rows, err := current.index.Rows(ctx)
	if err != nil {
		return
	}
	shown <- prometheus.MustNewConstMetric(rowsDesc, prometheus.GaugeValue, float64(rows))
	if missing, err := current.index.Missing(ctx); err == nil {
		shown <- prometheus.MustNewConstMetric(missingDesc, prometheus.GaugeValue, float64(missing))
	}
	if p, err := current.index.Progress(ctx); err == nil {
		behind := 0.0
		if !current.queue.isEmpty() {
			behind = float64(max(0, current.told.get()-p.All()))
		}
		shown <- prometheus.MustNewConstMetric(behindDesc, prometheus.GaugeValue, behind)
	}
}
