package flowcontrol

import (
	"cmp"
	"context"
	"net/http"
	"time"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/server/httplog"
	"k8s.io/apiserver/pkg/storage"
	upstream "k8s.io/apiserver/pkg/util/flowcontrol"
	"k8s.io/apiserver/pkg/util/flowcontrol/fairqueuing"
	"k8s.io/apiserver/pkg/util/flowcontrol/metrics"
	fcrequest "k8s.io/apiserver/pkg/util/flowcontrol/request"

	"github.com/tenantry/tenantry/internal/process/keyed"
	"github.com/tenantry/tenantry/internal/server/flowcontrol/waiting"
	"github.com/tenantry/tenantry/internal/tenant"
)

// Counts returns how many objects of a resource a space has, if it is known, and how large they are, zero if it is not.
type Counts interface {
	In(n tenant.Name, resource string) (storage.Stats, bool)
}

// Stats returns statistics of the stored objects of a resource in all spaces.
type Stats func(resource string) (storage.Stats, error)

// Control is upstream's priority and fairness with tenants as its flows.
type Control struct {
	upstream.Interface
	config   Config
	work     *fcrequest.WorkEstimatorConfig
	queues   fairQueues
	activity activity
	// arriving are the requests of a flow whose bodies are awaited.
	arriving keyed.Map[string, struct{}]
}

// Config configures Control.
type Config struct {
	Stats  Stats
	Counts Counts
	// Limits are the limits of requests in flight, which replace Concurrency for a tenant.
	Limits *Limits
	// Concurrency is that of each tenant.
	Concurrency Concurrency
}

var _ upstream.Interface = &Control{}

// New returns delegate with tenants as its flows.
func New(delegate upstream.Interface, config Config) *Control {
	return &Control{Interface: delegate, config: config, work: fcrequest.DefaultWorkEstimatorConfig(), queues: fairQueues{afterFunc: afterFunc}}
}

type note = func(*flowcontrolv1.FlowSchema, *flowcontrolv1.PriorityLevelConfiguration, string)

// Handle implements upstream's Interface. It does not use the estimate of upstream's filter, which ignores spaces.
// Streams of pods have their seats until they go on: as long as two of them last, their tenant would read nothing.
func (c *Control) Handle(ctx context.Context, digest upstream.RequestDigest, note note,
	_ func() fcrequest.WorkEstimate, queueNote fairqueuing.QueueNoteFn, execute func()) {
	stream := waiting.StreamFrom(ctx)
	if stream == nil || !isStream(digest.RequestInfo) {
		c.handle(ctx, digest, note, queueNote, execute)
		return
	}
	whileSeated(stream, func(execute func()) { c.handle(ctx, digest, note, queueNote, execute) }, execute)
}

func (c *Control) handle(ctx context.Context, digest upstream.RequestDigest, note note, queueNote fairqueuing.QueueNoteFn, execute func()) {
	n := chargedTenant(ctx)
	switch long, ok := c.arrive(ctx, flowUser(n, write, digest.User).GetName()); {
	case !ok:
		note(refusedSchema, refusedLevel, digest.User.GetName())
		return
	case long:
		var end context.CancelFunc
		ctx, end = anew(ctx)
		defer end()
	}
	seats := c.readSeats(ctx, digest.RequestInfo)
	class := classify(digest.RequestInfo, seats)
	digest.User = flowUser(n, class, digest.User)
	switch capacity := c.capacity(n, class); {
	case capacity > 0:
		leave, ok := c.queues.enter(ctx, c.demand(ctx, queueKey{n, class}, capacity), queueNote)
		if !ok {
			note(refusedSchema, refusedLevel, digest.User.GetName())
			return
		}
		began := time.Now()
		shared := c.activity.shared(n, began)
		defer func() {
			hold, took := c.delivery(ctx, class, digest.RequestInfo), time.Since(began)
			busy := busy(ctx, took-sentFrom(ctx).body.waitTime())
			if shared {
				hold = max(hold, holdTime(class, took, busy, followUpOf(digest.RequestInfo)))
			}
			leave(hold, busy)
		}()
	case n.IsSpace():
		c.activity.shared(n, time.Now()) // other tenants are not alone
	}
	var schema, level string
	classified := func(fs *flowcontrolv1.FlowSchema, pl *flowcontrolv1.PriorityLevelConfiguration, flow string) {
		schema, level = fs.Name, pl.Name
		note(fs, pl, flow)
	}
	estimate := func() fcrequest.WorkEstimate { return c.workOf(ctx, class, seats, schema, level) }
	handle := func(execute func()) { c.Interface.Handle(ctx, digest, classified, estimate, queueNote, execute) }
	if seat := sentFrom(ctx).seat; seat != nil && n.IsSpace() && (mayLast(class, seats) || isStream(digest.RequestInfo)) {
		seat.hold(handle, func() {
			if class == write { // others do not need their bodies
				sentFrom(ctx).body.waits(seat.waiting)
			}
			execute()
		})
		return
	}
	handle(execute)
}

