package flowcontrol

import (
	"context"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apiserver/pkg/endpoints/request"

	"github.com/tenantry/tenantry/internal/tenant"
	"github.com/tenantry/tenantry/test/until"
)

// TestUnended checks that what runs for a write does not end with its client, so that its
// seats are not free before.
func TestUnended(t *testing.T) {
	longRunning := func(_ *http.Request, info *request.RequestInfo) bool { return info.Verb == "connect" }
	for name, tc := range map[string]struct {
		tenant tenant.Name
		verb   string
		ends   bool
	}{
		"write":               {"acme", "create", false},
		"patch":               {"acme", "patch", false},
		"read":                {"acme", "list", true},
		"exec":                {"acme", "connect", true},
		"write by the system": {tenant.System, "create", true},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, gone := context.WithCancel(contextOf(&tenant.Request{Authenticated: tc.tenant}, userOf(tc.tenant, "jane")))
			ctx, cancel := context.WithTimeout(ctx, 300*time.Millisecond) // as the client asks
			defer cancel()
			asked, _ := ctx.Deadline()
			ctx = request.WithRequestInfo(ctx, &request.RequestInfo{Verb: tc.verb, IsResourceRequest: true})
			handler := WithUnended(http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) {
				gone()
				if ended := req.Context().Err() != nil; ended != tc.ends {
					t.Errorf("ended with its client: %v, want %v", ended, tc.ends)
				}
				if got, ok := req.Context().Deadline(); !ok || got.Equal(asked) != tc.ends {
					t.Errorf("ends at %s, the client asked for %s", got, asked)
				}
			}), longRunning)
			handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/", nil).WithContext(ctx))
		})
	}
}

// TestSeatsOfWork checks that a write that is answered before it has ended keeps its seat for
// as long as something refers to its context.
func TestSeatsOfWork(t *testing.T) {
	c, _ := newControl()
	c.config.Concurrency.Writes = 1
	var timers []time.Duration
	var forget func()
	c.queues.afterFunc = func(after time.Duration, do func()) func() bool {
		if timers = append(timers, after); after == forgetAfter {
			forget = do
		}
		return func() bool { return true }
	}
	var work context.Context
	write := func(status int) {
		serve(t, c, "acme", httptest.NewRequest(http.MethodPost, "/api/v1/namespaces/default/pods", nil), func(w http.ResponseWriter, r *http.Request) {
			WithUnended(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				work = r.Context()
				w.WriteHeader(status)
			}), nil).ServeHTTP(w, r)
		})
	}
	write(http.StatusCreated)
	runtime.KeepAlive(work)
	if got := countQueues(&c.queues); got != 0 {
		t.Errorf("%d queues after a write that has ended", got)
	}
	write(http.StatusGatewayTimeout)
	for range 3 {
		runtime.GC()
	}
	if got := countQueues(&c.queues); got != 1 {
		t.Fatalf("%d queues while a write is at work", got)
	}
	if !slices.Contains(timers, collectAfter) {
		t.Error("nobody looks whether it has ended")
	}
	runtime.KeepAlive(work)
	work = nil
	until.True(t, "the queue of a write that is done is gone", func() bool {
		runtime.GC() // it cleans up later
		return countQueues(&c.queues) == 0
	})
	write(http.StatusGatewayTimeout)
	if got := countQueues(&c.queues); got != 1 {
		t.Fatalf("%d queues while another write is at work", got)
	}
	forget()
	if got := countQueues(&c.queues); got != 0 {
		t.Errorf("%d queues long after a write to which something refers", got)
	}
	runtime.KeepAlive(work)
}

// TestWorkIsCollectedAlone checks that seats do not wait for other small objects, next to which Go may have allocated
// the work.
func TestWorkIsCollectedAlone(t *testing.T) {
	const works = 100
	var ended atomic.Int32
	var neighbours []*int32
	for range works {
		w := workFrom(withWork(t.Context()))
		neighbours = append(neighbours, new(int32))
		runtime.AddCleanup(w, func(ended *atomic.Int32) { ended.Add(1) }, &ended)
	}
	until.True(t, "all works have been collected", func() bool {
		runtime.GC()
		return ended.Load() == works
	})
	runtime.KeepAlive(neighbours)
}
