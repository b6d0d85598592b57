package usage

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/utils/clock"
	testingclock "k8s.io/utils/clock/testing"

	"github.com/tenantry/tenantry/internal/tenant"
)

type system struct {
	meter   *Meter
	gone    map[tenant.Name]bool
	clock   *testingclock.FakeClock
	handler http.Handler
}

// newSystem returns a server that authenticates by the header Tenant, refuses those
// who ask for /forbidden and shows the metrics while it serves /metrics.
func newSystem(t *testing.T, limit int) *system {
	t.Helper()
	s := &system{clock: testingclock.NewFakeClock(time.Unix(0, 0))}
	s.meter = NewMeter(limit, func(n tenant.Name) bool { return !s.gone[n] }, s.clock)
	isLong := func(req *http.Request, _ *request.RequestInfo) bool { return strings.HasPrefix(req.URL.Path, "/watch") }
	served := WithOpen(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		s.clock.Step(10 * time.Millisecond)
		switch req.URL.Path {
		case "/nothing":
		case "/gone":
			w.WriteHeader(http.StatusNotFound)
		case "/abort":
			panic(http.ErrAbortHandler)
		default:
			_, _ = w.Write([]byte("hello"))
		}
		if during, ok := req.Context().Value(duringKey{}).(func()); ok {
			during()
		}
	}), isLong)
	authenticated := http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		r := tenant.RequestFrom(req.Context())
		r.Authenticated = tenant.Name(req.Header.Get("Tenant"))
		switch {
		case r.Authenticated == "":
			w.WriteHeader(http.StatusUnauthorized)
		case req.URL.Path == "/forbidden":
			w.WriteHeader(http.StatusForbidden)
		case req.URL.Path == "/later":
			w.WriteHeader(http.StatusTooManyRequests)
		default:
			req = req.WithContext(request.WithRequestInfo(req.Context(), &request.RequestInfo{}))
			served.ServeHTTP(w, req)
		}
	})
	answers := WithAnswers(authenticated, s.meter, nil)
	s.handler = http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		defer func() {
			if err, ok := recover().(error); ok && !errors.Is(err, http.ErrAbortHandler) {
				panic(err)
			}
		}()
		answers.ServeHTTP(w, req.WithContext(tenant.WithRequest(req.Context(), &tenant.Request{})))
	})
	return s
}

type duringKey struct{}

func (s *system) ask(n tenant.Name, path string, times int) {
	for range times {
		req := httptest.NewRequest(http.MethodGet, path, nil)
		req.Header.Set("Tenant", string(n))
		s.handler.ServeHTTP(httptest.NewRecorder(), req)
	}
}

// expect compares the metrics of the given names.
func (s *system) expect(t *testing.T, want string, names ...string) {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(s.meter.collector())
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want), names...); err != nil {
		t.Error(err)
	}
}

const (
	requestsHelp = "# HELP tenantry_tenant_requests_total Number of requests answered, by the tenant of the user and the class of the status code; 429 is a class of its own.\n# TYPE tenantry_tenant_requests_total counter\n"
	openHelp     = "# HELP tenantry_tenant_requests_in_flight Number of requests that are being served, watches and other requests without an end left out, by the tenant of the user.\n# TYPE tenantry_tenant_requests_in_flight gauge\n"
	watchesHelp  = "# HELP tenantry_tenant_watches Number of watches and other requests without an end that are being served, by the tenant of the user.\n# TYPE tenantry_tenant_watches gauge\n"
	sentHelp     = "# HELP tenantry_tenant_response_bytes_total Bytes sent in answers, before TLS, by the tenant of the user.\n# TYPE tenantry_tenant_response_bytes_total counter\n"
	durationHelp = "# HELP tenantry_tenant_request_duration_seconds Time to answer requests, watches and other requests without an end left out, by the tenant of the user.\n# TYPE tenantry_tenant_request_duration_seconds histogram\n"
)

