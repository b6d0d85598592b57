package flowcontrol

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apiserver/pkg/endpoints/request"

	"github.com/tenantry/tenantry/internal/tenant"
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

// TestSeatsOfWork checks that a write that was answered before it has ended keeps its seat
// for as long as something refers to its context, whatever it has waited for meanwhile.
func TestSeatsOfWork(t *testing.T) {
	for name, wait := range map[string]func(r *http.Request){
		"at work": func(*http.Request) { time.Sleep(34 * time.Second) },
		"a body": func(r *http.Request) {
			_, _ = io.ReadAll(r.Body)
			time.Sleep(3 * time.Second)
		},
	} {
		t.Run(name, func(t *testing.T) {
			c, _ := newControl()
			c.config.Concurrency.Writes = 1
			c.queues.afterFunc = func(time.Duration, func()) func() bool { return func() bool { return true } }
			var work context.Context
			synctest.Test(t, func(t *testing.T) {
				reader, writer := io.Pipe()
				time.AfterFunc(31*time.Second, func() { _ = writer.Close() })
				serve(t, c, "acme", httptest.NewRequest(http.MethodPost, "/api/v1/namespaces/default/pods", reader), func(_ http.ResponseWriter, r *http.Request) {
					work = r.Context()
					wait(r)
				})
				time.Sleep(time.Minute)
			})
			for range 3 {
				runtime.GC()
			}
			if got := countQueues(&c.queues); got != 1 {
				t.Fatalf("%d queues while a write is at work", got)
			}
			runtime.KeepAlive(work)
			work = nil
			for countQueues(&c.queues) > 0 { // the runtime cleans up later
				runtime.GC()
				time.Sleep(time.Millisecond)
			}
		})
	}
}

// TestSeatsOfEndedWrites are free at once.
func TestSeatsOfEndedWrites(t *testing.T) {
	c, _ := newControl()
	c.config.Concurrency.Writes = 1
	var work context.Context
	synctest.Test(t, func(t *testing.T) {
		serve(t, c, "acme", httptest.NewRequest(http.MethodPost, "/api/v1/namespaces/default/pods", nil), func(_ http.ResponseWriter, r *http.Request) {
			work = r.Context()
			time.Sleep(29 * time.Second)
		})
		time.Sleep(time.Minute)
		if got := countQueues(&c.queues); got != 0 {
			t.Errorf("%d queues after a write of 29 seconds", got)
		}
	})
	runtime.KeepAlive(work)
}
