package flowcontrol

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/storage"
	upstream "k8s.io/apiserver/pkg/util/flowcontrol"
	"k8s.io/apiserver/pkg/util/flowcontrol/fairqueuing"
	fcrequest "k8s.io/apiserver/pkg/util/flowcontrol/request"
	"k8s.io/utils/ptr"

	"github.com/tenantry/tenantry/api/v1alpha1"
	"github.com/tenantry/tenantry/internal/tenant"
)

const (
	objectBytes = 1000
	maxSeats    = 8
)

// machinery stands for upstream's: it classifies everything alike and executes
// at once.
type machinery struct {
	executing          atomic.Int64 // requests that have seats
	upstream.Interface              // what a test does not need
	upstream.WatchTracker
	mu   sync.Mutex // of what follows
	flow user.Info
	work fcrequest.WorkEstimate
}

func (m *machinery) RegisterWatch(r *http.Request) upstream.ForgetWatchFunc {
	return m.WatchTracker.RegisterWatch(r)
}

func (m *machinery) GetInterestedWatchCount(info *request.RequestInfo) int {
	return m.WatchTracker.GetInterestedWatchCount(info)
}

func (m *machinery) GetMaxSeats(string) uint64 { return maxSeats }

func (m *machinery) Handle(_ context.Context, digest upstream.RequestDigest,
	note func(*flowcontrolv1.FlowSchema, *flowcontrolv1.PriorityLevelConfiguration, string),
	estimate func() fcrequest.WorkEstimate, _ fairqueuing.QueueNoteFn, execute func()) {
	m.mu.Lock()
	m.flow = digest.User
	note(&flowcontrolv1.FlowSchema{}, &flowcontrolv1.PriorityLevelConfiguration{}, m.flow.GetName())
	m.work = estimate()
	m.mu.Unlock()
	m.executing.Add(1)
	defer m.executing.Add(-1)
	execute()
}

type counts map[string]int64

func (c counts) In(n tenant.Name, resource string) (storage.Stats, bool) {
	in := storage.Stats{ObjectCount: c[string(n)+"/"+resource]}
	switch n {
	case "heavy":
		in.EstimatedAverageObjectSizeBytes = 100 * objectBytes
	case "light":
		in.EstimatedAverageObjectSizeBytes = objectBytes / 10
	}
	return in, resource == "pods"
}

// serve sends a request of authenticated to a space through the filters around
// c, and returns how it was executed.
func serve(t *testing.T, c *Control, authenticated tenant.Name, r *http.Request, handler http.HandlerFunc) {
	t.Helper()
	if !serves(t, c, authenticated, r, handler) {
		t.Error("request was not executed")
	}
}

// serves serves a request like serve, and reports whether it was executed.
func serves(t *testing.T, c *Control, authenticated tenant.Name, r *http.Request, handler http.HandlerFunc) (executed bool) {
	t.Helper()
	resolver := &request.RequestInfoFactory{APIPrefixes: sets.NewString("api", "apis"), GrouplessAPIPrefixes: sets.NewString("api")}
	target, err := tenant.ParsePath(r.URL.Path, r.URL.EscapedPath())
	if err != nil {
		t.Fatal(err)
	}
	r.URL.Path = target.Path
	info, err := resolver.NewRequestInfo(r)
	if err != nil {
		t.Fatal(err)
	}
	u := userOf(authenticated, "jane")
	ctx := contextOf(&tenant.Request{Requested: target.Scope, Authenticated: authenticated}, u)
	WithSent(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx := r.Context()
		digest := upstream.RequestDigest{RequestInfo: info, User: u}
		note := func(*flowcontrolv1.FlowSchema, *flowcontrolv1.PriorityLevelConfiguration, string) {}
		estimate := func() fcrequest.WorkEstimate {
			t.Error("upstream's estimate was asked for")
			return fcrequest.WorkEstimate{}
		}
		c.Handle(ctx, digest, note, estimate, nil, func() {
			executed = true
			handler(w, r)
		})
	}), time.Minute).ServeHTTP(httptest.NewRecorder(), r.WithContext(request.WithRequestInfo(ctx, info)))
	return executed
}

func nothing(http.ResponseWriter, *http.Request) {}

func newControl() (*Control, *machinery) {
	m := &machinery{WatchTracker: upstream.NewWatchTracker()}
	stats := func(resource string) (storage.Stats, error) {
		if resource == "unknown" {
			return storage.Stats{}, fcrequest.ObjectCountNotFoundErr
		}
		if resource == "events" {
			return storage.Stats{ObjectCount: 150}, nil
		}
		return storage.Stats{ObjectCount: 10_500, EstimatedAverageObjectSizeBytes: objectBytes}, nil
	}
	return New(m, Config{
		Stats:  stats,
		Counts: counts{"big/pods": 10_000, "middle/pods": 300, "system/pods": 200, "heavy/pods": 20, "light/pods": 1000},
		Limits: NewLimits(Allowance{}, func(tenant.Name) *v1alpha1.RateLimit { return nil }),
	}), m
}

