package clusterip

import (
	"fmt"
	"maps"
	"sync"
	"time"

	"golang.org/x/time/rate"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/kubernetes/pkg/apis/core"

	"github.com/tenantry/tenantry/internal/tenant"
)

const (
	// balancerInterval is after which time a tenant may have one load balancer more made, changed or taken away by a server, and
	// balancersAtOnce how many before that holds. Whatever makes them does it for all tenants, mostly by the API of a cloud with
	// limits of its own, and takes minutes to take away one that no quota counts any more.
	balancerInterval = 6 * time.Second
	balancersAtOnce  = 20
)

// balancers has tenants ask a host for load balancers one after the other. It knows those that have asked of late.
type balancers struct {
	mu sync.Mutex
	of map[tenant.Name]*rate.Limiter
}

// allow returns an error if a tenant is to wait before a Service with a load balancer, now or before, is written on the host.
// before is nil for a new one.
func (b *balancers) allow(n tenant.Name, service, before *core.Service) error {
	if service.Spec.Type != core.ServiceTypeLoadBalancer && (before == nil || before.Spec.Type != core.ServiceTypeLoadBalancer) {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	if b.of[n] == nil {
		maps.DeleteFunc(b.of, func(_ tenant.Name, of *rate.Limiter) bool { return of.TokensAt(now) >= balancersAtOnce })
		if b.of == nil {
			b.of = map[tenant.Name]*rate.Limiter{}
		}
		b.of[n] = rate.NewLimiter(rate.Every(balancerInterval), balancersAtOnce)
	}
	if b.of[n].AllowN(now, 1) {
		return nil
	}
	return apierrors.NewTooManyRequests(fmt.Sprintf("a tenant has one load balancer made or changed in %v, after %d at once; try again", balancerInterval, balancersAtOnce),
		int(balancerInterval.Seconds()))
}
