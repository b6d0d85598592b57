package kubecontrollers

import (
	"time"

	"github.com/tenantry/tenantry/internal/tenant"
)

// Upstream's queues let ten items a second come again after failures, of all tenants together, and each that is
// to come again waits behind all before it. A tenant whose objects fail without an end would delay the retries of
// other tenants for hours. So the controller hears of a failed object after a time of its own, too.

// failure is that of the workers of a controller with one object, one time after the other.
type failure struct {
	times int
	timer *time.Timer
}

// again notes how a worker is done with an object. If it has failed, the controller hears of it again.
func (i *fairInformer) again(n tenant.Name, key string, failed bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	before := i.failed[key]
	if before != nil {
		before.timer.Stop()
	}
	if !failed || !i.sharing.retries {
		delete(i.failed, key)
		if i.nextRetries[n].Before(i.debts.now()) {
			delete(i.nextRetries, n)
		}
		return
	}
	now := &failure{}
	if before != nil {
		now.times = before.times + 1
	}
	delay := max(i.nextRetry(n), min(firstRetry<<min(now.times, 10), lastRetry))
	now.timer = time.AfterFunc(delay, func() { i.retry(n, key) })
	i.failed[key] = now
}

// nextRetry returns after what time the next object of a tenant may come again. It is called with the lock.
func (i *fairInformer) nextRetry(n tenant.Name) time.Duration {
	now := i.debts.now()
	next := i.nextRetries[n]
	if earliest := now.Add(-retryBurst * retryInterval); next.Before(earliest) {
		next = earliest
	}
	i.nextRetries[n] = next.Add(retryInterval)
	return next.Sub(now)
}

// retry has the controller hear of an object when it is its turn.
func (i *fairInformer) retry(n tenant.Name, key string) {
	i.mu.Lock()
	i.parkedOf(n).add(key, nil)
	i.mu.Unlock()
	i.release(n)
}

// gone forgets an object that is not there any more.
func (i *fairInformer) gone(n tenant.Name, key string) {
	i.done(n, key)
	i.again(n, key, false)
}
