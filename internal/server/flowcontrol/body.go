package flowcontrol

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// incoming is the body of a request, which the client may send slowly, or never. One goroutine reads it.
type incoming struct {
	io.ReadCloser
	kept   bytes.Buffer // what has come before the request had seats
	end    error        // of what was read to its end
	waited atomic.Int64 // in nanoseconds, for the client and for received, with seats
	// size is the number of its bytes, -1 if that is unknown.
	size int64
	// setDeadline is for reads from the client; most is when the last of them is over.
	setDeadline func(time.Time) error
	most        time.Time
	// async has reads in a goroutine, which late ends the wait for: net/http ends a request by HTTP/1.1 with a read that
	// fails, before it is answered.
	async  bool
	buffer []byte // of async
	late   chan struct{}

	mu       sync.Mutex
	complete bool         // or failed
	failed   bool         // nobody has got all of it
	received func() error // called when complete; its error is that of the body
	arrived  func()       // called when complete, before received
	timer    *time.Timer  // of look
	since    time.Time    // of the first read, zero before
	came     int64        // bytes
	settled  bool         // nothing is to come, or whatever is to come may take its time
}

// newIncoming returns the body of a request that ends after timeout, until its end is called.
func newIncoming(w http.ResponseWriter, req *http.Request, timeout time.Duration) *incoming {
	most := timeout - timeout/bodyMargin
	b := &incoming{
		ReadCloser: req.Body, size: req.ContentLength,
		setDeadline: http.NewResponseController(w).SetReadDeadline, most: time.Now().Add(most), late: make(chan struct{}),
	}
	b.async = req.ProtoMajor == 1 && b.setDeadline(time.Time{}) == nil // else it is a request of this process
	b.mu.Lock()
	defer b.mu.Unlock()
	b.timer = time.AfterFunc(most, b.look)
	return b
}

// due returns when the client counts as late. While nobody reads, the server is the slow one.
func (b *incoming) due() time.Time {
	if b.since.IsZero() {
		return b.most
	}
	due := b.since.Add(bodyPatience + time.Duration(b.came)*time.Second/bodyRate)
	if due.After(b.most) {
		return b.most
	}
	return due
}

// look ends the wait if the client is late. A deadline in advance would cost each request that is not.
func (b *incoming) look() {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch left := time.Until(b.due()); {
	case b.settled:
	case left > 0:
		b.timer.Reset(left)
	default:
		close(b.late)
		if b.async && !b.since.IsZero() {
			_ = b.setDeadline(time.Now().Add(bodyRest)) // at the latest
			return
		}
		_ = b.setDeadline(past) // what has no deadlines is in this process
	}
}

// past ends reads at once.
var past = time.Unix(1, 0)

// settle ends the wait for what is to come, and reports whether it was not ended before.
func (b *incoming) settle() bool {
	if b.timer != nil {
		b.timer.Stop()
	}
	first := !b.settled
	b.settled = true
	return first
}

// lasts lets the client send as long as it likes.
func (b *incoming) lasts() {
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.settle()
}

// forsake is called when the request was answered. net/http reads the rest of an unread body before it takes the
// connection's next request: forsake bounds that.
func (b *incoming) forsake() {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch unsettled := b.settle(); {
	case b.isLate():
		_ = b.setDeadline(past)
	case unsettled:
		_ = b.setDeadline(time.Now().Add(bodyRest))
	}
}

// isSmall reports whether there is a body of which all may be in memory before the request takes a seat.
func (b *incoming) isSmall() bool { return b != nil && 0 <= b.size && b.size < largeBody }

// arrive reads a small body before the request takes a seat, and reports whether that took long.
func (b *incoming) arrive() (long bool) {
	began := time.Now()
	b.kept.Grow(int(min(b.size, usualBody)) + bytes.MinRead)
	_, err := b.kept.ReadFrom(reader(b.receive))
	if err != nil {
		b.kept.Reset()
	} else {
		err = io.EOF
	}
	_ = b.ends(err) // no seats wait
	return time.Since(began) >= levelPatience
}

type reader func([]byte) (int, error)

// Read implements io.Reader.
func (r reader) Read(p []byte) (int, error) { return r(p) }

// Read implements io.Reader.
func (b *incoming) Read(p []byte) (int, error) {
	if b.kept.Len() > 0 {
		return b.kept.Read(p)
	}
	if b.end != nil {
		return 0, b.end
	}
	began := time.Now()
	n, err := b.receive(p)
	if err != nil {
		if lost := b.ends(err); lost != nil {
			n, err = 0, lost
		}
	}
	b.waited.Add(int64(time.Since(began)))
	return n, err
}

// receive reads from the client.
func (b *incoming) receive(p []byte) (int, error) {
	b.mu.Lock()
	if b.since.IsZero() && !b.settled && b.timer != nil {
		b.since = time.Now()
		b.timer.Reset(time.Until(b.due()))
	}
	b.mu.Unlock()
	n, err := b.read(p)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.came += int64(n)
	if b.isLate() || errors.Is(err, os.ErrDeadlineExceeded) {
		b.settle()
		return 0, errLate
	}
	if err != nil {
		b.settle()
	}
	return n, err
}

// read reads from the client, or until that is late.
func (b *incoming) read(p []byte) (int, error) {
	if !b.async {
		return b.ReadCloser.Read(p)
	}
	if b.buffer == nil {
		b.buffer = make([]byte, min(len(p), usualBody))
	}
	type result struct {
		n   int
		err error
	}
	done, into := make(chan result, 1), b.buffer[:min(len(p), len(b.buffer))]
	go func() {
		n, err := b.ReadCloser.Read(into)
		done <- result{n, err}
	}()
	select {
	case r := <-done:
		return copy(p, into[:r.n]), r.err
	case <-b.late:
		return 0, errLate // into is no longer ours
	}
}

var errLate = &apierrors.StatusError{ErrStatus: metav1.Status{
	TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure, Code: http.StatusRequestTimeout, Reason: metav1.StatusReasonTimeout,
	Message: fmt.Sprintf("the body of the request did not come in time: within %s, a second more for each %d bytes of it, and before the request times out; send it again",
		bodyPatience, bodyRate),
}}

// isLate reports whether the client was.
func (b *incoming) isLate() bool {
	select {
	case <-b.late:
		return true
	default:
		return false
	}
}

// rejection returns the answer to a request whose client was late, or nil.
func (b *incoming) rejection() *apierrors.StatusError {
	if b.isLate() {
		return errLate
	}
	return nil
}

// ends notes the end of the body, which may be an error. It returns one if the body is lost instead.
func (b *incoming) ends(err error) (lost error) {
	b.mu.Lock()
	received, arrived := b.received, b.arrived
	b.complete, b.received, b.arrived = true, nil, nil
	b.mu.Unlock()
	if arrived != nil {
		arrived()
	}
	if received != nil && errors.Is(err, io.EOF) { // else there is no work that needs seats
		lost = received()
	}
	if b.end = err; lost != nil {
		b.end = lost
	}
	if !errors.Is(b.end, io.EOF) {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.failed = true
	}
	return lost
}

// hasFailed reports whether nothing can have come of the request, because nobody has got all of its body.
func (b *incoming) hasFailed() bool {
	if b == nil {
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.failed
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