func TestCostOfLists(t *testing.T) {
	tests := map[string]struct {
		authenticated tenant.Name
		url           string
		want          uint64
	}{
		"empty space":               {"empty", "/api/v1/pods", 1},
		"empty namespace":           {"empty", "/api/v1/namespaces/default/pods", 1},
		"middle space":              {"middle", "/api/v1/pods", 3},
		"big space":                 {"big", "/api/v1/pods", maxSeats},
		"big space, page":           {"big", "/api/v1/pods?limit=200", 2},
		"big space, by the system":  {tenant.System, "/tenants/big/api/v1/pods", maxSeats},
		"system space":              {tenant.System, "/api/v1/pods", 2},
		"few large objects":         {"heavy", "/api/v1/pods", maxSeats},
		"many small objects":        {"light", "/api/v1/pods", 1},
		"all tenants":               {tenant.System, "/tenants/all/api/v1/pods", maxSeats},
		"one object":                {"big", "/api/v1/namespaces/default/pods/p", 1},
		"watch from now":            {"big", "/api/v1/pods?watch=true&resourceVersion=7", 1},
		"watch from the beginning":  {"big", "/api/v1/pods?watch=true", maxSeats},
		"watch of an empty space":   {"empty", "/api/v1/pods?watch=true", 1},
		"not counted by space":      {"empty", "/api/v1/secrets", maxSeats},
		"not served by this server": {"empty", "/api/v1/unknown", 1},
		"without a watch cache":     {"empty", "/api/v1/events", 2},
		"foreign space":             {"empty", "/tenants/big/api/v1/pods", 1},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			c, m := newControl()
			serve(t, c, tc.authenticated, httptest.NewRequest(http.MethodGet, tc.url, nil), nothing)
			if diff := cmp.Diff(fcrequest.WorkEstimate{InitialSeats: tc.want}, m.work); diff != "" {
				t.Errorf("work (-want +got):\n%s", diff)
			}
		})
	}
}

func TestCostOfWatches(t *testing.T) {
	const watches = 50
	tests := map[string]struct {
		watcher tenant.Name
		url     string
		charged bool
	}{
		"of the space":                    {"acme", "/api/v1/pods", true},
		"of the namespace":                {"acme", "/api/v1/namespaces/default/pods", true},
		"of another namespace":            {"acme", "/api/v1/namespaces/other/pods", false},
		"of another tenant":               {"globex", "/api/v1/namespaces/default/pods", false},
		"of the system space":             {tenant.System, "/api/v1/namespaces/default/pods", false},
		"of all tenants":                  {tenant.System, "/tenants/all/api/v1/pods", true},
		"of the space, by the system":     {tenant.System, "/tenants/acme/api/v1/pods", true},
		"of a foreign space, by a tenant": {"globex", "/tenants/acme/api/v1/pods", false},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			c, m := newControl()
			var forget []upstream.ForgetWatchFunc
			for range watches {
				watch := httptest.NewRequest(http.MethodGet, tc.url+"?watch=true&resourceVersion=7", nil)
				serve(t, c, tc.watcher, watch, func(_ http.ResponseWriter, r *http.Request) {
					if f := c.RegisterWatch(r); f != nil {
						forget = append(forget, f)
					}
				})
			}
			create := func() uint64 {
				serve(t, c, "acme", httptest.NewRequest(http.MethodPost, "/api/v1/namespaces/default/pods", nil), nothing)
				return m.work.FinalSeats
			}
			if got := create() > 0; got != tc.charged {
				t.Errorf("a creation is charged for %d watches: %v, want %v", watches, got, tc.charged)
			}
			for _, f := range forget {
				f()
			}
			if got := create(); got != 0 {
				t.Errorf("a creation is charged %d seats after the last watch has ended", got)
			}
		})
	}
}

func TestFlows(t *testing.T) {
	c, m := newControl()
	flows := map[string]int{}
	for _, n := range []tenant.Name{"acme", "globex"} {
		for i := range 3 {
			u := userOf(n, fmt.Sprintf("user-%d", i))
			ctx := contextOf(&tenant.Request{Authenticated: n}, u)
			ctx = request.WithRequestInfo(ctx, &request.RequestInfo{Verb: "get"})
			digest := upstream.RequestDigest{RequestInfo: &request.RequestInfo{Verb: "get"}, User: u}
			c.Handle(ctx, digest, func(*flowcontrolv1.FlowSchema, *flowcontrolv1.PriorityLevelConfiguration, string) {}, nil, nil, func() { flows[m.flow.GetName()]++ })
		}
	}
	if diff := cmp.Diff(map[string]int{"tenant:acme": 3, "tenant:globex": 3}, flows); diff != "" {
		t.Errorf("flows (-want +got):\n%s", diff)
	}
}

