package published

import (
	"context"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tenantry/tenantry/api/v1alpha1"
	"github.com/tenantry/tenantry/internal/tenant"
)

// counting again takes time with many tenants, so that it is not done for each.
const countPeriod = 10 * time.Second

// tenantChanged has objects counted when a space has come to or from use.
func (p *Publisher) tenantChanged(ctx context.Context, before, after any) {
	old, _ := before.(*v1alpha1.Tenant)
	t, ok := after.(*v1alpha1.Tenant)
	if !ok || old == nil {
		return
	}
	isReady := func(t *v1alpha1.Tenant) bool {
		return meta.IsStatusConditionTrue(t.Status.Conditions, v1alpha1.ConditionReady)
	}
	if isReady(old) != isReady(t) || (old.DeletionTimestamp == nil) != (t.DeletionTimestamp == nil) {
		p.countAgain(ctx)
	}
}

func (p *Publisher) tenantAdded(ctx context.Context, obj any) {
	if t, ok := obj.(*v1alpha1.Tenant); ok {
		p.observeTenant(tenant.Name(t.Name), t.UID)
	}
	p.countAgain(ctx)
}

// observeTenant forgets the copies in the space of an earlier tenant of this name. They
// are gone, but the watch may not have said so yet.
func (p *Publisher) observeTenant(n tenant.Name, uid types.UID) {
	if earlier := p.tenantUIDs.Set(n, uid); earlier != "" && earlier != uid {
		p.copies.dropAll(n)
	}
}

// lag is more than watches fall behind each other.
const lag = 10 * time.Minute

func (p *Publisher) tenantGone(ctx context.Context, obj any) {
	if t, ok := obj.(*v1alpha1.Tenant); ok {
		n, uid := tenant.Name(t.Name), t.UID
		time.AfterFunc(lag, func() { p.tenantUIDs.DeleteIf(n, func(now types.UID) bool { return now == uid }) })
	}
	p.countAgain(ctx)
}

// countAgain has all published objects reconciled soon.
func (p *Publisher) countAgain(ctx context.Context) {
	if p.counting.Swap(true) {
		return
	}
	time.AfterFunc(countPeriod, func() {
		p.counting.Store(false)
		if ctx.Err() != nil {
			return
		}
		for _, o := range p.sources.list() {
			p.enqueue(o, 0)
		}
	})
}

// Ensure copies every published object to the space of a new tenant and returns what
// it waits for, if it does. Tenants' own objects, and what the published objects
// themselves are the cause of, do not hold a space up: these are reported with the
// published object.
func (p *Publisher) Ensure(ctx context.Context, n tenant.Name, uid types.UID) (waiting string, err error) {
	select {
	case <-p.ready:
	default:
		return "the published objects to be known", nil
	}
	p.observeTenant(n, uid)
	var mu sync.Mutex
	for _, objects := range byRank(p.sources.list()) {
		group, groupCtx := errgroup.WithContext(ctx)
		group.SetLimit(p.Concurrency)
		for _, o := range objects {
			group.Go(func() error {
				desired, err := p.desired(groupCtx, o)
				if err != nil || desired == nil {
					return ignorePermanent(err)
				}
				result, err := p.ensure(groupCtx, n, desired)
				if result == pending && err == nil {
					mu.Lock()
					waiting = "the copy of " + o.String()
					mu.Unlock()
				}
				return ignorePermanent(err)
			})
		}
		if err := group.Wait(); err != nil || waiting != "" {
			return waiting, err
		}
	}
	return "", nil
}

// byRank splits ordered objects into those that can be copied at once.
func byRank(objects []Object) [][]Object {
	var groups [][]Object
	for i, o := range objects {
		if i == 0 || rank(o.Resource) != rank(objects[i-1].Resource) {
			groups = append(groups, nil)
		}
		groups[len(groups)-1] = append(groups[len(groups)-1], o)
	}
	return groups
}
