package waiting

import (
	"context"
	"sync"
)

// Stream is a request that may go on for as long as its client likes, such as one that follows a log.
type Stream struct {
	once sync.Once
	on   chan struct{}
}

// NewStream returns a request that has not begun to.
func NewStream() *Stream { return &Stream{on: make(chan struct{})} }

type streamKey struct{}

// WithStream returns a context whose request is s.
func WithStream(ctx context.Context, s *Stream) context.Context {
	return context.WithValue(ctx, streamKey{}, s)
}

// StreamFrom returns the stream of a request, nil if it is none.
func StreamFrom(ctx context.Context) *Stream {
	s, _ := ctx.Value(streamKey{}).(*Stream)
	return s
}

// GoesOn says that a request has been authorized, and does nothing from now on but to pass bytes on. It is to be
// counted otherwise before: it has no seat any more.
func GoesOn(ctx context.Context) {
	if s := StreamFrom(ctx); s != nil {
		s.GoesOn()
	}
}

// GoesOn is that of the request, or its end. It may be called again.
func (s *Stream) GoesOn() { s.once.Do(func() { close(s.on) }) }

// HasGoneOn reports whether it has.
func (s *Stream) HasGoneOn() bool {
	select {
	case <-s.on:
		return true
	default:
		return false
	}
}

// On returns what is closed by GoesOn.
func (s *Stream) On() <-chan struct{} { return s.on }
