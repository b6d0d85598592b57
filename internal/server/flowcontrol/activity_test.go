package flowcontrol

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/tenantry/tenantry/internal/tenant"
)

func TestShared(t *testing.T) {
	var activity activity
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
		if got := activity.alone(step.tenant, now); got != step.alone {
			t.Errorf("request %d, of %q: alone is %v, want %v", i, step.tenant, got, step.alone)
		}
		if got := activity.shared(step.tenant, now); got != step.want {
			t.Errorf("request %d, of %q: shared is %v, want %v", i, step.tenant, got, step.want)
		}
	}
}

func TestSeatsAreHeld(t *testing.T) {
	c, _ := newControl()
	c.config.Concurrency = Concurrency{Reads: 1}
	var wait time.Duration
	var end func()
	c.queues.afterFunc = func(after time.Duration, do func()) func() bool {
		wait, end = after, do
		return func() bool { return true }
	}
	get := func(n tenant.Name) {
		serve(t, c, n, httptest.NewRequest(http.MethodGet, "/api/v1/namespaces/default/pods/p", nil), nothing)
	}
	get("acme")
	get("acme")
	if got := countQueues(&c.queues); got != 0 || end != nil {
		t.Errorf("a seat of the only tenant is held; %d queues", got)
	}
	get("globex")
	if got := countQueues(&c.queues); got != 1 || wait <= 0 || wait > time.Millisecond {
		t.Fatalf("a seat of one of two tenants is held for %s; %d queues", wait, got)
	}
	end()
	if got := countQueues(&c.queues); got != 0 {
		t.Errorf("%d queues are left", got)
	}
}

func TestOneTenantAloneHasMoreSeats(t *testing.T) {
	for name, tc := range map[string]struct {
		last  period
		reads int
		want  int
	}{
		"alone":                  {period{tenant: "acme", since: time.Now().Add(-aloneAfter)}, 2, 2 * aloneFactor},
		"alone, 16 cores":        {period{tenant: "acme", since: time.Now().Add(-aloneAfter)}, 16, mostAlone},
		"alone, 64 cores":        {period{tenant: "acme", since: time.Now().Add(-aloneAfter)}, 64, 64},
		"alone for a moment":     {period{tenant: "acme", since: time.Now()}, 2, 2},
		"another has been alone": {period{tenant: "globex", since: time.Now().Add(-aloneAfter)}, 2, 2},
	} {
		t.Run(name, func(t *testing.T) {
			c, _ := newControl()
			c.config.Concurrency = Concurrency{Reads: tc.reads}
			c.activity.last.Store(&tc.last)
			serve(t, c, "acme", httptest.NewRequest(http.MethodGet, "/api/v1/namespaces/default/pods/p", nil), func(http.ResponseWriter, *http.Request) {
				q := lockQueue(&c.queues, queueKey{"acme", read})
				defer q.mu.Unlock()
				if q.capacity != tc.want {
					t.Errorf("%d seats, want %d", q.capacity, tc.want)
				}
			})
		})
	}
}

func TestTenantsWithoutQueuesAreNotAlone(t *testing.T) {
	c, _ := newControl() // of any number of requests at a time
	c.activity.last.Store(&period{tenant: "acme", since: time.Now().Add(-aloneAfter)})
	serve(t, c, "globex", httptest.NewRequest(http.MethodGet, "/api/v1/namespaces/default/pods/p", nil), nothing)
	if c.activity.alone("acme", time.Now()) {
		t.Error("a tenant is alone beside another")
	}
}