func TestAnswers(t *testing.T) {
	s := newSystem(t, 2)
	s.ask("a", "/", 3)
	s.ask("a", "/gone", 1)
	s.ask("a", "/forbidden", 1)
	s.ask("a", "/later", 2)
	s.ask("a", "/abort", 1)
	s.ask("a", "/watch", 1)
	s.ask("", "/", 4)
	s.expect(t, requestsHelp+`
tenantry_tenant_requests_total{code="1xx",tenant="a"} 1
tenantry_tenant_requests_total{code="2xx",tenant="a"} 4
tenantry_tenant_requests_total{code="4xx",tenant="a"} 2
tenantry_tenant_requests_total{code="429",tenant="a"} 2
tenantry_tenant_requests_total{code="4xx",tenant="_none"} 4
`+sentHelp+`
tenantry_tenant_response_bytes_total{tenant="_none"} 0
tenantry_tenant_response_bytes_total{tenant="_other"} 0
tenantry_tenant_response_bytes_total{tenant="a"} 20
`, "tenantry_tenant_requests_total", "tenantry_tenant_response_bytes_total")
}

func TestDurations(t *testing.T) {
	s := newSystem(t, 0)
	s.ask("a", "/", 2)
	s.ask("b", "/forbidden", 1)
	s.ask("a", "/watch", 1)
	s.expect(t, durationHelp+`
tenantry_tenant_request_duration_seconds_bucket{tenant="_none",le="0.005"} 0
tenantry_tenant_request_duration_seconds_bucket{tenant="_none",le="0.025"} 0
tenantry_tenant_request_duration_seconds_bucket{tenant="_none",le="0.1"} 0
tenantry_tenant_request_duration_seconds_bucket{tenant="_none",le="0.5"} 0
tenantry_tenant_request_duration_seconds_bucket{tenant="_none",le="1"} 0
tenantry_tenant_request_duration_seconds_bucket{tenant="_none",le="5"} 0
tenantry_tenant_request_duration_seconds_bucket{tenant="_none",le="30"} 0
tenantry_tenant_request_duration_seconds_bucket{tenant="_none",le="+Inf"} 0
tenantry_tenant_request_duration_seconds_sum{tenant="_none"} 0
tenantry_tenant_request_duration_seconds_count{tenant="_none"} 0
tenantry_tenant_request_duration_seconds_bucket{tenant="_other",le="0.005"} 1
tenantry_tenant_request_duration_seconds_bucket{tenant="_other",le="0.025"} 3
tenantry_tenant_request_duration_seconds_bucket{tenant="_other",le="0.1"} 3
tenantry_tenant_request_duration_seconds_bucket{tenant="_other",le="0.5"} 3
tenantry_tenant_request_duration_seconds_bucket{tenant="_other",le="1"} 3
tenantry_tenant_request_duration_seconds_bucket{tenant="_other",le="5"} 3
tenantry_tenant_request_duration_seconds_bucket{tenant="_other",le="30"} 3
tenantry_tenant_request_duration_seconds_bucket{tenant="_other",le="+Inf"} 3
tenantry_tenant_request_duration_seconds_sum{tenant="_other"} 0.02
tenantry_tenant_request_duration_seconds_count{tenant="_other"} 3
`, "tenantry_tenant_request_duration_seconds")
}

// TestRotation checks that series go to those with the most requests of late, that
// the number of series stays, and that what is open is not lost on the way.
func TestRotation(t *testing.T) {
	s := newSystem(t, 1)
	s.ask("a", "/", 10) // has the series, being the first
	s.ask("b", "/", 11)
	s.expect(t, requestsHelp+`
tenantry_tenant_requests_total{code="2xx",tenant="_other"} 11
tenantry_tenant_requests_total{code="2xx",tenant="a"} 10
`, "tenantry_tenant_requests_total")
	s.clock.Step(rotation)
	s.expect(t, requestsHelp+`
tenantry_tenant_requests_total{code="2xx",tenant="_other"} 11
tenantry_tenant_requests_total{code="2xx",tenant="a"} 10
`, "tenantry_tenant_requests_total") // for one more request, nothing changes hands

	req := httptest.NewRequest(http.MethodGet, "/watch", nil)
	req.Header.Set("Tenant", "a")
	s.handler.ServeHTTP(httptest.NewRecorder(), req.WithContext(contextWith(req, func() {
		s.ask("b", "/", 30)
		s.clock.Step(rotation)
		s.expect(t, requestsHelp+`
tenantry_tenant_requests_total{code="2xx",tenant="_other"} 41
`+watchesHelp+`
tenantry_tenant_watches{tenant="_none"} 0
tenantry_tenant_watches{tenant="_other"} 1
tenantry_tenant_watches{tenant="b"} 0
`+openHelp+`
tenantry_tenant_requests_in_flight{tenant="_none"} 0
tenantry_tenant_requests_in_flight{tenant="_other"} 0
tenantry_tenant_requests_in_flight{tenant="b"} 0
`, "tenantry_tenant_requests_total", "tenantry_tenant_watches", "tenantry_tenant_requests_in_flight")
	})))
	s.ask("b", "/", 5)
	for range 20 { // until nobody asks for anything
		s.clock.Step(rotation)
		s.meter.rotate()
	}
	if len(s.meter.recent) != 1 || len(s.meter.left) != 0 {
		t.Errorf("%d tenants are considered and %d accounts kept; want that of the one with series", len(s.meter.recent), len(s.meter.left))
	}
}

