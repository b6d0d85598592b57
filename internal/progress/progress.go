package progress

import (
	"context"
	"strconv"
	"sync"
	"time"

	"github.com/tenantry/tenantry/internal/process/signal"
)

// waitTimeout is how long a writer waits for an index. The change is stored in any case.
const waitTimeout = time.Second

// Progress is how far an index has followed one resource. The zero value has not
// begun.
type Progress struct {
	mu   sync.Mutex
	seen uint64
	// more is told when the index has seen more.
	more signal.Broadcast
}

// Note says that the index knows everything up to a resource version. It ignores what is
// not a version.
func (p *Progress) Note(resourceVersion string) {
	if version, err := strconv.ParseUint(resourceVersion, 10, 64); err == nil {
		p.Reach(version)
	}
}

// Reach is Note with a version that was read.
func (p *Progress) Reach(version uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if version > p.seen {
		p.seen = version
		p.more.Tell()
	}
}

// Seen returns the version up to which the index knows everything, zero if it has not begun.
func (p *Progress) Seen() uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.seen
}

// Begun reports whether the index knows what there was when it began.
func (p *Progress) Begun() bool { return p.Seen() > 0 }

// Await waits until the index has begun. Its error is that of ctx, when that has ended.
func (p *Progress) Await(ctx context.Context) error { return p.AwaitVersion(ctx, 1) }

// AwaitVersion waits until the index knows everything up to a version. Its error is that of ctx,
// when that has ended before.
func (p *Progress) AwaitVersion(ctx context.Context, version uint64) error {
	return p.more.Await(ctx, func() bool { return p.Seen() >= version })
}

// Wait returns when the index knows an object of the given version, or has not
// begun, or is far behind. It reports whether the index knows it.
func (p *Progress) Wait(resourceVersion string) bool {
	version, err := strconv.ParseUint(resourceVersion, 10, 64)
	if err != nil || !p.Begun() {
		return false
	}
	ctx, cancel := context.WithTimeout(context.Background(), waitTimeout)
	defer cancel()
	return p.AwaitVersion(ctx, version) == nil
}

// Awaited reports whether somebody waits.
func (p *Progress) Awaited() bool { return p.more.Awaited() }
