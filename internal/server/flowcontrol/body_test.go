package flowcontrol

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tenantry/tenantry/internal/tenant"
	"github.com/tenantry/tenantry/test/until"
)

// pipes is a listener of connections within a test.
type pipes chan net.Conn

func (p pipes) Accept() (net.Conn, error) {
	if conn, ok := <-p; ok {
		return conn, nil
	}
	return nil, net.ErrClosed
}

func (p pipes) Close() error   { return nil }
func (p pipes) Addr() net.Addr { return &net.UnixAddr{} }

func (p pipes) dial(context.Context, string, string) (net.Conn, error) {
	client, server := net.Pipe()
	p <- server
	return client, nil
}

// TestBodiesThatDoNotCome checks when a server gives up the wait for a body, and that it waits for who is slow.
func TestBodiesThatDoNotCome(t *testing.T) {
	reads := func(w http.ResponseWriter, req *http.Request) {
		if _, err := io.ReadAll(req.Body); err != nil {
			status := apierrors.APIStatus(nil)
			if !errors.As(err, &status) {
				t.Errorf("the body ends with %v", err)
				return
			}
			w.WriteHeader(int(status.Status().Code))
			_ = json.NewEncoder(w).Encode(status.Status())
		}
	}
	nothing := func(*io.PipeWriter) {}
	// drip sends bytes every second until it has sent all.
	drip := func(bytes, all int) func(*io.PipeWriter) {
		return func(w *io.PipeWriter) {
			for sent := 0; sent < all; sent += bytes {
				time.Sleep(time.Second)
				if _, err := w.Write(make([]byte, bytes)); err != nil {
					return
				}
			}
			_ = w.Close()
		}
	}
	for name, tc := range map[string]struct {
		size    int64
		send    func(*io.PipeWriter)
		handler func(http.ResponseWriter, *http.Request)
		status  int
		after   time.Duration // at most, and not much less
		h1After time.Duration // if it is not the same by HTTP/1.1
	}{
		"nothing": {100, nothing, reads, http.StatusRequestTimeout, 20 * time.Second, 0},
		"nothing, and another answers": {100, nothing, func(w http.ResponseWriter, req *http.Request) {
			_, err := io.ReadAll(req.Body)
			http.Error(w, err.Error(), http.StatusGatewayTimeout)
		}, http.StatusRequestTimeout, 20 * time.Second, 0},
		"nothing of unknown length": {-1, nothing, reads, http.StatusRequestTimeout, 20 * time.Second, 0},
		"a byte a second":           {1000, drip(1, 1000), reads, http.StatusRequestTimeout, 20 * time.Second, 0},
		"slow":                      {30_000, drip(600, 30_000), reads, http.StatusOK, 50 * time.Second, 0},
		"without an end":            {1 << 20, drip(600, 1<<20), reads, http.StatusRequestTimeout, 55 * time.Second, 0},
		"read late": {1000, drip(100, 1000), func(w http.ResponseWriter, req *http.Request) {
			time.Sleep(40 * time.Second) // in queues
			reads(w, req)
		}, http.StatusOK, 40 * time.Second, 48 * time.Second}, // with what waits in buffers
		"not read": {100, nothing, func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusUnauthorized)
		}, http.StatusUnauthorized, 0, 5 * time.Second},
		"not read, and a large answer": {100, nothing, func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write(make([]byte, 64<<10))
		}, http.StatusOK, 0, 55 * time.Second},
		"of what lasts": {100, func(w *io.PipeWriter) {
			time.Sleep(time.Hour)
			drip(100, 100)(w)
		}, func(w http.ResponseWriter, req *http.Request) {
			sentFrom(req.Context()).lasts()
			reads(w, req)
		}, http.StatusOK, time.Hour + time.Second, 0},
	} {
		for _, version := range []string{"HTTP/1.1", "HTTP/2"} {
			t.Run(name+" by "+version, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					protocols := &http.Protocols{}
					protocols.SetHTTP1(version == "HTTP/1.1")
					protocols.SetUnencryptedHTTP2(version == "HTTP/2")
					listener := pipes(make(chan net.Conn))
					server := &http.Server{Protocols: protocols, Handler: WithSent(http.HandlerFunc(tc.handler), time.Minute)}
					go func() { _ = server.Serve(listener) }()
					transport := &http.Transport{Protocols: protocols, DialContext: listener.dial}
					body, writer := io.Pipe()
					sent := make(chan struct{})
					go func() {
						defer close(sent)
						tc.send(writer)
					}()
					req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://server/", body)
					if err != nil {
						t.Fatal(err)
					}
					req.ContentLength = tc.size
					began := time.Now()
					response, err := transport.RoundTrip(req)
					if err != nil {
						t.Fatal(err)
					}
					want := tc.after
					if tc.h1After > 0 && version == "HTTP/1.1" {
						want = tc.h1After
					}
					if took := time.Since(began).Round(time.Second); response.StatusCode != tc.status || took != want {
						t.Errorf("%s after %s, want %d after %s", response.Status, took, tc.status, want)
					}
					var status metav1.Status
					if err := json.NewDecoder(response.Body).Decode(&status); tc.status == http.StatusRequestTimeout &&
						(err != nil || !strings.Contains(status.Message, "did not come in time")) {
						t.Errorf("the answer is %+v, %v", status, err)
					}
					_ = body.Close()
					_ = response.Body.Close()
					transport.CloseIdleConnections()
					close(listener)
					_ = server.Close()
					<-sent
					time.Sleep(time.Minute) // for what the server still does
				})
			})
		}
	}
}

