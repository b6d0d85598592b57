package signal

import (
	"context"
	"sync"
)

// Broadcast tells all who wait at once. The zero value is ready for use.
type Broadcast struct {
	mu sync.Mutex
	// next is nil if nobody waits.
	next chan struct{}
}

// Next returns a channel that is closed at the next change. Who looks whether there is need to wait does so afterwards.
func (b *Broadcast) Next() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.next == nil {
		b.next = make(chan struct{})
	}
	return b.next
}

// Tell says that something has changed.
func (b *Broadcast) Tell() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.next != nil {
		close(b.next)
		b.next = nil
	}
}

// Await waits until something is true, at which it looks at once and after each change. Its error is that of ctx, when
// that has ended before.
func (b *Broadcast) Await(ctx context.Context, isTrue func() bool) error {
	for !isTrue() {
		next := b.Next()
		if isTrue() {
			return nil
		}
		select {
		case <-next:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// Awaited reports whether somebody waits.
func (b *Broadcast) Awaited() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.next != nil
}
