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
	config Config
	work   *fcrequest.WorkEstimatorConfig
	lanes  lanes
}

// Config is what Control needs to know.
type Config struct {
	Stats  Stats
	Counts Counts
	// Limits are those of requests in flight, which take the place of Concurrency.
	Limits *Limits
	// Concurrency and LargeConcurrency are as in Options.
	Concurrency      int
	LargeConcurrency int
}

var _ upstream.Interface = &Control{}

// New returns delegate with tenants as its flows.
func New(delegate upstream.Interface, config Config) *Control {
	return &Control{Interface: delegate, config: config, work: fcrequest.DefaultWorkEstimatorConfig()}
}

type note = func(*flowcontrolv1.FlowSchema, *flowcontrolv1.PriorityLevelConfiguration, string)

// Handle implements upstream's Interface. The estimate of upstream's filter,
// which knows no spaces, is not asked for.
func (c *Control) Handle(ctx context.Context, digest upstream.RequestDigest, note note,
	_ func() fcrequest.WorkEstimate, queueNote fairqueuing.QueueNoteFn, execute func()) {
	n := payer(ctx)
	large := n.IsSpace() && c.isLarge(ctx)
	digest.User = flowUser(n, large, digest.User)
	if capacity := c.capacity(n, large); capacity > 0 {
		leave, ok := c.lanes.enter(ctx, laneKey{n, large}, capacity, queueNote)
		if !ok {
			note(refusedSchema, refusedLevel, digest.User.GetName())
			return
		}
		defer leave()
	}
	var schema, level string
	classified := func(fs *flowcontrolv1.FlowSchema, pl *flowcontrolv1.PriorityLevelConfiguration, flow string) {
		schema, level = fs.Name, pl.Name
		note(fs, pl, flow)
	}
	estimate := func() fcrequest.WorkEstimate {
		work := c.estimate(ctx, schema, level, c.GetMaxSeats)
		metrics.ObserveWorkEstimatedSeats(level, schema, work.MaxSeats())
		httplog.AddKeyValue(ctx, "apf_iseats", work.InitialSeats)
		httplog.AddKeyValue(ctx, "apf_fseats", work.FinalSeats)
		httplog.AddKeyValue(ctx, "apf_additionalLatency", work.AdditionalLatency)
		return work
	}
	c.Interface.Handle(ctx, digest, classified, estimate, queueNote, execute)
}

// capacity returns how many requests like this one of n are executed at a time,
// zero for any number.
func (c *Control) capacity(n tenant.Name, large bool) int {
	switch {
	case !n.IsSpace():
		return 0
	case large:
		return c.config.LargeConcurrency
	case c.config.Limits.allowed(n).InFlight > 0:
		return 0
	default:
		return c.config.Concurrency
	}
}

// largeSeats is from how many seats on, of 100 kB each, a read is large: it keeps
// a core busy for longer than others should have to wait.
const largeSeats = 4

// isLarge reports whether a request reads much.
func (c *Control) isLarge(ctx context.Context) bool {
	info, ok := request.RequestInfoFrom(ctx)
	if !ok || info.Verb != "list" && info.Verb != "watch" {
		return false
	}
	unbounded := func(string) uint64 { return 0 }
	return c.estimate(ctx, "", "", unbounded).InitialSeats >= largeSeats
}

// estimate is upstream's estimate of a request in its space.
func (c *Control) estimate(ctx context.Context, schema, level string, maxSeats func(level string) uint64) fcrequest.WorkEstimate {
	space, err := tenant.From(ctx)
	if err != nil {
		return fcrequest.WorkEstimate{InitialSeats: c.work.MinimumSeats} // to be refused by authorization
	}
	estimate := fcrequest.NewWorkEstimator(
		func(resource string) (storage.Stats, error) { return c.statsIn(space, resource) },
		func(info *request.RequestInfo) int { return c.watchesIn(space, info) },
		c.work, maxSeats)
	r := new(http.Request).WithContext(ctx)
	r.URL = queryFrom(ctx)
	return estimate(r, schema, level)
}

// statsIn returns what the space of n holds of a resource.
func (c *Control) statsIn(n tenant.Name, resource string) (storage.Stats, error) {
	stats, err := c.config.Stats(resource)
	if err != nil || n == tenant.All || n == tenant.Everything {
		return stats, err
	}
	if count, ok := c.config.Counts.In(n, resource); ok {
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
