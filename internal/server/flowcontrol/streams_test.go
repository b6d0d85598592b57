package flowcontrol

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/endpoints/request"
	genericfilters "k8s.io/apiserver/pkg/server/filters"

	"github.com/tenantry/tenantry/internal/server/flowcontrol/waiting"
	"github.com/tenantry/tenantry/internal/tenant"
)

// TestStreams checks that a stream of a pod has a seat until it goes on, and that nothing else may go on without one.
func TestStreams(t *testing.T) {
	for name, tc := range map[string]struct {
		method, path string
		class        class
		goesOn       bool
		seated       bool
	}{
		"a log that goes on":           {http.MethodGet, "/api/v1/namespaces/n/pods/p/log?follow=true", read, true, false},
		"a log that begins":            {http.MethodGet, "/api/v1/namespaces/n/pods/p/log?follow=true", read, false, true},
		"a shell by a WebSocket":       {http.MethodGet, "/api/v1/namespaces/n/pods/p/exec", read, true, false},
		"a shell":                      {http.MethodPost, "/api/v1/namespaces/n/pods/p/exec?command=sh", write, true, false},
		"what is attached":             {http.MethodPost, "/api/v1/namespaces/n/pods/p/attach", write, true, false},
		"a port":                       {http.MethodPost, "/api/v1/namespaces/n/pods/p/portforward", write, true, false},
		"another resource of the name": {http.MethodGet, "/api/v1/namespaces/n/configmaps/p/log", read, true, true},
		"another group":                {http.MethodGet, "/apis/example.com/v1/namespaces/n/pods/p/log", read, true, true},
		"another subresource":          {http.MethodGet, "/api/v1/namespaces/n/pods/p/status", read, true, true},
		"a pod called log":             {http.MethodGet, "/api/v1/namespaces/n/pods/log", read, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			c, _ := newControl()
			c.config.Concurrency = Concurrency{Reads: 1, Writes: 1, LargeReads: 1}
			serve(t, c, "acme", httptest.NewRequest(tc.method, tc.path, nil), func(_ http.ResponseWriter, req *http.Request) {
				if tc.goesOn {
					waiting.GoesOn(req.Context())
				}
				key := queueKey{"acme", tc.class}
				for deadline := time.Now().Add(20 * time.Second); seats(&c.queues, key) > 0 && !tc.seated && time.Now().Before(deadline); {
					time.Sleep(time.Millisecond)
				}
				if got := seats(&c.queues, key) > 0; got != tc.seated {
					t.Errorf("it has a seat: %v", got)
				}
			})
		})
	}
}

// seats returns how many seats of a queue are taken.
func seats(f *fairQueues, key queueKey) int {
	q := lockQueue(f, key)
	defer q.mu.Unlock()
	return q.running + q.overdue + q.blocked
}

// TestStreamThatPanics checks that what a stream ends with is passed on, and its seat given back.
func TestStreamThatPanics(t *testing.T) {
	c, _ := newControl()
	c.config.Concurrency = Concurrency{Reads: 1}
	func() {
		defer func() {
			if cause, _ := recover().(error); !errors.Is(cause, http.ErrAbortHandler) {
				t.Error("the handler's panic is lost")
			}
		}()
		serve(t, c, "acme", httptest.NewRequest(http.MethodGet, "/api/v1/namespaces/n/pods/p/log", nil), func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	}()
	for deadline := time.Now().Add(20 * time.Second); countQueues(&c.queues) > 0; {
		if time.Now().After(deadline) {
			t.Fatal("its seat is kept")
		}
		time.Sleep(time.Millisecond)
	}
}

// TestRefusedStream checks that a stream without a seat does not begin.
func TestRefusedStream(t *testing.T) {
	whileSeated(waiting.NewStream(), func(func()) {}, func() { t.Error("it begins") })
}

// TestLasting checks that streams of pods last, and nothing else of a space that is called so.
func TestLasting(t *testing.T) {
	long := Lasting(LongRunning(genericfilters.BasicLongRunningRequestCheck(sets.NewString("watch"), sets.NewString("log", "exec"))))
	for _, tc := range []struct {
		in                           tenant.Scope
		group, resource, subresource string
		want                         bool
	}{
		{"acme", "", "pods", "log", true},
		{"acme", "", "pods", "exec", true},
		{"acme", "", "pods", "proxy", false},
		{"acme", "", "configmaps", "log", false},
		{"acme", "example.com", "pods", "log", false},
		{tenant.System.Scope(), "", "configmaps", "log", true},
	} {
		req := httptest.NewRequestWithContext(tenant.WithScope(t.Context(), tc.in), http.MethodPost, "/", nil)
		info := &request.RequestInfo{IsResourceRequest: true, Verb: "create", APIGroup: tc.group, Resource: tc.resource, Subresource: tc.subresource}
		if got := long(req, info); got != tc.want {
			t.Errorf("%q, %s.%s/%s: %v", tc.in, tc.resource, tc.group, tc.subresource, got)
		}
	}
}
