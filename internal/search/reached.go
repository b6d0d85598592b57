package search

import (
	"context"
	"sync"
	"time"

	"github.com/tenantry/tenantry/internal/progress"
)

// reached is how far something has followed the stream. The zero value has not begun.
type reached struct{ progress.Progress }

func (r *reached) note(revision int64) { r.Reach(uint64(revision)) }

func (r *reached) get() int64 { return int64(r.Seen()) }

// wait waits for a revision. Its error is that of ctx, if that ends before.
func (r *reached) wait(ctx context.Context, revision int64) error {
	return r.AwaitVersion(ctx, uint64(max(revision, 0)))
}

// revisions asks etcd for its revision, once for all who wait: those who come while it is asked get
// the next answer, because this one may be older than they are.
type revisions struct {
	read func(ctx context.Context) (int64, error)

	mu      sync.Mutex
	waiting *asked
	running bool
}

// asked is one question to etcd.
type asked struct {
	done     chan struct{}
	revision int64
	err      error
}

// readTimeout is what etcd gets to answer.
const readTimeout = 5 * time.Second

// now returns a revision that has everything that was written before the call.
func (r *revisions) now(ctx context.Context) (int64, error) {
	r.mu.Lock()
	if r.waiting == nil {
		r.waiting = &asked{done: make(chan struct{})}
	}
	mine := r.waiting
	if !r.running {
		r.running = true
		go r.run()
	}
	r.mu.Unlock()
	select {
	case <-mine.done:
		return mine.revision, mine.err
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

// run asks until nobody waits any more.
func (r *revisions) run() {
	for {
		r.mu.Lock()
		next := r.waiting
		r.waiting = nil
		r.running = next != nil
		r.mu.Unlock()
		if next == nil {
			return
		}
		ctx, cancel := context.WithTimeout(context.Background(), readTimeout)
		next.revision, next.err = r.read(ctx)
		cancel()
		close(next.done)
	}
}
