package flowcontrol

import (
	"io"
	"sync"
	"sync/atomic"
	"time"
)

// incoming is the body of a request, which the client may send slowly.
type incoming struct {
	io.ReadCloser
	waited   atomic.Int64 // in nanoseconds, for the client and for received
	mu       sync.Mutex
	complete bool         // or failed
	received func() error // called when complete; its error is that of the body
	arrived  func()       // called when complete, before received
}

// Read implements io.Reader.
func (b *incoming) Read(p []byte) (int, error) {
	began := time.Now()
	n, err := b.ReadCloser.Read(p)
	if err != nil {
		if lost := b.finish(); lost != nil {
			n, err = 0, lost
		}
	}
	b.waited.Add(int64(time.Since(began)))
	return n, err
}

func (b *incoming) finish() error {
	b.mu.Lock()
	received, arrived := b.received, b.arrived
	b.complete, b.received, b.arrived = true, nil, nil
	b.mu.Unlock()
	if arrived != nil {
		arrived()
	}
	if received == nil {
		return nil
	}
	return received()
}

// notify sets the function that is called once, by the reader, when the body is complete. It
// reports whether that is still to come.
func (b *incoming) notify(received func() error) bool {
	if b == nil {
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.complete {
		b.received = received
	}
	return !b.complete
}

// waits calls begin if the body is still to come, and what that returns when it is complete.
func (b *incoming) waits(begin func() (arrived func())) {
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.complete {
		b.arrived = begin()
	}
}

// forget unsets what notify has set.
func (b *incoming) forget() {
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.received = nil
}

// waitTime returns how long reads of the body have waited.
func (b *incoming) waitTime() time.Duration {
	if b == nil {
		return 0
	}
	return time.Duration(b.waited.Load())
}
