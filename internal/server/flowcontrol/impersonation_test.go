package flowcontrol

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/tenantry/tenantry/internal/tenant"
)

// TestInTurn checks that a tenant is authorized to impersonate by one processor at most, and that others do not wait for it.
func TestInTurn(t *testing.T) {
	of := func(t *testing.T, n tenant.Name) context.Context {
		return tenant.WithRequest(t.Context(), &tenant.Request{Authenticated: n})
	}
	for name, tc := range map[string]struct {
		verb string
		of   []tenant.Name
		want int64 // at once
	}{
		"of a tenant":           {"impersonate", []tenant.Name{"acme"}, 1},
		"constrained":           {"impersonate-on:user-info:get", []tenant.Name{"acme"}, 1},
		"of two tenants":        {"impersonate", []tenant.Name{"acme", "globex"}, 2},
		"of the system's users": {"impersonate", []tenant.Name{tenant.System}, 10},
		"others":                {"get", []tenant.Name{"acme"}, 10},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var now, most atomic.Int64
				in := InTurn(authorizer.AuthorizerFunc(func(context.Context, authorizer.Attributes) (authorizer.Decision, string, error) {
					n := now.Add(1)
					defer now.Add(-1)
					if n > most.Load() {
						most.Store(n)
					}
					time.Sleep(time.Second)
					return authorizer.DecisionAllow, "", nil
				}))
				var all sync.WaitGroup
				for i := range 10 {
					all.Go(func() {
						time.Sleep(time.Duration(i) * time.Millisecond)
						if decision, _, err := in.Authorize(of(t, tc.of[i%len(tc.of)]), authorizer.AttributesRecord{Verb: tc.verb}); decision != authorizer.DecisionAllow || err != nil {
							t.Errorf("%v, %v", decision, err)
						}
					})
				}
				all.Wait()
				if most.Load() != tc.want {
					t.Errorf("%d at once, not %d", most.Load(), tc.want)
				}
			})
		})
	}
}
