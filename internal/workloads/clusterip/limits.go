package clusterip

import (
	"fmt"
	"math"
	"time"

	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/kubernetes/pkg/apis/core"

	"github.com/tenantry/tenantry/internal/process/ratelimit"
	"github.com/tenantry/tenantry/internal/tenant"
	"github.com/tenantry/tenantry/internal/workloads/translate"
)

const (
	// balancerInterval is after which time a tenant may have one load balancer more made, changed or taken away by a
	// server, and balancersAtOnce how many before that holds. Whatever makes them does it for all tenants, mostly by
	// the API of a cloud with limits of its own, and takes minutes to take away one that no quota counts any more.
	balancerInterval = 6 * time.Second
	balancersAtOnce  = 20
	// writtenBytes is how many bytes of Services a server has the host store for a tenant in a second, and
	// writtenAtOnce how many before that holds: some 1,000 small Services at once. The syncer's writes have the same
	// bounds for themselves.
	writtenBytes  = 128 << 10
	writtenAtOnce = 4 << 20
)

// limits has tenants wait who have a server write much on a host.
type limits struct{ balancers, written ratelimit.Limits[tenant.Name] }

func newLimits() *limits {
	return &limits{
		balancers: ratelimit.Limits[tenant.Name]{PerSecond: rate.Every(balancerInterval), AtOnce: balancersAtOnce},
		written:   ratelimit.Limits[tenant.Name]{PerSecond: writtenBytes, AtOnce: writtenAtOnce},
	}
}

// allow returns an error if a tenant is to wait before a Service is written on the host as it is wanted there. before
// is what it was, nil for a new one.
func (l *limits) allow(n tenant.Name, service, before *core.Service, wanted *corev1.Service) error {
	now := time.Now()
	if wait := l.written.Take(now, n, translate.ServiceBytes(wanted)); wait > 0 {
		return apierrors.NewTooManyRequests(fmt.Sprintf("a tenant has %d KiB of Services written on the host cluster in a second by each server, after %d MiB at once; try again",
			writtenBytes>>10, writtenAtOnce>>20), seconds(wait))
	}
	if service.Spec.Type != core.ServiceTypeLoadBalancer && (before == nil || before.Spec.Type != core.ServiceTypeLoadBalancer) {
		return nil
	}
	if wait := l.balancers.Take(now, n, 1); wait > 0 {
		return apierrors.NewTooManyRequests(fmt.Sprintf("a tenant has one load balancer made or changed in %v, after %d at once; try again", balancerInterval, balancersAtOnce),
			seconds(wait))
	}
	return nil
}

// seconds returns a time as Retry-After has it.
func seconds(d time.Duration) int { return int(math.Ceil(d.Seconds())) }
