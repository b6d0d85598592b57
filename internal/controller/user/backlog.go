package user

import (
	"sync"
	"time"

	"k8s.io/client-go/util/workqueue"

	"github.com/tenantry/tenantry/internal/tenant"
)

const (
	// minBackoff and maxBackoff bound the time after which what has failed is tried again.
	minBackoff, maxBackoff = 100 * time.Millisecond, time.Minute
	// soon is after how long a tenant with more to do is at the end of the queue again.
	soon = time.Millisecond
)

// item is what is to be looked at in a space: a User or, if there is a namespace, what belongs
// to the User there.
type item struct {
	uid, namespace string
	// after is the namespace up to which a User that is being deleted is done with.
	after string
	// failed is whether something has failed in one of these.
	failed bool
}

// backlog is what is to be looked at, by tenant. A tenant is in the queue of the controller
// once, however much that is. What has failed waits by itself: other items of the tenant do not.
type backlog struct {
	mu sync.Mutex
	// items have the time at which they are due.
	items  map[tenant.Name]map[item]time.Time
	limits workqueue.TypedRateLimiter[of]
}

// of is an item of a tenant.
type of struct {
	tenant tenant.Name
	item   item
}

func newBacklog() *backlog {
	return &backlog{
		items:  map[tenant.Name]map[item]time.Time{},
		limits: workqueue.NewTypedItemExponentialFailureRateLimiter[of](minBackoff, maxBackoff),
	}
}

// add adds an item that is due now.
func (b *backlog) add(n tenant.Name, i item) { b.addAt(n, i, time.Now()) }

// retry adds an item that has failed.
func (b *backlog) retry(n tenant.Name, i item) {
	b.addAt(n, i, time.Now().Add(b.limits.When(of{n, i})))
}

// done forgets how often an item has failed.
func (b *backlog) done(n tenant.Name, i item) { b.limits.Forget(of{n, i}) }

func (b *backlog) addAt(n tenant.Name, i item, due time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.items[n] == nil {
		b.items[n] = map[item]time.Time{}
	}
	if before, ok := b.items[n][i]; !ok || due.Before(before) {
		b.items[n][i] = due
	}
}

// take returns at most so many items of a tenant that are due.
func (b *backlog) take(n tenant.Name, most int) []item {
	b.mu.Lock()
	defer b.mu.Unlock()
	var taken []item
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

// next returns after what time an item of a tenant is due, zero if there is none.
func (b *backlog) next(n tenant.Name) (after time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, due := range b.items[n] {
		if until := max(soon, time.Until(due)); after == 0 || until < after {
			after = until
		}
	}
	return after
}
