package flowcontrol

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/tenantry/tenantry/internal/tenant"
)

func TestShared(t *testing.T) {
	var turns turns
	now := time.Unix(1_000_000, 0)
	for i, step := range []struct {
		after  time.Duration
		tenant tenant.Name
		want   bool
		alone  bool
	}{
		{0, "acme", false, false},
		{0, "acme", false, false}, // not shared from the start
		{aloneAfter, "acme", false, true},
		{0, "globex", true, false},
		{0, "acme", true, false},
		{othersFor / 2, "acme", true, false},
		{othersFor / 2, "acme", false, false}, // not shared again
		{aloneAfter, "acme", false, true},
		{time.Hour, "acme", false, true},
		{0, "globex", true, false},
	} {
		now = now.Add(step.after)
		if got := turns.alone(step.tenant, now); got != step.alone {
			t.Errorf("request %d, of %q: alone is %v, want %v", i, step.tenant, got, step.alone)
		}
		if got := turns.shared(step.tenant, now); got != step.want {
			t.Errorf("request %d, of %q: shared is %v, want %v", i, step.tenant, got, step.want)
		}
	}
}

func TestPlacesRest(t *testing.T) {
	c, _ := newControl()
	c.config.Concurrency = Concurrency{Reads: 1}
	var wait time.Duration
	var end func()
	c.lanes.later = func(after time.Duration, do func()) func() bool {
		wait, end = after, do
		return func() bool { return true }
	}
	get := func(n tenant.Name) {
		serve(t, c, n, httptest.NewRequest(http.MethodGet, "/api/v1/namespaces/default/pods/p", nil), nothing)
	}
	get("acme")
	get("acme")
	if got := lanesOf(&c.lanes); got != 0 || end != nil {
		t.Errorf("a place of the only tenant rests; %d lanes", got)
	}
	get("globex")
	if got := lanesOf(&c.lanes); got != 1 || wait <= 0 || wait > time.Millisecond {
		t.Fatalf("a place of one of two tenants rests for %s; %d lanes", wait, got)
	}
	end()
	if got := lanesOf(&c.lanes); got != 0 {
		t.Errorf("%d lanes are left", got)
	}
}

func TestLanesOfOneTenantAloneAreWide(t *testing.T) {
	for name, tc := range map[string]struct {
		last turn
		want int
	}{
		"alone":                  {turn{tenant: "acme", since: time.Now().Add(-aloneAfter)}, 2 * wide},
		"alone for a moment":     {turn{tenant: "acme", since: time.Now()}, 2},
		"another has been alone": {turn{tenant: "globex", since: time.Now().Add(-aloneAfter)}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			c, _ := newControl()
			c.config.Concurrency = Concurrency{Reads: 2}
			c.turns.last.Store(&tc.last)
			serve(t, c, "acme", httptest.NewRequest(http.MethodGet, "/api/v1/namespaces/default/pods/p", nil), func(http.ResponseWriter, *http.Request) {
				own := c.lanes.lock(laneKey{"acme", read})
				defer own.mu.Unlock()
				if own.capacity != tc.want {
					t.Errorf("%d places, want %d", own.capacity, tc.want)
				}
			})
		})
	}
}

func TestTenantsWithoutLanesAreCompany(t *testing.T) {
	c, _ := newControl() // of any number of requests at a time
	c.turns.last.Store(&turn{tenant: "acme", since: time.Now().Add(-aloneAfter)})
	serve(t, c, "globex", httptest.NewRequest(http.MethodGet, "/api/v1/namespaces/default/pods/p", nil), nothing)
	if c.turns.alone("acme", time.Now()) {
		t.Error("a tenant is alone beside another")
	}
}
