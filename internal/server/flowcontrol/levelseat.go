package flowcontrol

import (
	"bufio"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apiserver/pkg/endpoints/responsewriter"

	"github.com/tenantry/tenantry/internal/server/flowcontrol/waiting"
)

// levelSeat is what a request has of the seats of its priority level, which are those of all tenants and are for who is
// at work: a request gives them back, for good, when it has waited for its client and for webhooks for levelPatience in
// all, and after levelTime whatever it does. It goes on with the seats of its tenant's own queue, which bound what a
// tenant does.
type levelSeat struct {
	taken  atomic.Pointer[waiting.Stream] // nil before; goes on when the seats are given back
	mu     sync.Mutex
	waits  int           // how many at a time
	since  time.Time     // of waits
	waited time.Duration // before
	timer  *time.Timer
}

// mayLast reports whether a request may keep seats of its level for long. Others do without the cost of a goroutine:
// they have one, and most of their answers are as small as the buffers of a connection.
func mayLast(class class, seats uint64) bool { return class != read || seats > 1 }

// hold has handle give seats of the level to execute, until they are given back. Handle may refuse it, or have it wait
// for them, which is not the request's time.
func (s *levelSeat) hold(handle func(execute func()), execute func()) {
	taken := waiting.NewStream()
	s.taken.Store(taken)
	whileSeated(taken, handle, func() {
		defer time.AfterFunc(levelTime, taken.GoesOn).Stop()
		execute()
	})
}

// isHeld reports whether there are seats to give back.
func (s *levelSeat) isHeld() bool {
	if s == nil {
		return false
	}
	taken := s.taken.Load()
	return taken != nil && !taken.HasGoneOn()
}

// waiting notes that the request waits for somebody, for one more if it does so already, until it calls done.
func (s *levelSeat) waiting() (done func()) {
	if !s.isHeld() {
		return func() {}
	}
	s.add(1)
	return func() { s.add(-1) }
}

func (s *levelSeat) add(waits int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.waits
	s.waits += waits
	switch {
	case before == 0:
		s.since = time.Now()
		s.timer = time.AfterFunc(levelPatience-s.waited, s.taken.Load().GoesOn)
	case s.waits == 0:
		s.timer.Stop()
		s.waited += time.Since(s.since)
	}
}

// WithLevelSeats has requests that wait for their clients give back the seats of their priority level. It runs after
// fairness.
func WithLevelSeats(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if seat := sentFrom(req.Context()).seat; seat.isHeld() {
			w = seat.answer(w)
		}
		handler.ServeHTTP(w, req)
	})
}

// answer returns what waits for the client of w.
func (s *levelSeat) answer(w http.ResponseWriter) http.ResponseWriter {
	inner, ok := w.(responsewriter.CloseNotifierFlusher)
	if !ok {
		return w // no server's
	}
	a := seatedWriter{ResponseWriter: w, CloseNotifierFlusher: inner, seat: s}
	if hijacker, ok := w.(http.Hijacker); ok {
		return hijacked{seatedWriter: a, hijacker: hijacker}
	}
	return a
}

// seatedWriter is the answer to a request that has seats.
type seatedWriter struct {
	http.ResponseWriter
	responsewriter.CloseNotifierFlusher
	seat *levelSeat
}

// Unwrap implements responsewriter.UserProvidedDecorator.
func (a seatedWriter) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// Write implements http.ResponseWriter.
func (a seatedWriter) Write(p []byte) (int, error) {
	defer a.seat.waiting()()
	return a.ResponseWriter.Write(p)
}

// Flush implements http.Flusher.
func (a seatedWriter) Flush() {
	defer a.seat.waiting()()
	a.CloseNotifierFlusher.Flush()
}

// hijacked is an answer whose connection may be taken over, as by a watch by web socket.
type hijacked struct {
	seatedWriter
	hijacker http.Hijacker
}

// Hijack implements http.Hijacker.
func (h hijacked) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, buffered, err := h.hijacker.Hijack()
	if err != nil {
		return nil, nil, err
	}
	return seated{conn, h.seat}, buffered, nil
}

// seated is a connection whose writes wait for the client.
type seated struct {
	net.Conn
	seat *levelSeat
}

// Write implements net.Conn.
func (s seated) Write(p []byte) (int, error) {
	defer s.seat.waiting()()
	return s.Conn.Write(p)
}
