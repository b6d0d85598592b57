package flowcontrol

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenantry/tenantry/internal/server/flowcontrol/waiting"
	"github.com/tenantry/tenantry/test/until"
)

// unread is the answer to a client that does not read until it is let go.
type unread struct {
	http.ResponseWriter
	begun, read chan struct{}
}

func newUnread() *unread {
	return &unread{httptest.NewRecorder(), make(chan struct{}), make(chan struct{})}
}

func (u *unread) wait() {
	close(u.begun)
	<-u.read
}

func (u *unread) Write(p []byte) (int, error)                  { u.wait(); return len(p), nil }
func (u *unread) Flush()                                       { u.wait() }
func (u *unread) CloseNotify() <-chan bool                     { return nil }
func (u *unread) Close() error                                 { return nil }
func (u *unread) Read([]byte) (int, error)                     { return 0, io.EOF }
func (u *unread) LocalAddr() net.Addr                          { return nil }
func (u *unread) RemoteAddr() net.Addr                         { return nil }
func (u *unread) SetDeadline(time.Time) error                  { return nil }
func (u *unread) SetReadDeadline(time.Time) error              { return nil }
func (u *unread) SetWriteDeadline(time.Time) error             { return nil }
func (u *unread) Hijack() (net.Conn, *bufio.ReadWriter, error) { return u, nil, nil }

// TestWaitingRequestsLeaveTheirLevel checks that requests which wait for their clients, or for webhooks, have no seats
// of their priority level, which are those of all tenants, but those of their tenant, and that others keep both.
func TestWaitingRequestsLeaveTheirLevel(t *testing.T) {
	write200 := func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("{}")) }
	flush := func(w http.ResponseWriter, _ *http.Request) { w.(http.Flusher).Flush() }
	socket := func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		_, _ = conn.Write([]byte("{}"))
	}
	// rest is what waits for others.
	rest := func(w http.ResponseWriter) { w.(hijacked).ResponseWriter.(*unread).wait() }
	for name, tc := range map[string]struct {
		method, path string
		class        class
		waits        int
		handler      func(http.ResponseWriter, *http.Request)
		body         func(*unread) io.Reader
	}{
		"a large list":               {http.MethodGet, "/api/v1/pods", largeRead, 1, write200, nil},
		"a list":                     {http.MethodGet, "/api/v1/pods?limit=300", read, 1, write200, nil},
		"first events":               {http.MethodGet, "/api/v1/pods?watch=true", largeRead, 1, flush, nil},
		"first events by web socket": {http.MethodGet, "/api/v1/pods?watch=true", largeRead, 1, socket, nil},
		"the answer to a write":      {http.MethodPost, "/api/v1/namespaces/default/pods", write, 1, write200, nil},
		"a body": {http.MethodPost, "/api/v1/namespaces/default/pods", write, 1,
			func(_ http.ResponseWriter, req *http.Request) { _, _ = io.ReadAll(req.Body) },
			func(u *unread) io.Reader { return readerFunc(func([]byte) (int, error) { u.wait(); return 0, io.EOF }) }},
		"a body of what is called as a stream": {http.MethodPost, "/api/v1/namespaces/default/configmaps/log", write, 1,
			func(_ http.ResponseWriter, req *http.Request) { _, _ = io.ReadAll(req.Body) },
			func(u *unread) io.Reader { return readerFunc(func([]byte) (int, error) { u.wait(); return 0, io.EOF }) }},
		"a stream that has not begun": {http.MethodGet, "/api/v1/namespaces/default/pods/web/exec", read, 0,
			func(w http.ResponseWriter, _ *http.Request) { rest(w) }, nil},
		"a webhook": {http.MethodPost, "/api/v1/namespaces/default/pods", write, 1,
			func(w http.ResponseWriter, req *http.Request) {
				release := hang(req.Context())
				defer release()
				rest(w)
			}, nil},
		"whatever it is": {http.MethodGet, "/api/v1/pods", largeRead, 0,
			func(w http.ResponseWriter, _ *http.Request) { rest(w) }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, m := newControl()
			c.config.Concurrency = Concurrency{Reads: 1, Writes: 1, LargeReads: 1}
			client, ended := newUnread(), make(chan struct{})
			var seat *levelSeat
			req := httptest.NewRequest(tc.method, tc.path, nil)
			if tc.body != nil {
				req = httptest.NewRequest(tc.method, tc.path, tc.body(client))
			}
			go func() {
				defer close(ended)
				serve(t, c, "big", req, func(_ http.ResponseWriter, req *http.Request) {
					if m.executing.Load() != 1 {
						t.Error("it begins without seats")
					}
					seat = sentFrom(req.Context()).seat
					WithLevelSeats(http.HandlerFunc(tc.handler)).ServeHTTP(client, req)
				})
			}()
			<-client.begun
			seat.mu.Lock()
			if seat.waits != tc.waits {
				t.Errorf("it waits for %d, want %d", seat.waits, tc.waits)
			}
			seat.mu.Unlock()
			until.True(t, "the seats of the level are free", func() bool { return m.executing.Load() == 0 })
			if seats(&c.queues, queueKey{"big", tc.class}) == 0 {
				t.Error("the seats of the tenant are free")
			}
			close(client.read)
			<-ended
		})
	}
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// TestWaitsInAll checks that a request gives back the seats of its level when it has waited for levelPatience in all.
func TestWaitsInAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s levelSeat
		s.taken.Store(waiting.NewStream())
		for range 2 {
			if !s.isHeld() {
				t.Error("it has none before")
			}
			done := s.waiting()
			time.Sleep(levelPatience/2 + time.Millisecond)
			synctest.Wait()
			done()
		}
		if s.isHeld() {
			t.Error("it has waited twice for more than half of that, and has seats")
		}
	})
}

// TestWaitsAreAdded checks that what a request has waited in all counts, however short each wait is, and that who is
// refused does not begin.
func TestWaitsAreAdded(t *testing.T) {
	var s levelSeat
	s.hold(func(execute func()) { execute() }, func() {
		for i := range 3 {
			outer, inner, began := s.waiting(), s.waiting(), time.Now()
			until.True(t, "time passes", func() bool { return time.Since(began) > time.Millisecond })
			outer()
			inner()
			if least := time.Duration(i+1) * time.Millisecond; s.isHeld() && s.waited < least {
				t.Errorf("it has waited for %s, want at least %s", s.waited, least)
			}
		}
	})
	if s.waiting()(); s.isHeld() {
		t.Error("it has seats after its end")
	}
	s.hold(func(execute func()) {
		began := time.Now()
		until.True(t, "the level has seats", func() bool { return time.Since(began) > levelTime })
		execute()
	}, func() {
		if !s.isHeld() {
			t.Error("it begins without the seats that it has waited for")
		}
	})
	s.hold(func(func()) {}, func() { t.Error("a request that is refused begins") })
}
