package flowcontrol

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apiserver/pkg/endpoints/request"

	"github.com/tenantry/tenantry/internal/tenant"
)

// event is a large one. Three are a tenant's limit in tests.
var event = make([]byte, largeEvent)

// testWatches are the watches of a test.
type testWatches struct {
	t      *testing.T
	events *largeEvents
}

func newWatches(t *testing.T) *testWatches { return &testWatches{t, newLargeEvents(3 * largeEvent)} }

// response is a connection to a client that reads what it is let.
type response struct {
	*httptest.ResponseRecorder
	reads     bool
	blocked   chan struct{} // a write is
	unblocked chan struct{}
	unblock   func()
	deadlines []time.Time
}

func newResponse(reads bool) *response {
	r := &response{ResponseRecorder: httptest.NewRecorder(), reads: reads, blocked: make(chan struct{}), unblocked: make(chan struct{})}
	r.unblock = sync.OnceFunc(func() { close(r.unblocked) })
	return r
}

func (r *response) Write(p []byte) (int, error) {
	if r.reads {
		return r.ResponseRecorder.Write(p)
	}
	r.blocked <- struct{}{}
	<-r.unblocked
	return 0, errors.New("deadline exceeded")
}

func (r *response) SetWriteDeadline(at time.Time) error {
	r.deadlines = append(r.deadlines, at)
	r.unblock()
	return nil
}

func (*response) CloseNotify() <-chan bool { return nil }

// watch is one that a test has open.
type watch struct {
	response *response
	write    chan []byte   // what is to be written
	written  chan struct{} // the event is
	ended    chan struct{}
	close    context.CancelFunc
}

// open opens a watch of n's user that writes what it is given until its end, as upstream's.
func (w *testWatches) open(n tenant.Name, reads bool) *watch {
	opened := &watch{response: newResponse(reads), write: make(chan []byte), written: make(chan struct{}), ended: make(chan struct{})}
	handler := w.events.filter(http.HandlerFunc(func(rw http.ResponseWriter, req *http.Request) {
		if _, ok := rw.(http.Flusher); !ok {
			w.t.Error("no Flusher")
		}
		for {
			select {
			case <-req.Context().Done():
				return
			case p := <-opened.write:
				if _, err := rw.Write(p); err != nil {
					return
				}
				opened.written <- struct{}{}
			}
		}
	}))
	ctx := request.WithRequestInfo(contextOf(&tenant.Request{Authenticated: n}, userOf(n, "jane")), &request.RequestInfo{Verb: "watch"})
	ctx, opened.close = context.WithCancel(ctx)
	go func() {
		defer close(opened.ended)
		handler.ServeHTTP(opened.response, httptest.NewRequest(http.MethodGet, "/", nil).WithContext(ctx))
	}()
	w.t.Cleanup(func() {
		opened.close()
		opened.response.unblock()
		<-opened.ended
	})
	return opened
}

// send writes an event, and waits until it is read or blocked.
func (w *testWatches) send(o *watch) {
	o.write <- event
	select {
	case <-o.written:
	case <-o.response.blocked:
	}
	pass(time.Millisecond)
}

func (w *testWatches) held(n tenant.Name) int64 {
	w.events.mu.Lock()
	defer w.events.mu.Unlock()
	if held := w.events.tenants[n]; held != nil {
		return held.bytes
	}
	return 0
}

// isOpen reports whether a watch can still write.
func (w *testWatches) isOpen(o *watch) bool {
	select {
	case <-o.ended:
		return false
	case o.write <- []byte("."):
		<-o.written
		return true
	}
}

func TestUnreadWatches(t *testing.T) { synctest.Test(t, testUnreadWatches) }

func testUnreadWatches(t *testing.T) {
	w := newWatches(t)
	read, other := w.open("acme", true), w.open("globex", true)
	w.send(read)
	w.send(other)
	pass(manyEventsGrace)
	var unread []*watch
	for range 4 {
		o := w.open("acme", false)
		w.send(o)
		unread = append(unread, o)
	}
	pass(eventGrace - watchSweepInterval)
	if got, want := w.held("acme"), int64(5*largeEvent); got != want {
		t.Fatalf("%d bytes are held, want %d", got, want)
	}
	pass(watchSweepInterval)
	<-unread[0].ended // though the one that is read holds its event for longer
	<-unread[1].ended
	if got, want := w.held("acme"), int64(3*largeEvent); got != want {
		t.Errorf("%d bytes are held, want %d", got, want)
	}
	pass(2 * eventGrace)
	for name, o := range map[string]*watch{"read": read, "of another tenant": other} {
		if !w.isOpen(o) {
			t.Errorf("the watch that is %s has ended", name)
		}
	}
	if got := len(unread[2].response.deadlines) + len(unread[3].response.deadlines); got != 0 {
		t.Error("watches within the limit have ended")
	}
}

