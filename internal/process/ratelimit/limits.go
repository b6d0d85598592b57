package ratelimit

import (
	"maps"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// Limits are rates, and how much each key has had of late.
type Limits[K comparable] struct {
	// PerSecond is how much a key may have in a second, and AtOnce how much before that holds.
	PerSecond rate.Limit
	AtOnce    int

	mu    sync.Mutex
	of    map[K]*rate.Limiter
	swept time.Time
}

// Take has a key have so much at a time, of which more than AtOnce counts as that, or returns for how long it is to
// wait.
func (r *Limits[K]) Take(now time.Time, key K, much int) (wait time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.of[key] == nil {
		r.sweep(now)
		r.of[key] = rate.NewLimiter(r.PerSecond, r.AtOnce)
	}
	taken := r.of[key].ReserveN(now, min(much, r.AtOnce))
	if wait = taken.DelayFrom(now); wait > 0 {
		taken.CancelAt(now)
	}
	return wait
}

// sweep forgets who may have everything at once again. It looks once in the time after which all others may.
func (r *Limits[K]) sweep(now time.Time) {
	if r.of == nil {
		r.of, r.swept = map[K]*rate.Limiter{}, now
	}
	if now.Sub(r.swept).Seconds()*float64(r.PerSecond) < float64(r.AtOnce) {
		return
	}
	r.swept = now
	maps.DeleteFunc(r.of, func(_ K, of *rate.Limiter) bool { return of.TokensAt(now) >= float64(r.AtOnce) })
}

// Forget forgets what a key has had.
func (r *Limits[K]) Forget(key K) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.of, key)
}

// Len returns of how many keys something is known.
func (r *Limits[K]) Len() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.of)
}
