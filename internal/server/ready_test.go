package server

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/kubernetes/pkg/api/legacyscheme"

	"github.com/tenantry/tenantry/internal/tenant"
)

// TestRightsThatAreNotKnown checks that nobody is refused for good before rights have been read, and that
// what reads them is served.
func TestRightsThatAreNotKnown(t *testing.T) {
	var known atomic.Bool
	handler := withRights(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if r := tenant.RequestFrom(req.Context()); r.Requested == "" {
			r.Authenticated = "acme" // as authentication finds out
		}
		http.Error(w, "forbidden", http.StatusForbidden)
	}), known.Load, legacyscheme.Codecs)
	answer := func(in tenant.Scope) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		ctx := tenant.WithScope(t.Context(), in)
		handler.ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodGet, "/api/v1/namespaces", nil))
		return w
	}
	space, system, all := tenant.Name("acme").Scope(), tenant.System.Scope(), tenant.All
	for _, in := range []tenant.Scope{space, ""} {
		if w := answer(in); w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") == "" || strings.Contains(w.Body.String(), "forbidden") {
			t.Errorf("in %q before: %d, to be tried again after %q: %s", in, w.Code, w.Header().Get("Retry-After"), w.Body)
		}
	}
	for _, in := range []tenant.Scope{system, all} {
		if w := answer(in); w.Code != http.StatusForbidden {
			t.Errorf("in %v: %d", in, w.Code)
		}
	}
	known.Store(true)
	for _, in := range []tenant.Scope{space, ""} {
		if w := answer(in); w.Code != http.StatusForbidden {
			t.Errorf("in %q after: %d", in, w.Code)
		}
	}
}

// What waits for a server that is ended before it is ready ends, and nothing else does.
func TestStart(t *testing.T) {
	for name, ready := range map[string]bool{"before it is ready": false, "when it is ready": true} {
		t.Run(name, func(t *testing.T) {
			s := newStart()
			ended := make(chan bool)
			handler := s.withEnd(http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) {
				s.over.Store(ready)
				s.end()
				select {
				case <-req.Context().Done():
					ended <- true
				case <-time.After(100 * time.Millisecond):
					ended <- false
				}
			}))
			for range 2 { // one that came before the end, one after it
				go handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil))
				if got := <-ended; got == ready {
					t.Errorf("the request has ended: %v, want %v", got, !ready)
				}
			}
		})
	}
}
