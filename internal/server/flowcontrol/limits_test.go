package flowcontrol

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/utils/ptr"

	"github.com/tenantry/tenantry/api/v1alpha1"
	"github.com/tenantry/tenantry/internal/tenant"
)

// limitsOf returns limits. Every tenant has those in own.
func limitsOf(defaults Allowance, own map[tenant.Name]*v1alpha1.RateLimit) *Limits {
	return NewLimits(defaults, func(n tenant.Name) *v1alpha1.RateLimit { return own[n] })
}

// pass lets time pass, and what happens then.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// accounts returns how many accounts there are, and whether a sweep is to come.
func accounts(l *Limits) (count int, sweeping bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.accounts), l.sweeping
}

func TestAllowed(t *testing.T) {
	defaults := Allowance{RequestsPerSecond: 50, Burst: 60, InFlight: 20, Watches: 100}
	tests := map[string]struct {
		defaults Allowance
		own      *v1alpha1.RateLimit
		want     Allowance
	}{
		"nothing":       {Allowance{}, nil, Allowance{}},
		"defaults":      {defaults, nil, defaults},
		"default burst": {Allowance{RequestsPerSecond: 5}, nil, Allowance{RequestsPerSecond: 5, Burst: 10}},
		"own requests, no own burst": {
			defaults, &v1alpha1.RateLimit{RequestsPerSecond: ptr.To[int32](70)},
			Allowance{RequestsPerSecond: 70, Burst: 140, InFlight: 20, Watches: 100},
		},
		"own everything": {
			defaults,
			&v1alpha1.RateLimit{RequestsPerSecond: ptr.To[int32](1), Burst: ptr.To[int32](2), InFlight: ptr.To[int32](3), Watches: ptr.To[int32](4)},
			Allowance{1, 2, 3, 4},
		},
		"lifted": {
			defaults, &v1alpha1.RateLimit{RequestsPerSecond: ptr.To[int32](0), InFlight: ptr.To[int32](0), Watches: ptr.To[int32](0)},
			Allowance{},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			l := limitsOf(tc.defaults, map[tenant.Name]*v1alpha1.RateLimit{"acme": tc.own})
			if diff := cmp.Diff(tc.want, l.allowed("acme")); diff != "" {
				t.Errorf("allowed (-want +got):\n%s", diff)
			}
		})
	}
}

func TestRequestsPerSecond(t *testing.T) { synctest.Test(t, testRequestsPerSecond) }

func testRequestsPerSecond(t *testing.T) {
	l := limitsOf(Allowance{RequestsPerSecond: 10, Burst: 15}, map[tenant.Name]*v1alpha1.RateLimit{
		"slow": {RequestsPerSecond: ptr.To[int32](1), Burst: ptr.To[int32](1)},
	})
	begin := func(n tenant.Name, count int) (served int) {
		for range count {
			if done, refused := l.admit(n, short); refused == nil {
				done()
				served++
			}
		}
		return served
	}
	for _, step := range []struct {
		after time.Duration
		n     tenant.Name
		want  int
	}{
		{0, "acme", 15},
		{0, "acme", 0},
		{0, "globex", 15},
		{0, "slow", 1},
		{500 * time.Millisecond, "acme", 5},
		{0, "slow", 0},
		{time.Second, "acme", 10},
		{time.Hour, "acme", 15},
	} {
		pass(step.after)
		if got := begin(step.n, 100); got != step.want {
			t.Errorf("%s later, %d requests of %q are served, want %d", step.after, got, step.n, step.want)
		}
	}
}

func TestConcurrent(t *testing.T) {
	l := limitsOf(Allowance{InFlight: 10, Watches: 5}, nil)
	var group sync.WaitGroup
	var mu sync.Mutex
	var ends []func()
	for range 50 {
		for _, k := range []kind{short, watching, otherLongRunning} {
			group.Go(func() {
				if done, refused := l.admit("acme", k); refused == nil {
					mu.Lock()
					ends = append(ends, done)
					mu.Unlock()
				}
			})
		}
	}
	group.Wait()
	if got, want := len(ends), 10+5+50; got != want {
		t.Errorf("%d requests are served at a time, want %d", got, want)
	}
	for _, end := range ends {
		end()
	}
	if _, refused := l.admit("acme", short); refused != nil {
		t.Error("a request is refused after the others have ended")
	}
}

func TestIdleAccounts(t *testing.T) { synctest.Test(t, testIdleAccounts) }

