package clusterip

import (
	"fmt"
	"maps"
	"math"
	"sync"
	"time"

	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
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
	// writtenBytes is how many bytes of Services a server has the host store for a tenant in a second, and writtenAtOnce how many before
	// that holds: some 340 small Services at once. The syncer's writes have the same bounds for themselves.
	writtenBytes  = 128 << 10
	writtenAtOnce = 4 << 20
	// writesOfService is how often the host stores what a server writes of a Service: itself, its Endpoints and their slices. Each is of
	// leastBytes at least, and of portBytes more for each port, which metadata.managedFields name one by one.
	writesOfService = 3
	leastBytes      = 4 << 10
	portBytes       = 128
)

// limits has tenants wait who have a server write much on a host. The zero value is ready for use.
type limits struct{ balancers, written rates }

// allow returns an error if a tenant is to wait before a Service is written on the host as it is wanted there. before is what it was, nil
// for a new one.
func (l *limits) allow(n tenant.Name, service, before *core.Service, wanted *corev1.Service) error {
	bytes := writesOfService * (max(wanted.Size(), leastBytes) + portBytes*len(wanted.Spec.Ports))
	if wait := l.written.take(n, bytes, writtenBytes, writtenAtOnce); wait > 0 {
		return apierrors.NewTooManyRequests(fmt.Sprintf("a tenant has %d KiB of Services written on the host cluster in a second by each server, after %d MiB at once; try again",
			writtenBytes>>10, writtenAtOnce>>20), seconds(wait))
	}
	if service.Spec.Type != core.ServiceTypeLoadBalancer && (before == nil || before.Spec.Type != core.ServiceTypeLoadBalancer) {
		return nil
	}
	if wait := l.balancers.take(n, 1, rate.Every(balancerInterval), balancersAtOnce); wait > 0 {
		return apierrors.NewTooManyRequests(fmt.Sprintf("a tenant has one load balancer made or changed in %v, after %d at once; try again", balancerInterval, balancersAtOnce),
			seconds(wait))
	}
	return nil
}

// seconds returns a time as Retry-After has it.
func seconds(d time.Duration) int { return int(math.Ceil(d.Seconds())) }

// rates are how much of something tenants have had of late. It knows no others.
type rates struct {
	mu sync.Mutex
	of map[tenant.Name]*rate.Limiter
}

// take takes so many for a tenant that may have a number of them in a second after another at once, or returns for how long it waits. More
// than there are at once count as these.
func (r *rates) take(n tenant.Name, many int, perSecond rate.Limit, atOnce int) (wait time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	if r.of[n] == nil {
		maps.DeleteFunc(r.of, func(_ tenant.Name, of *rate.Limiter) bool { return of.TokensAt(now) >= float64(atOnce) })
		if r.of == nil {
			r.of = map[tenant.Name]*rate.Limiter{}
		}
		r.of[n] = rate.NewLimiter(perSecond, atOnce)
	}
	taken := r.of[n].ReserveN(now, min(many, atOnce))
	if wait = taken.DelayFrom(now); wait > 0 {
		taken.CancelAt(now)
	}
	return wait
}
