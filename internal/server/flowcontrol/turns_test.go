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
	}{
		{0, "acme", false},
		{0, "acme", false}, // alone from the start
		{0, "globex", true},
		{0, "acme", true},
		{company / 2, "acme", true},
		{company / 2, "acme", false}, // alone again
		{time.Hour, "acme", false},
		{0, "globex", true},
	} {
		now = now.Add(step.after)
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
	if got := lanesOf(&c.lanes); got != 1 || wait <= 0 || wait > mostRest {
		t.Fatalf("a place of one of two tenants rests for %s, want at most %s; %d lanes", wait, mostRest, got)
	}
	end()
	if got := lanesOf(&c.lanes); got != 0 {
		t.Errorf("%d lanes are left", got)
	}
}