func TestReadWatches(t *testing.T) { synctest.Test(t, testReadWatches) }

func testReadWatches(t *testing.T) {
	w := newWatches(t)
	var watches []*watch
	for range 4 {
		o := w.open("acme", true)
		w.send(o)
		w.send(o) // is in the same buffer
		watches = append(watches, o)
	}
	if got, want := w.held("acme"), int64(4*largeEvent); got != want {
		t.Errorf("%d bytes are held, want %d", got, want)
	}
	time.Sleep(eventGrace)
	synctest.Wait()
	<-watches[0].ended
	if got, want := watches[0].response.Body.Len(), 2*largeEvent; got != want {
		t.Errorf("%d bytes were written, want %d", got, want)
	}
	if got := watches[0].response.deadlines; len(got) != 2 || !got[1].IsZero() {
		t.Errorf("the connection has a deadline for other requests: %v", got)
	}
	for _, o := range watches[1:] {
		if !w.isOpen(o) {
			t.Error("more watches have ended than had to")
		}
	}
}

// TestManyEvents checks that a tenant does not hold far more than its limit for long.
func TestManyEvents(t *testing.T) { synctest.Test(t, testManyEvents) }

func testManyEvents(t *testing.T) {
	w := newWatches(t)
	for range 3*manyEvents + 2 {
		w.send(w.open("acme", false))
	}
	pass(manyEventsGrace)
	if got, want := w.held("acme"), int64(manyEvents*3*largeEvent); got != want {
		t.Errorf("%d bytes are held, want %d", got, want)
	}
}

func TestNothingOfClosedWatchesIsLeft(t *testing.T) {
	synctest.Test(t, testNothingOfClosedWatchesIsLeft)
}

func testNothingOfClosedWatchesIsLeft(t *testing.T) {
	w := newWatches(t)
	all := make([]*watch, 4)
	for i := range all {
		all[i] = w.open("acme", true)
		w.send(all[i])
	}
	held := w.events.tenants["acme"]
	if !held.sweeping {
		t.Error("no timer of a tenant whose watches hold too much")
	}
	for _, o := range all {
		o.close()
		<-o.ended
	}
	time.Sleep(eventGrace)
	synctest.Wait()
	w.events.mu.Lock()
	defer w.events.mu.Unlock()
	if len(w.events.tenants) != 0 || held.sweeping {
		t.Errorf("left: %v, timer: %v", w.events.tenants, held.sweeping)
	}
}

func TestSystemWatchesAreNotCounted(t *testing.T) {
	for name, tc := range map[string]struct {
		tenant tenant.Name
		verb   string
		want   bool
	}{
		"watch":           {"acme", "watch", true},
		"list":            {"acme", "list", false},
		"system's":        {tenant.System, "watch", false},
		"nobody's":        {"", "watch", false},
		"system on short": {tenant.System, "list", false},
	} {
		t.Run(name, func(t *testing.T) {
			ctx := request.WithRequestInfo(contextOf(&tenant.Request{Authenticated: tc.tenant}, userOf(tc.tenant, "jane")), &request.RequestInfo{Verb: tc.verb})
			req := httptest.NewRequest(http.MethodGet, "/", nil).WithContext(ctx)
			req.Header.Set("Accept-Encoding", "gzip")
			w, counted := httptest.NewRecorder(), false
			newLargeEvents(1).filter(http.HandlerFunc(func(got http.ResponseWriter, req *http.Request) {
				counted = got != http.ResponseWriter(w)
				if compressed := req.Header.Get("Accept-Encoding") != ""; compressed == counted {
					t.Errorf("may be compressed: %v, is counted: %v", compressed, counted)
				}
			})).ServeHTTP(w, req)
			if counted != tc.want {
				t.Errorf("is counted: %v, want %v", counted, tc.want)
			}
		})
	}
}

// hijackable is a response whose connection is a pipe.
type hijackable struct {
	*response
	conn net.Conn
}

func (h hijackable) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	return h.conn, bufio.NewReadWriter(bufio.NewReader(h.conn), bufio.NewWriter(h.conn)), nil
}

// TestWebSockets checks that writes to a hijacked connection are counted and end with the watch.
func TestWebSockets(t *testing.T) { synctest.Test(t, testWebSockets) }

