package flowcontrol

import (
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	"github.com/tenantry/tenantry/api/v1alpha1"
	"github.com/tenantry/tenantry/internal/tenant"
)

// idleAfter is how often accounts of tenants that have become idle are dropped.
const idleAfter = time.Minute

// Limits enforces what each tenant may ask of this server. It has an account of
// each active tenant that has limits, and nothing of any other.
type Limits struct {
	defaults Allowance
	own      func(tenant.Name) *v1alpha1.RateLimit
	clock    clock.PassiveClock
	later    func(time.Duration, func()) (stop func() bool)
	accounts sync.Map // tenant.Name to *account
	sweeping atomic.Bool
}

// NewLimits returns limits that are a tenant's own and, where it has none, the
// defaults.
func NewLimits(defaults Allowance, own func(tenant.Name) *v1alpha1.RateLimit) *Limits {
	return &Limits{defaults: defaults, own: own, clock: clock.RealClock{}, later: later}
}

// later calls do after some time, unless it is stopped.
func later(after time.Duration, do func()) (stop func() bool) { return time.AfterFunc(after, do).Stop }

// limit names what a tenant has reached.
type limit string

const (
	limitRequests limit = "requestsPerSecond"
	limitInFlight limit = "inFlight"
	limitWatches  limit = "watches"
)

// kind is how a request counts.
type kind int

const (
	short kind = iota // ends by itself
	watching
	endless // other long-running requests: they count as requests alone
)

// allowed returns the limits of n.
func (l *Limits) allowed(n tenant.Name) Allowance {
	allowed := l.defaults
	if own := l.own(n); own != nil {
		if own.RequestsPerSecond != nil {
			allowed.RequestsPerSecond, allowed.Burst = *own.RequestsPerSecond, ptr.Deref(own.Burst, 0)
		}
		allowed.InFlight = ptr.Deref(own.InFlight, allowed.InFlight)
		allowed.Watches = ptr.Deref(own.Watches, allowed.Watches)
	}
	if allowed.Burst == 0 {
		allowed.Burst = 2 * allowed.RequestsPerSecond
	}
	return allowed
}

// refusal says which limit a request is beyond and when to try again.
type refusal struct {
	limit      limit
	allowed    Allowance
	retryAfter time.Duration
}

// retryLater is when a request is worth another try that waits for others to end.
const retryLater = time.Second

// admit charges a request to the account of n. It returns what to call when the
// request has ended, or why it is refused.
func (l *Limits) admit(n tenant.Name, k kind) (done func(), refused *refusal) {
	allowed := l.allowed(n)
	if allowed.RequestsPerSecond == 0 && allowed.InFlight == 0 && allowed.Watches == 0 {
		return func() {}, nil
	}
	a := l.lock(n)
	defer a.mu.Unlock()
	switch {
	case k == short && allowed.InFlight > 0 && a.inFlight >= allowed.InFlight:
		return nil, &refusal{limitInFlight, allowed, retryLater}
	case k == watching && allowed.Watches > 0 && a.watches >= allowed.Watches:
		return nil, &refusal{limitWatches, allowed, retryLater}
	}
	if wait := a.take(l.clock.Now(), allowed); wait > 0 {
		return nil, &refusal{limitRequests, allowed, wait}
	}
	running := a.running(k)
	if running == nil {
		return func() {}, nil
	}
	*running++
	return func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		*running--
	}, nil
}

// lock returns the account of n, locked.
func (l *Limits) lock(n tenant.Name) *account {
	for {
		found, ok := l.accounts.Load(n)
		if !ok {
			found, ok = l.accounts.LoadOrStore(n, &account{})
			if !ok {
				l.sweepLater()
			}
		}
		a := found.(*account)
		a.mu.Lock()
		if !a.dropped {
			return a
		}
		a.mu.Unlock()
	}
}

// sweepLater sees to it that idle accounts are dropped, once for all that there
// are.
func (l *Limits) sweepLater() {
	if l.sweeping.CompareAndSwap(false, true) {
		l.later(idleAfter, l.sweep)
	}
}

func (l *Limits) sweep() {
	l.sweeping.Store(false)
	now, left := l.clock.Now(), false
	l.accounts.Range(func(n, found any) bool {
		a := found.(*account)
		a.mu.Lock()
		defer a.mu.Unlock()
		if a.dropped = a.idle(now); a.dropped {
			l.accounts.CompareAndDelete(n, found)
		} else {
			left = true
		}
		return true
	})
	if left {
		l.sweepLater()
	}
}

// account is what an active tenant has under way and what it may still begin.
type account struct {
	mu       sync.Mutex
	tokens   *rate.Limiter // nil without a limit
	inFlight int32
	watches  int32
	dropped  bool // no longer in Limits; another takes its place
}

// take takes one request from the tokens, or returns for how long there is none.
func (a *account) take(now time.Time, allowed Allowance) time.Duration {
	if allowed.RequestsPerSecond == 0 {
		a.tokens = nil
		return 0
	}
	perSecond, burst := rate.Limit(allowed.RequestsPerSecond), int(allowed.Burst)
	switch {
	case a.tokens == nil:
		a.tokens = rate.NewLimiter(perSecond, burst)
	case a.tokens.Limit() != perSecond || a.tokens.Burst() != burst:
		a.tokens.SetLimitAt(now, perSecond)
		a.tokens.SetBurstAt(now, burst)
	}
	reservation := a.tokens.ReserveN(now, 1)
	wait := reservation.DelayFrom(now)
	if wait > 0 {
		reservation.CancelAt(now)
	}
	return wait
}

// running returns the number of requests like this one that are under way, nil
// if they are not counted.
func (a *account) running(k kind) *int32 {
	switch k {
	case short:
		return &a.inFlight
	case watching:
		return &a.watches
	default:
		return nil
	}
}

// idle reports whether a new account would be the same.
func (a *account) idle(now time.Time) bool {
	return a.inFlight == 0 && a.watches == 0 &&
		(a.tokens == nil || a.tokens.TokensAt(now) >= float64(a.tokens.Burst()))
}
