package spaces

import (
	"context"
	"fmt"

	"golang.org/x/sync/semaphore"

	"github.com/tenantry/tenantry/internal/process/keyed"
	"github.com/tenantry/tenantry/internal/process/shares"
	"github.com/tenantry/tenantry/internal/tenant"
)

// Bursts bound what all controllers do at once for one tenant. Some send a request for each of
// thousands of objects in parallel, and the requests of controllers have no seats: so many, or
// some hundred with a large pod, would keep all cores from the requests of other tenants.
//
// There is a semaphore only while a tenant has requests.
type Bursts struct {
	capacity int64
	tenants  keyed.Map[tenant.Name, burst]
}

// burst are the requests of a tenant. Those of one worker in parallel do not take the places of
// others.
type burst struct {
	single, parallel *semaphore.Weighted
}

// NewBursts returns bounds for a server with a number of cores.
func NewBursts(cores int) *Bursts {
	return &Bursts{capacity: int64(cores * burstPerCore)}
}

// WithBursts says that requests count for these bounds, if they are those of workers.
func WithBursts(bursts *Bursts) Option {
	return func(t *flatteningTransport) { t.bursts = bursts }
}

// enter waits until a request of a tenant with a body of so many bytes may run, or it is tried again
// later: a worker that waits works for nobody. The caller must call leave afterwards. Only the
// parallel requests of one worker wait for as long as it takes.
func (b *Bursts) enter(ctx context.Context, n tenant.Name, size int64, single bool) (leave func(), _ error) {
	if b == nil {
		return func() {}, nil
	}
	if single {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, shares.WaitThreshold/2, ErrNotInTurn)
		defer cancel()
	}
	of, _, part := b.tenants.Use(n, func() burst {
		return burst{single: semaphore.NewWeighted(b.capacity), parallel: semaphore.NewWeighted(b.capacity)}
	})
	places := of.parallel
	if single {
		places = of.single
	}
	weight := min(1+max(0, size)/burstBytes, b.capacity)
	if err := places.Acquire(ctx, weight); err != nil {
		part()
		return nil, fmt.Errorf("waiting for other requests of controllers for tenant %q: %w", n, context.Cause(ctx))
	}
	return func() {
		places.Release(weight)
		part()
	}, nil
}
