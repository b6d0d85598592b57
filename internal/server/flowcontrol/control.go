package flowcontrol

import (
	"context"
	"net/http"
	"net/url"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/server/httplog"
	"k8s.io/apiserver/pkg/storage"
	upstream "k8s.io/apiserver/pkg/util/flowcontrol"
	"k8s.io/apiserver/pkg/util/flowcontrol/fairqueuing"
	"k8s.io/apiserver/pkg/util/flowcontrol/metrics"
	fcrequest "k8s.io/apiserver/pkg/util/flowcontrol/request"

	"github.com/tenantry/tenantry/internal/tenant"
)

// Counts knows how many objects a space has of a resource.
type Counts interface {
	In(n tenant.Name, resource string) (int64, bool)
}

// Stats returns what is stored of a resource in all spaces.
type Stats func(resource string) (storage.Stats, error)

// Control is upstream's priority and fairness with tenants as its flows.
type Control struct {
	upstream.Interface
	stats  Stats
	counts Counts
	config *fcrequest.WorkEstimatorConfig
}

var _ upstream.Interface = &Control{}

// New returns delegate with tenants as its flows.
func New(delegate upstream.Interface, stats Stats, counts Counts) *Control {
	return &Control{Interface: delegate, stats: stats, counts: counts, config: fcrequest.DefaultWorkEstimatorConfig()}
}

// Handle implements upstream's Interface. The estimate of upstream's filter,
// which knows no spaces, is not asked for.
func (c *Control) Handle(ctx context.Context, digest upstream.RequestDigest,
	note func(*flowcontrolv1.FlowSchema, *flowcontrolv1.PriorityLevelConfiguration, string),
	_ func() fcrequest.WorkEstimate, queueNote fairqueuing.QueueNoteFn, execute func()) {
	digest.User = flowUser(ctx, digest.User)
	var schema, level string
	classified := func(fs *flowcontrolv1.FlowSchema, pl *flowcontrolv1.PriorityLevelConfiguration, flow string) {
		schema, level = fs.Name, pl.Name
		note(fs, pl, flow)
	}
	estimate := func() fcrequest.WorkEstimate {
		work := c.estimate(ctx, schema, level)
		metrics.ObserveWorkEstimatedSeats(level, schema, work.MaxSeats())
		httplog.AddKeyValue(ctx, "apf_iseats", work.InitialSeats)
		httplog.AddKeyValue(ctx, "apf_fseats", work.FinalSeats)
		httplog.AddKeyValue(ctx, "apf_additionalLatency", work.AdditionalLatency)
		return work
	}
	c.Interface.Handle(ctx, digest, classified, estimate, queueNote, execute)
}

// estimate is upstream's estimate of a request in its space.
func (c *Control) estimate(ctx context.Context, schema, level string) fcrequest.WorkEstimate {
	space, err := tenant.From(ctx)
	if err != nil {
		return fcrequest.WorkEstimate{InitialSeats: c.config.MinimumSeats} // to be refused by authorization
	}
	estimate := fcrequest.NewWorkEstimator(
		func(resource string) (storage.Stats, error) { return c.statsIn(space, resource) },
		func(info *request.RequestInfo) int { return c.watchesIn(space, info) },
		c.config, c.GetMaxSeats)
	r := new(http.Request).WithContext(ctx)
	r.URL = queryFrom(ctx)
	return estimate(r, schema, level)
}

// statsIn returns what the space of n holds of a resource.
func (c *Control) statsIn(n tenant.Name, resource string) (storage.Stats, error) {
	stats, err := c.stats(resource)
	if err != nil || n == tenant.All || n == tenant.Everything {
		return stats, err
	}
	if count, ok := c.counts.In(n, resource); ok {
		stats.ObjectCount = count
	}
	return stats, nil
}

type queryKey struct{}

// WithQuery keeps the query of a request for the estimate of its cost.
func WithQuery(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if req.URL.RawQuery != "" {
			req = req.WithContext(context.WithValue(req.Context(), queryKey{}, req.URL))
		}
		handler.ServeHTTP(w, req)
	})
}

func queryFrom(ctx context.Context) *url.URL {
	if u, ok := ctx.Value(queryKey{}).(*url.URL); ok {
		return u
	}
	return &url.URL{}
}
