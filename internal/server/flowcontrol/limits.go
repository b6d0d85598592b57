package flowcontrol

import (
	"maps"
	"sync"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/utils/ptr"

	"github.com/tenantry/tenantry/api/v1alpha1"
	"github.com/tenantry/tenantry/internal/tenant"
)

// sweepInterval is how often accounts of idle tenants are dropped.
const sweepInterval = time.Minute

// Limits enforces the limits of each tenant on this server. It has an account of
// each active tenant with limits only.
type Limits struct {
	defaults Allowance
	limitOf  func(tenant.Name) *v1alpha1.RateLimit

	mu       sync.Mutex
	accounts map[tenant.Name]*account
	sweeping bool
}

// NewLimits returns limits by limitOf, the limits of a tenant, with defaults for those that
// it does not set.
func NewLimits(defaults Allowance, limitOf func(tenant.Name) *v1alpha1.RateLimit) *Limits {
	return &Limits{defaults: defaults, limitOf: limitOf, accounts: map[tenant.Name]*account{}}
}

// limit names the limit that a tenant has reached.
type limit string

const (
	limitRequests limit = "requestsPerSecond"
	limitInFlight limit = "inFlight"
	limitWatches  limit = "watches"
)

// kind is how a request is counted.
type kind int

const (
	short kind = iota // ends by itself
	watching
	otherLongRunning // counted as a request only
)

// allowed returns the limits of n.
func (l *Limits) allowed(n tenant.Name) Allowance {
	allowed := l.defaults
	if limit := l.limitOf(n); limit != nil {
		if limit.RequestsPerSecond != nil {
			allowed.RequestsPerSecond, allowed.Burst = *limit.RequestsPerSecond, ptr.Deref(limit.Burst, 0)
		}
		allowed.InFlight = ptr.Deref(limit.InFlight, allowed.InFlight)
		allowed.Watches = ptr.Deref(limit.Watches, allowed.Watches)
	}
	if allowed.Burst == 0 {
		allowed.Burst = 2 * allowed.RequestsPerSecond
	}
	return allowed
}

// refusal says which limit a request exceeds and when to retry.
type refusal struct {
	limit      limit
	allowed    Allowance
	retryAfter time.Duration
}

// retryLater is when to retry a request that waits for others to end.
const retryLater = time.Second

// admit charges a request to the account of n. It returns the function to call when the
// request has ended, or why the request is refused.
func (l *Limits) admit(n tenant.Name, k kind) (done func(), refused *refusal) {
	allowed := l.allowed(n)
	if allowed.RequestsPerSecond == 0 && allowed.InFlight == 0 && allowed.Watches == 0 {
		return func() {}, nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	a := l.accounts[n]
	if a == nil {
		a = &account{}
		l.accounts[n] = a
		l.sweepLater()
	}
	switch {
	case k == short && allowed.InFlight > 0 && a.inFlight >= allowed.InFlight:
		return nil, &refusal{limitInFlight, allowed, retryLater}
	case k == watching && allowed.Watches > 0 && a.watches >= allowed.Watches:
		return nil, &refusal{limitWatches, allowed, retryLater}
	}
	if wait := a.take(time.Now(), allowed); wait > 0 {
		return nil, &refusal{limitRequests, allowed, wait}
	}
	running := a.running(k)
	if running == nil {
		return func() {}, nil
	}
	*running++
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		*running--
	}, nil
}

// sweepLater schedules one sweep of all idle accounts.
func (l *Limits) sweepLater() {
	if !l.sweeping {
		l.sweeping = true
		time.AfterFunc(sweepInterval, l.sweep)
	}
}

func (l *Limits) sweep() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sweeping = false
	now := time.Now()
	maps.DeleteFunc(l.accounts, func(_ tenant.Name, a *account) bool { return a.idle(now) })
	if len(l.accounts) > 0 {
		l.sweepLater()
	}
}

// account counts the requests of an active tenant.
type account struct {
	tokens   *rate.Limiter // nil without a limit
	inFlight int32
	watches  int32
}

// take takes one request from the tokens, or returns how long to wait for a token.
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

// running returns the number of running requests of a kind, nil if they are not counted.
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

// idle reports whether the account equals a new one.
func (a *account) idle(now time.Time) bool {
	return a.inFlight == 0 && a.watches == 0 &&
		(a.tokens == nil || a.tokens.TokensAt(now) >= float64(a.tokens.Burst()))
}
