package flowcontrol

import (
	"context"
	"strings"
	"sync"

	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/tenantry/tenantry/internal/tenant"
)

// InTurn is an authorizer by which the users of a tenant are authorized to impersonate one after the other. Each impersonated
// group and extra value is authorized separately, before the request has a seat, and the cost grows with the RBAC objects of the
// tenant. So a tenant has one such check at a time.
func InTurn(delegate authorizer.Authorizer) authorizer.Authorizer {
	turns := &turns{of: map[tenant.Name]*turn{}}
	return authorizer.AuthorizerFunc(func(ctx context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
		n := chargedTenant(ctx)
		if !strings.HasPrefix(a.GetVerb(), "impersonate") || !n.IsSpace() {
			return delegate.Authorize(ctx, a)
		}
		release, err := turns.take(ctx, n)
		if err != nil {
			return authorizer.DecisionDeny, "", err
		}
		defer release()
		return delegate.Authorize(ctx, a)
	})
}

// turns are those of the tenants that have taken or wait for one.
type turns struct {
	mu sync.Mutex
	of map[tenant.Name]*turn
}

// turn is taken by who has sent to taken, and kept for who uses it.
type turn struct {
	taken chan struct{}
	users int
}

// take waits for the turn of a tenant, and returns what to call when it is over.
func (t *turns) take(ctx context.Context, n tenant.Name) (release func(), err error) {
	t.mu.Lock()
	own := t.of[n]
	if own == nil {
		own = &turn{taken: make(chan struct{}, 1)}
		t.of[n] = own
	}
	own.users++
	t.mu.Unlock()
	leave := func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if own.users--; own.users == 0 {
			delete(t.of, n)
		}
	}
	select {
	case own.taken <- struct{}{}:
		return func() { <-own.taken; leave() }, nil
	case <-ctx.Done():
		leave()
		return nil, ctx.Err()
	}
}