func testIdleAccounts(t *testing.T) {
	l := limitsOf(Allowance{RequestsPerSecond: 1, Burst: 120}, map[tenant.Name]*v1alpha1.RateLimit{
		"free": {RequestsPerSecond: ptr.To[int32](0)},
	})
	admit := func(n tenant.Name, k kind) func() {
		done, refused := l.admit(n, k)
		if refused != nil {
			t.Fatalf("a request of %q is refused by %s", n, refused.limit)
		}
		return done
	}
	for i := range 100 {
		admit(tenant.Name(fmt.Sprintf("tenant-%d", i)), short)()
	}
	admit("free", short)()
	endWatch := admit("watching", watching)
	for range 100 { // the tokens come back in 100 seconds
		admit("busy", short)()
	}
	for _, step := range []struct {
		what string
		want int
	}{
		{"the watch and the account in debt", 2},
		{"the watch", 1},
	} {
		pass(sweepInterval)
		if got, _ := accounts(l); got != step.want {
			t.Errorf("%d accounts are left, want %d, %s", got, step.want, step.what)
		}
	}
	endWatch()
	pass(sweepInterval)
	if got, sweeping := accounts(l); got != 0 || sweeping {
		t.Errorf("%d accounts are left of idle tenants, timer: %v", got, sweeping)
	}
	admit("acme", short)()
	if got, sweeping := accounts(l); got != 1 || !sweeping {
		t.Errorf("%d accounts of one active tenant, timer: %v", got, sweeping)
	}
}

// codecs encode errors.
func codecs() runtime.NegotiatedSerializer {
	s := runtime.NewScheme()
	metav1.AddToGroupVersion(s, metav1.SchemeGroupVersion)
	s.AddUnversionedTypes(metav1.SchemeGroupVersion, &metav1.Status{})
	return serializer.NewCodecFactory(s).WithoutConversion()
}

func TestWithLimits(t *testing.T) {
	tests := map[string]struct {
		allowance     Allowance
		authenticated tenant.Name
		verb          string
		requests      int
		status        int
		retryAfter    string
		message       string
	}{
		"within": {Allowance{RequestsPerSecond: 1}, "acme", "get", 2, http.StatusOK, "", ""},
		"rate": {
			Allowance{RequestsPerSecond: 1}, "acme", "get", 3, http.StatusTooManyRequests, "1",
			`tenant "acme" has reached its limit of 1 requests per second, 2 at once after a pause (rateLimit.requestsPerSecond); try again later, or ask the platform's administrators for more`,
		},
		"in flight": {
			Allowance{InFlight: 2}, "acme", "create", 3, http.StatusTooManyRequests, "1",
			`tenant "acme" has reached its limit of 2 requests at a time (rateLimit.inFlight); try again later, or ask the platform's administrators for more`,
		},
		"watches": {
			Allowance{Watches: 1}, "acme", "watch", 2, http.StatusTooManyRequests, "1",
			`tenant "acme" has reached its limit of 1 open watches (rateLimit.watches); try again later, or ask the platform's administrators for more`,
		},
		"watches are not in flight": {Allowance{InFlight: 1}, "acme", "watch", 5, http.StatusOK, "", ""},
		"a user of the system":      {Allowance{RequestsPerSecond: 1}, tenant.System, "get", 9, http.StatusOK, "", ""},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			l := limitsOf(tc.allowance, nil)
			// Each request is under way while the next one arrives.
			var last *httptest.ResponseRecorder
			var handler http.Handler
			served := 0
			next := func(r *http.Request) {
				last = httptest.NewRecorder()
				handler.ServeHTTP(last, r)
			}
			handler = WithLimits(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				if served++; served < tc.requests {
					next(r)
				}
			}), l, nil, codecs())
			ctx := contextOf(&tenant.Request{Authenticated: tc.authenticated}, userOf(tc.authenticated, "jane"))
			ctx = request.WithRequestInfo(ctx, &request.RequestInfo{IsResourceRequest: true, Verb: tc.verb, Resource: "pods"})
			next(httptest.NewRequest(http.MethodGet, "/api/v1/pods", nil).WithContext(ctx))
			if last.Code != tc.status || last.Header().Get("Retry-After") != tc.retryAfter {
				t.Errorf("status %d, Retry-After %q, want %d, %q", last.Code, last.Header().Get("Retry-After"), tc.status, tc.retryAfter)
			}
			if tc.message == "" {
				return
			}
			var status metav1.Status
			if err := json.Unmarshal(last.Body.Bytes(), &status); err != nil {
				t.Fatal(err)
			}
			if status.Message != tc.message || status.Reason != metav1.StatusReasonTooManyRequests {
				t.Errorf("reason %s, message %q, want %q", status.Reason, status.Message, tc.message)
			}
		})
	}
}