// TestLateRequestsGoOn checks that a request whose body is late has not ended before it is answered: upstream would
// break off its connection.
func TestLateRequestsGoOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		listener := pipes(make(chan net.Conn))
		server := &http.Server{Handler: WithSent(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			_, _ = io.ReadAll(req.Body)
			time.Sleep(time.Second)
			if err := req.Context().Err(); err != nil {
				t.Error(err)
			}
			w.WriteHeader(http.StatusTooManyRequests)
		}), time.Minute)}
		go func() { _ = server.Serve(listener) }()
		transport := &http.Transport{DialContext: listener.dial}
		body, _ := io.Pipe()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://server/", body)
		if err != nil {
			t.Fatal(err)
		}
		req.ContentLength = 100
		response, err := transport.RoundTrip(req)
		if err != nil || response.StatusCode != http.StatusRequestTimeout {
			t.Errorf("the answer is %v, %v", response, err)
		}
		_ = body.Close()
		close(listener)
		_ = server.Close()
		time.Sleep(time.Minute) // for what the server still does
	})
}

// TestBodiesComeBeforeSeats checks that nobody's seats wait for a small body, and that a larger one has those of its
// tenant.
func TestBodiesComeBeforeSeats(t *testing.T) {
	for name, tc := range map[string]struct {
		method string
		size   int64
		seats  int
	}{
		"small":             {http.MethodPost, largeBody - 1, 0},
		"small of a read":   {http.MethodGet, 100, 0},
		"large":             {http.MethodPost, largeBody, 1},
		"of unknown length": {http.MethodPost, -1, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, _ := newControl()
				c.config.Concurrency = Concurrency{Reads: 1, Writes: 1, LargeReads: 1}
				body, writer := io.Pipe()
				req, err := http.NewRequestWithContext(t.Context(), tc.method, "/api/v1/namespaces/default/pods", body)
				if err != nil {
					t.Fatal(err)
				}
				req.ContentLength = tc.size
				read, ended := 0, make(chan struct{})
				go func() {
					defer close(ended)
					serve(t, c, "acme", req, func(_ http.ResponseWriter, req *http.Request) {
						all, err := io.ReadAll(req.Body)
						if read = len(all); err != nil {
							t.Error(err)
						}
					})
				}()
				_, _ = writer.Write(make([]byte, 10))
				synctest.Wait()
				if got := countQueues(&c.queues); got != tc.seats {
					t.Errorf("%d queues while it waits for the body, want %d", got, tc.seats)
				}
				_ = writer.Close()
				if <-ended; read != 10 {
					t.Errorf("%d bytes are read, want 10", read)
				}
			})
		})
	}
}

// TestFewBodiesAreAwaited checks that only so many bodies of a tenant, or of all who are not known, are waited for
// before they have seats.
func TestFewBodiesAreAwaited(t *testing.T) {
	for _, n := range []tenant.Name{"acme", ""} {
		synctest.Test(t, func(t *testing.T) {
			c, _ := newControl()
			send := func(n tenant.Name, body io.Reader) bool {
				req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "/api/v1/namespaces/default/pods", body)
				if err != nil {
					t.Error(err)
					return false
				}
				req.ContentLength = 2
				return serves(t, c, n, req, nothing)
			}
			late, writer := io.Pipe()
			for range maxQueued {
				go send(n, late)
			}
			synctest.Wait()
			if send(n, strings.NewReader("{}")) {
				t.Errorf("of %q, more than %d bodies are waited for", n, maxQueued)
			}
			if !send("globex", strings.NewReader("{}")) {
				t.Errorf("bodies of others than %q are not waited for", n)
			}
			_ = writer.Close()
			synctest.Wait()
			if !send(n, strings.NewReader("{}")) || c.arriving.Len() > 0 {
				t.Errorf("%d flows have bodies to come", c.arriving.Len())
			}
		})
	}
}

// TestNothingComesOfNoBody checks that a write whose body was lost has no seats after its answer, whatever that is.
func TestNothingComesOfNoBody(t *testing.T) {
	c, _ := newControl()
	c.config.Concurrency.Writes = 1
	body, writer := io.Pipe()
	_ = writer.CloseWithError(io.ErrUnexpectedEOF)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "/api/v1/namespaces/default/pods", body)
	if err != nil {
		t.Fatal(err)
	}
	req.ContentLength = -1
	var work context.Context // is referred to
	serve(t, c, "acme", req, func(w http.ResponseWriter, r *http.Request) {
		WithUnended(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			work = r.Context()
			if _, err := io.ReadAll(r.Body); !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Errorf("the body ends with %v", err)
			}
			w.WriteHeader(http.StatusGatewayTimeout)
		}), nil).ServeHTTP(w, r)
	})
	until.True(t, "its seats are free", func() bool { return countQueues(&c.queues) == 0 })
	runtime.KeepAlive(work)
}
