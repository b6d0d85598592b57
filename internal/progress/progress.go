package progress

import (
	"context"
	"strconv"
	"sync"
	"time"
)

// waitTimeout is how long a writer waits for an index. The change is stored in any case.
const waitTimeout = time.Second

// Progress is how far an index has followed one resource. The zero value has not
// begun.
type Progress struct {
	mu   sync.Mutex
	seen uint64
	// next is closed when the index has seen more, nil if nobody waits for that.
	next chan struct{}
}

// Note says that the index knows everything up to a resource version. It ignores what is
// not a version.
func (p *Progress) Note(resourceVersion string) {
	version, err := strconv.ParseUint(resourceVersion, 10, 64)
	if err != nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if version <= p.seen {
		return
	}
	p.seen = version
	if p.next != nil {
		close(p.next)
		p.next = nil
	}
}

// Begun reports whether the index knows what there was when it began.
func (p *Progress) Begun() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.seen > 0
}

// Await waits until the index has begun. Its error is that of ctx, when that has ended.
func (p *Progress) Await(ctx context.Context) error {
	for {
		seen, next := p.state()
		if seen > 0 {
			return nil
		}
		select {
		case <-next:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Wait returns when the index knows an object of the given version, or has not
// begun, or is far behind. It reports whether the index knows it.
func (p *Progress) Wait(resourceVersion string) bool {
	version, err := strconv.ParseUint(resourceVersion, 10, 64)
	if err != nil {
		return false
	}
	timeout := time.After(waitTimeout)
	for {
		seen, next := p.state()
		if seen == 0 || seen >= version {
			return seen >= version
		}
		select {
		case <-next:
		case <-timeout:
			return false
		}
	}
}

// state returns the version that the index has seen, and what is closed when it has seen
// more.
func (p *Progress) state() (seen uint64, next <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.next == nil {
		p.next = make(chan struct{})
	}
	return p.seen, p.next
}
