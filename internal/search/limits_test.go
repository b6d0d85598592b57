package search

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/tenantry/tenantry/internal/process/keyed"
	"github.com/tenantry/tenantry/internal/search/index"
	"github.com/tenantry/tenantry/internal/tenant"
)

// TestEnded ends requests while they search: one whose tenant is suspended is told to try again, and then why it may
// not.
func TestEnded(t *testing.T) {
	s := newService(t, Config{})
	suspended := errors.New("the tenant is suspended")
	for name, tc := range map[string]struct{ cause, want error }{
		"by its tenant": {suspended, unavailable("the tenant is suspended; try again")},
		"by the client": {context.Canceled, context.Canceled},
	} {
		ctx, end := context.WithCancelCause(t.Context())
		err := s.inTurn(ctx, &asker{userTenant: "acme", user: &user.DefaultInfo{Name: "jane"}}, ofWatch, func(ctx context.Context) error {
			end(tc.cause)
			<-ctx.Done()
			return ctx.Err()
		})
		if err == nil || err.Error() != tc.want.Error() {
			t.Errorf("%s: %v, want %v", name, err, tc.want)
		}
	}
}

// TestTurns has many search at once.
func TestTurns(t *testing.T) {
	turns := newTurns(DefaultLimits)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	asks := func(of tenant.Name, name string) *asker {
		return &asker{userTenant: of, user: &user.DefaultInfo{Name: name}}
	}
	take := func(a *asker) func() {
		t.Helper()
		release, err := turns.take(t.Context(), a)
		if err != nil {
			t.Fatal(err)
		}
		return release
	}
	release := take(asks("acme", "jane"))
	if _, err := turns.take(ended, asks("acme", "joe")); !errors.Is(err, context.Canceled) {
		t.Errorf("two searches of a tenant: %v", err)
	}
	take(asks("globex", "jane"))()
	release()
	take(asks("acme", "joe"))()

	// Users of the system have turns each, and leave some to tenants.
	var systems []func()
	for i := range index.Readers / 2 {
		systems = append(systems, take(asks(tenant.System, string(rune('a'+i)))))
	}
	if _, err := turns.take(ended, asks(tenant.System, "a")); !errors.Is(err, context.Canceled) {
		t.Errorf("two searches of a user of the system: %v", err)
	}
	if _, err := turns.take(ended, asks(tenant.System, "z")); !errors.Is(err, context.Canceled) {
		t.Errorf("users of the system leave nothing: %v", err)
	}
	if len(turns.systems) != cap(turns.systems) || cap(turns.systems) >= cap(turns.all) { // with what has ended, and room, take may do either
		t.Errorf("%d of %d turns of users of the system are taken, of %d in all", len(turns.systems), cap(turns.systems), cap(turns.all))
	}
	take(asks("acme", "jane"))()
	for _, release := range systems {
		release()
	}
	if turns.of.Len() > 0 || len(turns.all) > 0 || len(turns.systems) > 0 {
		t.Error("turns are kept")
	}
	// Those who wait are bounded.
	synctest.Test(t, func(t *testing.T) {
		turns := newTurns(DefaultLimits)
		waits, cancel := context.WithCancel(t.Context())
		defer cancel()
		for range 1 + maxWaiting {
			go func() { _, _ = turns.take(waits, asks("acme", "jane")) }()
		}
		synctest.Wait()
		if _, err := turns.take(ended, asks("acme", "jane")); !errors.Is(err, keyed.ErrTooMany) {
			t.Errorf("any number waits: %v", err)
		}
	})
}

func TestLimits(t *testing.T) {
	for name, change := range map[string]func(*Limits){
		"fewer than no rows":     func(l *Limits) { l.Rows = -1 },
		"no rows":                func(l *Limits) { l.Rows = 0 },
		"many rows":              func(l *Limits) { l.Rows = MaxLimit + 1 },
		"no time":                func(l *Limits) { l.Time = 0 },
		"little time":            func(l *Limits) { l.Time = time.Millisecond },
		"much time":              func(l *Limits) { l.Time = time.Hour },
		"fewer than none":        func(l *Limits) { l.Concurrency = -1 },
		"none at once":           func(l *Limits) { l.Concurrency = 0 },
		"more than are answered": func(l *Limits) { l.Concurrency = index.Readers },
	} {
		l := DefaultLimits
		change(&l)
		if l.Validate() == nil {
			t.Errorf("%s: %+v is taken", name, l)
		}
	}
	if err := DefaultLimits.Validate(); err != nil {
		t.Error(err)
	}
}
