package waiting

import (
	"context"

	"github.com/tenantry/tenantry/internal/process/keyed"
	"github.com/tenantry/tenantry/internal/tenant"
)

// Turns are those of the tenants that have taken or wait for one: a tenant has one at a time. The zero
// value is ready for use.
type Turns struct {
	of keyed.Map[tenant.Name, chan struct{}]
}

// Take waits for the turn of a tenant, and returns what to call when it is over. Its error is that of
// ctx, if that ends first.
func (t *Turns) Take(ctx context.Context, n tenant.Name) (release func(), err error) {
	taken, _, leave := t.of.Use(n, func() chan struct{} { return make(chan struct{}, 1) })
	select {
	case taken <- struct{}{}:
		return func() { <-taken; leave() }, nil
	case <-ctx.Done():
		leave()
		return nil, ctx.Err()
	}
}
