package flowcontrol

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tenantry/tenantry/internal/server/storage"
	"github.com/tenantry/tenantry/internal/tenant"
)

// watchWriter notices the large events that are written for a watch.
type watchWriter struct {
	http.ResponseWriter
	events     *largeEvents
	tenant     tenant.Name
	cancel     context.CancelFunc // of the watch
	written    storage.WrittenEvents
	disconnect func()

	largest      int64        // event that was written; zero if none was large
	writingSince atomic.Int64 // a large event, in nanoseconds; zero if it is not

	// Of largeEvents, whose lock guards them.
	held     int64
	since    time.Time // held is what it is
	released bool

	mu       sync.Mutex
	finished bool
	conn     net.Conn    // of a web socket
	timer    *time.Timer // of disconnect, if the watch is being ended
}

// Unwrap implements responsewriter.UserProvidedDecorator.
func (w *watchWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// Write implements http.ResponseWriter. Upstream writes an event at once.
func (w *watchWriter) Write(p []byte) (int, error) { return w.write(w.ResponseWriter, p) }

func (w *watchWriter) write(to io.Writer, p []byte) (int, error) {
	defer w.written.Wrote()
	if len(p) < largeEvent {
		return to.Write(p)
	}
	w.writingSince.Store(time.Now().UnixNano())
	defer w.writingSince.Store(0)
	if size := int64(len(p)); size > w.largest {
		w.largest = size
		w.events.hold(w, size)
	}
	return to.Write(p)
}

// isBlocked reports whether the client has not read for some time.
func (w *watchWriter) isBlocked(now time.Time) bool {
	since := w.writingSince.Load()
	return since != 0 && now.Sub(time.Unix(0, since)) >= manyEventsGrace
}

// rank is the lower the sooner a watch is to be ended.
func (w *watchWriter) rank(now time.Time) int {
	if w.isBlocked(now) {
		return 0
	}
	return 1
}

// Hijack implements http.Hijacker. Watches by web sockets write to the connection, and read from what is
// returned beside it.
func (w *watchWriter) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, buffered, err := http.NewResponseController(w.ResponseWriter).Hijack()
	if err != nil {
		return nil, nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.conn = conn
	received := &received{Conn: conn, from: buffered.Reader, left: maxReceived}
	return received, bufio.NewReadWriter(bufio.NewReader(received), bufio.NewWriter(webSocket{w, conn})), nil
}

// maxReceived is how many bytes the client of a watch by web socket may send while it is open. It has
// nothing to send but that it closes, or answers to pings. Upstream keeps whole messages of up to 32 MiB before it
// ignores them.
const maxReceived = 64 << 10

var errReceived = errors.New("the client of a watch sends more than it may")

// received is the connection of a watch, closed when the client has sent too much.
type received struct {
	net.Conn
	from io.Reader
	left int
}

// Read implements net.Conn.
func (r *received) Read(p []byte) (int, error) {
	if r.left == 0 {
		_ = r.Close()
		return 0, errReceived
	}
	n, err := r.from.Read(p[:min(len(p), r.left)])
	r.left -= n
	return n, err
}

// webSocket notices the large events that are written to the connection of a watch.
type webSocket struct {
	watch *watchWriter
	conn  io.Writer
}

// Write implements io.Writer.
func (s webSocket) Write(p []byte) (int, error) { return s.watch.write(s.conn, p) }

// end ends the watch: if it has written all that it has encoded, its client sees a regular end. Else
// a deadline ends it. A stream of HTTP/2 cannot be ended while its connection takes no
// bytes: then the connection is closed.
func (w *watchWriter) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.finished {
		return
	}
	endedWatches.Inc()
	w.cancel()
	deadline := time.Now()
	if !w.isBlocked(deadline) {
		deadline = deadline.Add(endTimeout)
	}
	w.setDeadline(deadline)
	w.timer = time.AfterFunc(disconnectTimeout, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if !w.finished {
			w.disconnect()
		}
	})
}

// finish is called when the watch has ended.
func (w *watchWriter) finish() {
	w.events.release(w)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.finished = true
	if w.timer != nil {
		w.timer.Stop()
		w.setDeadline(time.Time{}) // the connection may serve other requests
	}
}

// setDeadline ignores errors: what has no deadlines is disconnected.
func (w *watchWriter) setDeadline(at time.Time) {
	if w.conn != nil {
		_ = w.conn.SetDeadline(at) // what reads from it ends the watch
		return
	}
	_ = http.NewResponseController(w.ResponseWriter).SetWriteDeadline(at)
}