// arrive waits for the body of a request if that is small, and reports whether it took long. It does not wait with more
// than maxQueued others of a flow, for each of them takes memory: those of a tenant, of a user of the system, or of all
// who are not known.
func (c *Control) arrive(ctx context.Context, flow string) (long, ok bool) {
	body := sentFrom(ctx).body
	if !body.isSmall() {
		return false, true
	}
	_, others, leave := c.arriving.Use(flow, func() struct{} { return struct{}{} })
	defer leave()
	if others > maxQueued {
		return false, false
	}
	return body.arrive(), true
}

// workOf returns how many seats of its priority level a request has, for how long, and notes that. A read has seats of
// its own.
func (c *Control) workOf(ctx context.Context, class class, seats uint64, schema, level string) fcrequest.WorkEstimate {
	work := fcrequest.WorkEstimate{InitialSeats: c.work.MinimumSeats}
	switch most := c.GetMaxSeats(level); {
	case class == write:
		work = c.estimate(ctx, schema, level, c.GetMaxSeats)
	case most == 0:
		work.InitialSeats = max(seats, work.InitialSeats)
	default:
		work.InitialSeats = max(min(seats, most), work.InitialSeats)
	}
	metrics.ObserveWorkEstimatedSeats(level, schema, work.MaxSeats())
	httplog.AddKeyValue(ctx, "apf_iseats", work.InitialSeats)
	httplog.AddKeyValue(ctx, "apf_fseats", work.FinalSeats)
	httplog.AddKeyValue(ctx, "apf_additionalLatency", work.AdditionalLatency)
	return work
}

// demand returns what a request needs of a queue with a capacity. While a tenant is alone,
// its queues have more seats, except for requests that would keep all cores busy when other
// tenants come.
func (c *Control) demand(ctx context.Context, key queueKey, capacity int) demand {
	d := demand{key: key, capacity: capacity}
	alone := c.activity.alone(key.tenant, time.Now())
	if key.class == write {
		sent := sentFrom(ctx)
		d.body, d.seat = sent.body, sent.seat
		d.costly = sent.hasLargeBody() || !alone && c.queues.costly(key)
	}
	if alone && !d.costly {
		d.capacity = max(d.capacity, min(aloneFactor*d.capacity, mostAlone))
	}
	return d
}

// capacity returns how many seats n has for a class of requests, zero for any number.
func (c *Control) capacity(n tenant.Name, class class) int {
	switch {
	case !n.IsSpace():
		return 0
	case class == largeRead:
		return c.config.Concurrency.LargeReads
	case c.config.Limits.allowed(n).InFlight > 0:
		return 0
	case class == write:
		return c.config.Concurrency.Writes
	default:
		return c.config.Concurrency.Reads
	}
}

// delivery returns how long watches keep the server busy after the end of a write.
func (c *Control) delivery(ctx context.Context, class class, info *request.RequestInfo) time.Duration {
	in, err := tenant.ScopeFrom(ctx)
	if class != write || err != nil {
		return 0
	}
	if count := c.watchesOf(in, info); count > fewWatches {
		return time.Duration(count) * perWatch
	}
	return 0
}

// readSeats returns the seats of a list or watch if its priority level had any number, zero
// for other requests.
func (c *Control) readSeats(ctx context.Context, info *request.RequestInfo) uint64 {
	if info.Verb != "list" && info.Verb != "watch" {
		return 0
	}
	return c.estimate(ctx, "", "", func(string) uint64 { return 0 }).InitialSeats
}

// classify returns the class of a request.
func classify(info *request.RequestInfo, readSeats uint64) class {
	switch info.Verb {
	case "create", "update", "patch", "delete", "deletecollection", "post", "put":
		return write
	}
	if readSeats >= largeSeats {
		return largeRead
	}
	return read
}

// estimate is upstream's estimate of the work of a request, in its space.
func (c *Control) estimate(ctx context.Context, schema, level string, maxSeats func(level string) uint64) fcrequest.WorkEstimate {
	in, err := tenant.ScopeFrom(ctx)
	if err != nil {
		return fcrequest.WorkEstimate{InitialSeats: c.work.MinimumSeats} // authorization will refuse it
	}
	estimate := fcrequest.NewWorkEstimator(
		func(resource string) (storage.Stats, error) { return c.statsOf(in, resource) },
		func(info *request.RequestInfo) int { return c.watchesOf(in, info) },
		c.work, maxSeats)
	r := new(http.Request).WithContext(ctx)
	r.URL = sentFrom(ctx).url
	return estimate(r, schema, level)
}

// statsOf returns statistics of the objects of a resource in a scope. For a resource without
// a watch cache, those of all spaces are the best there are.
func (c *Control) statsOf(in tenant.Scope, resource string) (storage.Stats, error) {
	stats, err := c.config.Stats(resource)
	n, one := in.Space()
	if err != nil || !one {
		return stats, err
	}
	if own, ok := c.config.Counts.In(n, resource); ok {
		// The size of other spaces' objects says nothing, and is theirs to choose.
		own.EstimatedAverageObjectSizeBytes = cmp.Or(own.EstimatedAverageObjectSizeBytes, stats.EstimatedAverageObjectSizeBytes)
		return own, nil
	}
	if stats.EstimatedAverageObjectSizeBytes == 0 {
		stats.EstimatedAverageObjectSizeBytes = uncachedBytes
	}
	return stats, nil
}
