package backlog

import (
	"sync"
	"time"

	"k8s.io/client-go/util/workqueue"
)

// Soon is after how long a tenant with more to do is at the end of the queue again.
const Soon = time.Millisecond

// Backlog is what is to be looked at, by tenant T. What has failed waits by itself: other items I of the tenant do not.
// It is safe for concurrent use.
type Backlog[T, I comparable] struct {
	mu sync.Mutex
	// items have the time at which they are due.
	items  map[T]map[I]time.Time
	limits workqueue.TypedRateLimiter[of[T, I]]
}

// of is an item of a tenant.
type of[T, I comparable] struct {
	tenant T
	item   I
}

// New returns an empty backlog. What has failed is due again after minBackoff, and after twice as long each time, up to
// maxBackoff.
func New[T, I comparable](minBackoff, maxBackoff time.Duration) *Backlog[T, I] {
	return &Backlog[T, I]{
		items:  map[T]map[I]time.Time{},
		limits: workqueue.NewTypedItemExponentialFailureRateLimiter[of[T, I]](minBackoff, maxBackoff),
	}
}

// Add adds an item that is due now.
func (b *Backlog[T, I]) Add(n T, i I) { b.addAt(n, i, time.Now()) }

// Retry adds an item that has failed.
func (b *Backlog[T, I]) Retry(n T, i I) {
	b.addAt(n, i, time.Now().Add(b.limits.When(of[T, I]{n, i})))
}

// Done forgets how often an item has failed.
func (b *Backlog[T, I]) Done(n T, i I) { b.limits.Forget(of[T, I]{n, i}) }

func (b *Backlog[T, I]) addAt(n T, i I, due time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.items[n] == nil {
		b.items[n] = map[I]time.Time{}
	}
	if before, ok := b.items[n][i]; !ok || due.Before(before) {
		b.items[n][i] = due
	}
}

// Take returns at most so many items of a tenant that are due, and takes them out.
func (b *Backlog[T, I]) Take(n T, most int) []I {
	b.mu.Lock()
	defer b.mu.Unlock()
	var taken []I
	for i, due := range b.items[n] {
		if len(taken) == most {
			break
		}
		if !due.After(time.Now()) {
			taken = append(taken, i)
			delete(b.items[n], i)
		}
	}
	if len(b.items[n]) == 0 {
		delete(b.items, n)
	}
	return taken
}

// Next returns after what time an item of a tenant is due, at least Soon, and zero if there is none.
func (b *Backlog[T, I]) Next(n T) (after time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, due := range b.items[n] {
		if until := max(Soon, time.Until(due)); after == 0 || until < after {
			after = until
		}
		if after == Soon {
			break
		}
	}
	return after
}

// Len returns how many items of a tenant there are.
func (b *Backlog[T, I]) Len(n T) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.items[n])
}