// TestGone checks that series end with their tenant, and that requests with its
// credentials are not lost.
func TestGone(t *testing.T) {
	s := newSystem(t, 2)
	s.gone = map[tenant.Name]bool{"never": true}
	s.ask("a", "/", 3)
	s.ask("never", "/forbidden", 2)
	s.ask(tenant.System, "/", 1)
	s.expect(t, requestsHelp+`
tenantry_tenant_requests_total{code="2xx",tenant="a"} 3
tenantry_tenant_requests_total{code="2xx",tenant="system"} 1
tenantry_tenant_requests_total{code="4xx",tenant="_other"} 2
`, "tenantry_tenant_requests_total")
	s.gone["a"], s.gone[tenant.System] = true, true // which is no Tenant, if anything
	s.expect(t, requestsHelp+`
tenantry_tenant_requests_total{code="2xx",tenant="system"} 1
tenantry_tenant_requests_total{code="4xx",tenant="_other"} 2
`, "tenantry_tenant_requests_total")
	s.ask("a", "/forbidden", 1)
	s.expect(t, requestsHelp+`
tenantry_tenant_requests_total{code="2xx",tenant="system"} 1
tenantry_tenant_requests_total{code="4xx",tenant="_other"} 3
`, "tenantry_tenant_requests_total")
	if len(s.meter.recent) != 1 {
		t.Errorf("%d tenants are considered, want the system alone", len(s.meter.recent))
	}
}

// TestManyTenants checks that what is kept does not grow with the tenants.
func TestManyTenants(t *testing.T) {
	s := newSystem(t, 3)
	for i := range 10_000 {
		s.ask(tenant.Name(fmt.Sprintf("t%d", i)), "/", 1)
	}
	if own, recent := len(s.meter.own), len(s.meter.recent); own != 3 || recent != 3*candidates {
		t.Errorf("%d tenants have series and %d are considered; want 3 and %d", own, recent, 3*candidates)
	}
	s.expect(t, requestsHelp+`
tenantry_tenant_requests_total{code="2xx",tenant="_other"} 9997
tenantry_tenant_requests_total{code="2xx",tenant="t0"} 1
tenantry_tenant_requests_total{code="2xx",tenant="t1"} 1
tenantry_tenant_requests_total{code="2xx",tenant="t2"} 1
`, "tenantry_tenant_requests_total")
}

// everybody says that every tenant exists.
func everybody(tenant.Name) bool { return true }

func BenchmarkRequest(b *testing.B) {
	m := NewMeter(50, everybody, clock.RealClock{})
	handler := WithAnswers(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}), m, &Recorder{})
	req := httptest.NewRequest(http.MethodGet, "/", nil)
	req = req.WithContext(tenant.WithRequest(req.Context(), &tenant.Request{Authenticated: "a"}))
	w := httptest.NewRecorder()
	b.ReportAllocs()
	for b.Loop() {
		handler.ServeHTTP(w, req)
	}
}

func contextWith(req *http.Request, during func()) context.Context {
	return context.WithValue(req.Context(), duringKey{}, during)
}
