package shares

import (
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

const (
	// freeTime is how long an item may take before it is slow.
	freeTime = 250 * time.Millisecond
	// WaitThreshold is how long an item may take until it counts as waiting.
	WaitThreshold = time.Second
	// Divisor is the share of the workers, as a divisor.
	Divisor = 4
	// MaxSlowTime is how much slow time counts at most, unless the last item took longer.
	MaxSlowTime = 10 * time.Second
)

// Shares are the shares of all parties P in the workers of a controller. They are safe for
// concurrent use.
type Shares[P comparable] struct {
	workers int
	refusal error

	mu       sync.Mutex
	accounts map[P]*account
	// waiting is how many items of all parties wait.
	waiting int
}

// New returns the shares in so many workers. What is beyond a share ends with the refusal.
func New[P comparable](workers int, refusal error) *Shares[P] {
	return &Shares[P]{workers: workers, refusal: refusal, accounts: map[P]*account{}}
}

// account is the state of a party.
type account struct {
	// items are all; owners has those that have an owner.
	items   map[*item]struct{}
	owners  map[types.UID]*item
	waiting int
	// slow is the slow time that there was at the time at.
	slow time.Duration
	at   time.Time
	// forgotten deletes the account once it has no slow time.
	forgotten *time.Timer
}

// item is the work of one worker.
type item struct {
	// owner is empty for a single request.
	owner    types.UID
	began    time.Time
	requests int
	waits    bool
	ctx      context.Context
	cancel   context.CancelCauseFunc
	timer    *time.Timer
}

// share is how many items a party may have while others wait, or it has slow time.
func (s *Shares[P]) share() int { return s.workers / Divisor }

// slowTime returns that of an account at a time.
func (s *Shares[P]) slowTime(a *account, now time.Time) time.Duration {
	return a.slow - time.Duration(int64(now.Sub(a.at))*int64(s.workers)/Divisor)
}

// Enter begins a request of a party, as part of the item of an owner if that is not empty. The
// returned context ends the request, with the refusal as its cause. The caller must call leave
// afterwards, unless there is an error, which is the refusal.
func (s *Shares[P]) Enter(ctx context.Context, n P, owner types.UID) (_ context.Context, leave func(), _ error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.accounts[n]
	if a == nil {
		a = &account{items: map[*item]struct{}{}, owners: map[types.UID]*item{}, at: time.Now()}
		s.accounts[n] = a
	}
	current := a.owners[owner]
	switch {
	case current != nil && current.waits:
		return nil, nil, s.refusal
	case current != nil: // one more in parallel
	case (a.waiting > 0 || s.slowTime(a, time.Now()) > 0) && (len(a.items) >= s.share() || s.isFull(a)):
		return nil, nil, s.refusal
	default:
		current = s.begin(a, owner)
	}
	current.requests++
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(current.ctx, func() { cancel(context.Cause(current.ctx)) })
	return ctx, func() {
		stop()
		cancel(nil)
		s.leave(n, a, current)
	}, nil
}

func (s *Shares[P]) begin(a *account, owner types.UID) *item {
	begun := &item{owner: owner, began: time.Now()}
	begun.ctx, begun.cancel = context.WithCancelCause(context.Background())
	begun.timer = time.AfterFunc(WaitThreshold, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		_, underWay := a.items[begun]
		switch {
		case !underWay: // has just ended
		case s.mayWait(a):
			s.setWaits(a, begun, true)
		default:
			begun.cancel(s.refusal)
		}
	})
	a.items[begun] = struct{}{}
	if owner != "" {
		a.owners[owner] = begun
	}
	return begun
}

// places is how many items of all parties may wait.
func (s *Shares[P]) places() int { return max(s.workers-max(s.share(), 1), 1) }

// most returns the account with the most waiting items, a if none has more.
func (s *Shares[P]) most(a *account) *account {
	for _, other := range s.accounts {
		if other.waiting > a.waiting {
			a = other
		}
	}
	return a
}

// isFull reports whether no item of an account may wait, not even in place of another's.
func (s *Shares[P]) isFull(a *account) bool {
	return s.waiting >= s.places() && s.most(a).waiting <= a.waiting+1
}

// mayWait reports whether one more item of an account may wait. When too many of all parties
// wait, it is in place of the oldest of the party that has the most.
func (s *Shares[P]) mayWait(a *account) bool {
	switch {
	case a.waiting >= max(s.share(), 1) || s.isFull(a):
		return false
	case s.waiting < s.places():
		return true
	}
	most := s.most(a)
	var oldest *item
	for i := range most.items {
		if i.waits && (oldest == nil || i.began.Before(oldest.began)) {
			oldest = i
		}
	}
	s.setWaits(most, oldest, false)
	oldest.cancel(s.refusal)
	return true
}

// setWaits notes whether an item of an account waits.
func (s *Shares[P]) setWaits(a *account, i *item, waits bool) {
	if i.waits == waits {
		return
	}
	change := 1
	if !waits {
		change = -1
	}
	i.waits = waits
	a.waiting += change
	s.waiting += change
}

func (s *Shares[P]) leave(n P, a *account, current *item) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if current.requests--; current.requests > 0 {
		return
	}
	current.timer.Stop()
	current.cancel(nil)
	delete(a.items, current)
	delete(a.owners, current.owner)
	s.setWaits(a, current, false)
	now := time.Now()
	took := now.Sub(current.began)
	most := max(MaxSlowTime, took) * time.Duration(s.workers) / Divisor
	a.slow, a.at = min(max(s.slowTime(a, now), 0)+max(took-freeTime, 0), most), now
	s.close(n, a)
}

// close forgets an account that has no requests, once it has no slow time.
func (s *Shares[P]) close(n P, a *account) {
	if a.forgotten != nil {
		a.forgotten.Stop()
	}
	if len(a.items) > 0 || s.accounts[n] != a {
		return
	}
	if owed := s.slowTime(a, time.Now()); owed > 0 {
		a.forgotten = time.AfterFunc(owed*Divisor/time.Duration(s.workers)+1, func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.close(n, a)
		})
		return
	}
	delete(s.accounts, n)
}