func testWebSockets(t *testing.T) {
	w := newWatches(t)
	w.events.maxBytes = 1
	server, client := net.Pipe()
	defer client.Close()
	opened := &watch{response: newResponse(true)}
	handler := w.events.filter(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
		_, conn, err := rw.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		if _, err := conn.Write(event); err == nil {
			t.Error("the write has not ended")
		}
	}))
	ctx := request.WithRequestInfo(contextOf(&tenant.Request{Authenticated: "acme"}, userOf("acme", "jane")), &request.RequestInfo{Verb: "watch"})
	done := make(chan struct{})
	go func() {
		defer close(done)
		handler.ServeHTTP(hijackable{opened.response, server}, httptest.NewRequest(http.MethodGet, "/", nil).WithContext(ctx))
	}()
	if _, err := client.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	time.Sleep(eventGrace)
	synctest.Wait()
	<-done
}

// TestWebSocketsReceiveLittle checks that a watch takes little of what its client sends, and ends.
func TestWebSocketsReceiveLittle(t *testing.T) {
	for name, from := range map[string]func(net.Conn, *bufio.ReadWriter) io.Reader{
		"buffered":   func(_ net.Conn, rw *bufio.ReadWriter) io.Reader { return rw },
		"connection": func(conn net.Conn, _ *bufio.ReadWriter) io.Reader { return conn },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWatches(t)
			server, client := net.Pipe()
			handler := w.events.filter(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
				conn, buffered, err := rw.(http.Hijacker).Hijack()
				if err != nil {
					t.Error(err)
					return
				}
				if n, err := io.Copy(io.Discard, from(conn, buffered)); n != maxReceived || !errors.Is(err, errReceived) {
					t.Errorf("%d bytes are received, %v", n, err)
				}
				if _, err := server.Write([]byte("x")); err == nil {
					t.Error("the connection is open")
				}
			}))
			go func() {
				_, _ = client.Write(make([]byte, 2*maxReceived))
				_ = client.Close()
			}()
			ctx := request.WithRequestInfo(contextOf(&tenant.Request{Authenticated: "acme"}, userOf("acme", "jane")), &request.RequestInfo{Verb: "watch"})
			handler.ServeHTTP(hijackable{newResponse(true), server}, httptest.NewRequest(http.MethodGet, "/", nil).WithContext(ctx))
		})
	}
}

// TestDisconnect checks that a request can close its connection.
func TestDisconnect(t *testing.T) {
	disconnected := make(chan struct{}, 10) // clients may try again
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) {
		disconnect(req.Context())
		<-req.Context().Done()
		disconnected <- struct{}{}
	}))
	server.Listener = WithConnections(server.Listener, 0)
	server.EnableHTTP2 = true
	server.StartTLS()
	defer server.Close()
	response, err := server.Client().Get(server.URL)
	if err == nil {
		_, err = io.ReadAll(response.Body)
		_ = response.Body.Close()
	}
	if err == nil {
		t.Error("the connection was not closed")
	}
	<-disconnected
	if diff := cmp.Diff(server.Listener.Addr().String(), server.URL[len("https://"):]); diff != "" {
		t.Error(diff)
	}
}

// TestDisconnectsWhatDoesNotEnd checks that a watch whose deadline does not end it is disconnected.
func TestDisconnectsWhatDoesNotEnd(t *testing.T) { synctest.Test(t, testDisconnectsWhatDoesNotEnd) }

func testDisconnectsWhatDoesNotEnd(t *testing.T) {
	w := newWatches(t)
	disconnected := false
	watch := &watchWriter{ResponseWriter: httptest.NewRecorder(), events: w.events, tenant: "acme", cancel: func() {}, disconnect: func() { disconnected = true }}
	watch.end()
	pass(disconnectTimeout)
	if !disconnected {
		t.Error("it is still connected")
	}
}

// BenchmarkWatchWriter is what an event costs beside its write.
func BenchmarkWatchWriter(b *testing.B) {
	for name, size := range map[string]int{"1kB": 1000, "1MB": 1_000_000} {
		b.Run(name, func(b *testing.B) {
			w := &watchWriter{ResponseWriter: discard{}, events: newLargeEvents(64 << 20), tenant: "acme"}
			p := make([]byte, size)
			b.ReportAllocs()
			for b.Loop() {
				_, _ = w.Write(p)
			}
		})
	}
}

type discard struct{ http.ResponseWriter }

func (discard) Write(p []byte) (int, error) { return len(p), nil }
