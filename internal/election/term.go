package election

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/tenantry/tenantry/internal/roundtrip"
)

// Term is the time from when a process gets a lease until it has lost it, or has ended.
type Term struct {
	deadline time.Duration
	// ctx is that of the work, and done is closed when that has ended.
	ctx  context.Context
	end  context.CancelFunc
	done chan struct{}
	// abandoned ends when the work has not ended in time.
	abandoned context.Context
	close     func()

	mu sync.Mutex
	// renewed is when the last renewal began that has succeeded, zero while the lease is not held.
	renewed time.Time
	timer   *time.Timer
	lost    bool
}

func newTerm(ctx context.Context, timing Timing) *Term {
	t := &Term{deadline: timing.RenewDeadline, done: make(chan struct{})}
	t.ctx, t.end = context.WithCancel(ctx)
	abandoned, abandon := context.WithCancel(context.Background())
	t.abandoned = abandoned
	grace := make(chan *time.Timer, 1)
	forget := context.AfterFunc(t.ctx, func() { grace <- time.AfterFunc(timing.Grace, abandon) })
	t.close = func() {
		if !forget() { // the context has ended
			(<-grace).Stop()
		}
		t.mu.Lock()
		if t.timer != nil {
			t.timer.Stop()
		}
		t.mu.Unlock()
		t.end()
		abandon()
	}
	return t
}

func (t *Term) isHeld() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return !t.renewed.IsZero()
}

func (t *Term) wasLost() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.lost
}

// hold notes a renewal, or that the lease was got, by when that began: from then on others wait for the next one.
func (t *Term) hold(began time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.renewed = began
	if left := t.deadline - time.Since(began); t.timer == nil {
		t.timer = time.AfterFunc(left, t.expire)
	} else {
		t.timer.Reset(left)
	}
}

// expire ends the term if there was no renewal in time.
func (t *Term) expire() {
	t.mu.Lock()
	late := time.Since(t.renewed) >= t.deadline
	t.mu.Unlock()
	if late {
		t.lose()
	}
}

// lose ends the term, unless the work has ended before.
func (t *Term) lose() {
	t.mu.Lock()
	select {
	case <-t.done:
	default:
		t.lost = t.lost || t.ctx.Err() == nil
	}
	t.mu.Unlock()
	t.end()
}

// isOver reports whether the process must not act any more. It does not depend on a timer: a process that was stopped
// for a while may send a request before any goes off.
func (t *Term) isOver() bool {
	t.expire()
	return t.ctx.Err() != nil
}

// errOver is of requests of those who do not have the lease any more.
var errOver = fmt.Errorf("the request is not sent: %w", ErrLost)

// Fence returns a transport that sends no request when the term is over, and ends those that are under way then.
func (t *Term) Fence(next http.RoundTripper) http.RoundTripper { return fence{next, t} }

type fence struct {
	next http.RoundTripper
	term *Term
}

// RoundTrip implements http.RoundTripper.
func (f fence) RoundTrip(req *http.Request) (*http.Response, error) {
	if f.term.isOver() {
		if req.Body != nil {
			_ = req.Body.Close()
		}
		return nil, errOver
	}
	ctx, cancel := context.WithCancel(req.Context())
	forget := context.AfterFunc(f.term.ctx, cancel)
	return roundtrip.Ending(f.next, req.WithContext(ctx), func() { forget(); cancel() })
}

// lock is the lease as the elector sees it, which does one thing at a time.
type lock struct {
	resourcelock.Interface
	term *Term
	// from is Config.From.
	from <-chan struct{}
	// taken is whether somebody else had it at last.
	taken bool
}

var (
	errStillWorking = errors.New("what the lease is held for has not ended yet")
	errTaken        = errors.New("the lease is another one's")
	errNotYet       = errors.New("another lease is waited for first")
)

// Get implements resourcelock.Interface.
func (l *lock) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	record, raw, err := l.Interface.Get(ctx)
	if err == nil {
		l.taken = record.HolderIdentity != "" && record.HolderIdentity != l.Identity()
	}
	if l.taken && l.term.isHeld() {
		l.term.lose() // the elector would try to get it back first
	}
	return record, raw, err
}

// Create implements resourcelock.Interface.
func (l *lock) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return l.written(record, func() error { return l.Interface.Create(ctx, record) })
}

// Update implements resourcelock.Interface. The elector gives the lease up by a record without a holder, also one that
// is another's by then.
func (l *lock) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return l.written(record, func() error { return l.Interface.Update(ctx, record) })
}

func (l *lock) written(record resourcelock.LeaderElectionRecord, write func() error) error {
	if record.HolderIdentity == "" {
		return l.giveUp(write)
	}
	if !l.may() {
		return errNotYet
	}
	began := time.Now()
	err := write()
	if err == nil {
		l.term.hold(began)
	}
	return err
}

// may reports whether the lease may be taken.
func (l *lock) may() bool {
	if l.from == nil {
		return true
	}
	select {
	case <-l.from:
		return true
	default:
		return false
	}
}

func (l *lock) giveUp(write func() error) error {
	if l.taken {
		return errTaken
	}
	select {
	case <-l.term.done:
		return write()
	default:
		return errStillWorking
	}
}
