package flowcontrol

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/tenantry/tenantry/internal/tenant"
)

func TestAlone(t *testing.T) {
	var turns turns
	now := time.Unix(1_000_000, 0)
	for i, step := range []struct {
		after  time.Duration
		tenant tenant.Name
		want   bool
	}{
		{0, "acme", false},
		{solitude / 2, "acme", false},
		{solitude / 2, "acme", true},
		{0, "globex", false},
		{0, "acme", false},
		{solitude / 2, "acme", false},
		{time.Hour, "acme", true},
		{time.Hour, "globex", false},
	} {
		now = now.Add(step.after)
		if got := turns.alone(step.tenant, now); got != step.want {
			t.Errorf("request %d, of %q: alone is %v, want %v", i, step.tenant, got, step.want)
		}
	}
}

func TestLanesOfOneTenantAloneAreWide(t *testing.T) {
	for name, tc := range map[string]struct {
		last turn
		want int
	}{
		"alone":                  {turn{tenant: "acme", since: time.Now().Add(-solitude)}, 2 * wide},
		"alone for a moment":     {turn{tenant: "acme", since: time.Now()}, 2},
		"another has been alone": {turn{tenant: "globex", since: time.Now().Add(-solitude)}, 2},
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
	c.turns.last.Store(&turn{tenant: "acme", since: time.Now().Add(-solitude)})
	serve(t, c, "globex", httptest.NewRequest(http.MethodGet, "/api/v1/namespaces/default/pods/p", nil), nothing)
	if c.turns.alone("acme", time.Now()) {
		t.Error("a tenant is alone beside another")
	}
}