func TestClasses(t *testing.T) {
	tests := map[string]struct {
		authenticated tenant.Name
		method, url   string
		class         class
		capacity      int
	}{
		"get":                     {"big", http.MethodGet, "/api/v1/namespaces/default/pods/p", read, 2},
		"small list":              {"empty", http.MethodGet, "/api/v1/pods", read, 2},
		"page of a big list":      {"big", http.MethodGet, "/api/v1/pods?limit=300", read, 2},
		"big list":                {"big", http.MethodGet, "/api/v1/pods", largeRead, 1},
		"watch from now":          {"big", http.MethodGet, "/api/v1/pods?watch=true&resourceVersion=7", read, 2},
		"watch of all":            {"big", http.MethodGet, "/api/v1/pods?watch=true", largeRead, 1},
		"discovery":               {"big", http.MethodGet, "/apis", read, 2},
		"create":                  {"big", http.MethodPost, "/api/v1/namespaces/default/pods", write, 8},
		"patch":                   {"big", http.MethodPatch, "/api/v1/namespaces/default/pods/p", write, 8},
		"delete of many":          {"big", http.MethodDelete, "/api/v1/namespaces/default/pods", write, 8},
		"get, limited in flight":  {"limited", http.MethodGet, "/api/v1/namespaces/default/pods/p", read, 0},
		"big list, by the system": {tenant.System, http.MethodGet, "/tenants/big/api/v1/pods", largeRead, 0},
		"write, by the system":    {tenant.System, http.MethodPost, "/tenants/big/api/v1/namespaces/default/pods", write, 0},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			c, m := newControl()
			c.config.Concurrency = Concurrency{Reads: 2, Writes: 8, LargeReads: 1}
			c.config.Limits = limitsOf(Allowance{}, map[tenant.Name]*v1alpha1.RateLimit{"limited": {InFlight: ptr.To[int32](5)}})
			serve(t, c, tc.authenticated, httptest.NewRequest(tc.method, tc.url, nil), func(_ http.ResponseWriter, r *http.Request) {
				info, _ := request.RequestInfoFrom(r.Context())
				class := classify(info, c.readSeats(r.Context(), info))
				if got := c.capacity(tc.authenticated, class); class != tc.class || got != tc.capacity {
					t.Errorf("class %d, %d at a time, want %d, %d", class, got, tc.class, tc.capacity)
				}
			})
			large := tc.class == largeRead && tc.authenticated != tenant.System
			if got := slices.Contains(m.flow.GetGroups(), largeGroup); got != large {
				t.Errorf("groups %q, large is %v", m.flow.GetGroups(), large)
			}
		})
	}
}

func TestFullQueueRefuses(t *testing.T) {
	c, _ := newControl()
	c.config.Concurrency = Concurrency{Reads: 1}
	ctx := contextOf(&tenant.Request{Authenticated: "acme"}, userOf("acme", "jane"))
	gone, cancel := context.WithCancel(ctx)
	cancel()
	digest := upstream.RequestDigest{RequestInfo: &request.RequestInfo{Verb: "get"}, User: userOf("acme", "jane")}
	handle := func(ctx context.Context, execute func()) (level string) {
		ctx = request.WithRequestInfo(ctx, digest.RequestInfo)
		c.Handle(ctx, digest, func(_ *flowcontrolv1.FlowSchema, pl *flowcontrolv1.PriorityLevelConfiguration, _ string) {
			level = pl.Name
		},
			nil, func(bool) {}, execute)
		return level
	}
	executed := false
	handle(ctx, func() {
		executed = true
		level := handle(gone, func() { t.Error("a second request is executed at the same time") })
		// Upstream's filter counts refusals by priority level.
		if level != tenantsName {
			t.Errorf("refused in priority level %q, want %q", level, tenantsName)
		}
	})
	if !executed {
		t.Error("the first request is not executed")
	}
}

func TestWritesWaitForWatches(t *testing.T) {
	for _, watches := range []int{fewWatches, 100} {
		c, _ := newControl()
		c.config.Concurrency = Concurrency{Writes: 1}
		var wait time.Duration
		var leave func()
		c.queues.afterFunc = func(after time.Duration, do func()) func() bool {
			wait, leave = after, do
			return func() bool { return true }
		}
		for range watches {
			watch := httptest.NewRequest(http.MethodGet, "/api/v1/pods?watch=true&resourceVersion=7", nil)
			serve(t, c, "acme", watch, func(_ http.ResponseWriter, r *http.Request) { c.RegisterWatch(r) })
		}
		serve(t, c, "acme", httptest.NewRequest(http.MethodPost, "/api/v1/namespaces/default/pods", nil), nothing)
		if watches <= fewWatches {
			if wait != overdueAfter || countQueues(&c.queues) != 0 {
				t.Errorf("a write that %d watches see keeps its seat", watches)
			}
			continue
		}
		if want := time.Duration(watches) * perWatch; wait != want || countQueues(&c.queues) != 1 {
			t.Fatalf("a write that %d watches see keeps its seat for %s, in %d queues, want %s", watches, wait, countQueues(&c.queues), want)
		}
		leave()
		if got := countQueues(&c.queues); got != 0 {
			t.Errorf("%d queues are left", got)
		}
	}
}
