package inprocess

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"sync"
)

// highWater is how many bytes of a response are buffered before the handler blocks.
const highWater = 1 << 20

// exchange is one request and its response: the handler's response writer, and the client's
// response body.
type exchange struct {
	ctx    context.Context
	cancel context.CancelFunc

	header   http.Header // the handler's
	answered chan struct{}
	// status and sent are set before answered is closed.
	status int
	sent   http.Header

	mu     sync.Mutex
	moved  sync.Cond // something was written, read, finished or closed
	buffer bytes.Buffer
	end    error // io.EOF, or why the response was cut off
	closed bool  // by the client
}

var (
	_ http.ResponseWriter = &exchange{}
	_ http.Flusher        = &exchange{}
	_ io.ReadCloser       = &exchange{}
)

func newExchange(ctx context.Context, cancel context.CancelFunc) *exchange {
	e := &exchange{ctx: ctx, cancel: cancel, header: make(http.Header), answered: make(chan struct{})}
	e.moved.L = &e.mu
	return e
}

// Header implements http.ResponseWriter.
func (e *exchange) Header() http.Header { return e.header }

// WriteHeader implements http.ResponseWriter. The first final status counts.
func (e *exchange) WriteHeader(status int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.status != 0 || e.end != nil || status < http.StatusOK {
		return
	}
	e.status, e.sent = status, e.header.Clone()
	close(e.answered)
}

// Write implements http.ResponseWriter.
func (e *exchange) Write(p []byte) (int, error) {
	e.WriteHeader(http.StatusOK)
	e.mu.Lock()
	defer e.mu.Unlock()
	for e.buffer.Len() >= highWater && !e.closed {
		e.moved.Wait()
	}
	if e.closed {
		return 0, io.ErrClosedPipe
	}
	e.moved.Broadcast()
	return e.buffer.Write(p)
}

// Flush implements http.Flusher. Written bytes can be read at once.
func (e *exchange) Flush() { e.WriteHeader(http.StatusOK) }

// CloseNotify implements http.CloseNotifier, by which upstream recognizes a response
// writer of HTTP/2.
func (e *exchange) CloseNotify() <-chan bool {
	gone := make(chan bool, 1)
	context.AfterFunc(e.ctx, func() { gone <- true })
	return gone
}

// finish ends the response when the handler has returned.
func (e *exchange) finish(end error) {
	e.mu.Lock()
	e.end = end
	if e.status == 0 {
		close(e.answered)
	}
	e.moved.Broadcast()
	e.mu.Unlock()
	e.cancel()
}

// Read implements io.Reader.
func (e *exchange) Read(p []byte) (int, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for e.buffer.Len() == 0 && e.end == nil && !e.closed {
		e.moved.Wait()
	}
	switch {
	case e.closed:
		return 0, http.ErrBodyReadAfterClose
	case e.buffer.Len() == 0:
		return 0, e.end
	}
	if e.buffer.Len() >= highWater {
		e.moved.Broadcast()
	}
	return e.buffer.Read(p)
}

// Close implements io.Closer. It cancels the handler's context.
func (e *exchange) Close() error {
	e.mu.Lock()
	e.closed = true
	e.buffer = bytes.Buffer{}
	e.moved.Broadcast()
	e.mu.Unlock()
	e.cancel()
	return nil
}
