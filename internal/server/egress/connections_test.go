package egress

import (
	"context"
	"encoding/pem"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"k8s.io/client-go/rest"

	"github.com/tenantry/tenantry/internal/process/keyed"
	"github.com/tenantry/tenantry/internal/tenant"
)

// asking is the context of a request to a tenant's webhook.
func asking(t *testing.T, n tenant.Name) context.Context {
	return context.WithValue(t.Context(), handshakeKey{}, &handshake{of: n})
}

// TestConnections has the webhooks of a tenant take as many connections as they may: further ones wait, a great many
// are refused at once, and others' are made.
func TestConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dial := bounded(func(context.Context, string, string) (net.Conn, error) {
			conn, _ := net.Pipe()
			return conn, nil
		})
		var open []net.Conn
		connect := func(n tenant.Name) error {
			conn, err := dial(asking(t, n), "tcp", "hook:443")
			if err == nil {
				open = append(open, conn)
			}
			return err
		}
		for range maxConnections {
			if err := connect("crowd"); err != nil {
				t.Fatal(err)
			}
		}
		waiting := make(chan error, maxDials)
		for range maxDials {
			go func() { waiting <- connect("crowd") }()
		}
		synctest.Wait()
		if err := connect("crowd"); !errors.Is(err, keyed.ErrTooMany) {
			t.Errorf("beside those that wait: %v", err)
		}
		if err := connect("loner"); err != nil {
			t.Errorf("another tenant: %v", err)
		}
		for range maxDials {
			if err := <-waiting; !errors.Is(err, context.DeadlineExceeded) {
				t.Fatal(err)
			}
		}
		for range 2 {
			open[0].Close()
		}
		if err := connect("crowd"); err != nil {
			t.Errorf("after one is closed: %v", err)
		}
		if _, err := dial(t.Context(), "tcp", "hook:443"); err == nil {
			t.Error("without a tenant it is connected to")
		}
		for _, conn := range open {
			conn.Close()
		}
		if n := connections.Users("crowd"); n > 0 {
			t.Errorf("%d connections are left", n)
		}
	})
}

// TestManyConnectionsAreNotKept checks that idle connections leave room for those of other webhooks of the tenant.
func TestManyConnectionsAreNotKept(t *testing.T) {
	for users, want := range map[int]bool{maxIdle: false, maxIdle + 1: true} {
		var releases []func()
		for range users {
			release, err := connections.Take(t.Context(), "busy")
			if err != nil {
				t.Fatal(err)
			}
			releases = append(releases, release)
		}
		asked := handshakes{roundTrips(func(req *http.Request) {
			if req.Close != want {
				t.Errorf("with %d connections one that is not used is closed: %v", users, req.Close)
			}
		}), "busy"}
		if _, err := asked.RoundTrip(httptest.NewRequestWithContext(t.Context(), http.MethodPost, "https://hook", nil)); err != nil {
			t.Fatal(err)
		}
		for _, release := range releases {
			release()
		}
	}
}

// TestCallEnds checks that it is told when a call has ended, with an answer or without.
func TestCallEnds(t *testing.T) {
	ended := 0
	ctx := WithCallEnd(t.Context(), func() { ended++ })
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://hook", strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := (answers{RoundTripper: roundTrips(func(*http.Request) {})}).RoundTrip(req); err != nil || ended != 1 {
		t.Errorf("after %d ends: %v", ended, err)
	}
	if _, err := (answers{RoundTripper: refused(errAuthorities)}).RoundTrip(req); err == nil || ended != 2 {
		t.Errorf("after %d ends: %v", ended, err)
	}
}

type roundTrips func(*http.Request)

func (r roundTrips) RoundTrip(req *http.Request) (*http.Response, error) {
	r(req)
	return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, nil
}

// TestLargeAnswersTakeTurns checks that a long answer is read to its end when it is the tenant's turn, and a short one
// at any time.
func TestLargeAnswersTakeTurns(t *testing.T) {
	for range maxLargeAnswers {
		release, err := largeAnswers.Take(t.Context(), "long")
		if err != nil {
			t.Fatal(err)
		}
		defer release()
	}
	read := func(n tenant.Name, bytes int) error {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, "/", strings.NewReader("{}"))
		if err == nil {
			_, err = answers{of: n}.read(req, io.NopCloser(strings.NewReader("{"+strings.Repeat(" ", bytes-2)+"}")))
		}
		return err
	}
	if err := read("long", usualAnswer-1); err != nil {
		t.Errorf("a short one: %v", err)
	}
	if err := read("long", usualAnswer); !errors.Is(err, context.Canceled) {
		t.Errorf("a long one: %v", err)
	}
}

// TestDeniedConnectionsAreClosed has a webhook be called over a connection that is there, until it may not be at its
// address any more: what is asked then does not get there, and by another connection if that may be made.
func TestDeniedConnectionsAreClosed(t *testing.T) {
	for name, start := range map[string]func(*httptest.Server){
		"HTTP": (*httptest.Server).Start, "TLS": (*httptest.Server).StartTLS,
		"HTTP/2": func(hook *httptest.Server) { hook.EnableHTTP2 = true; hook.StartTLS() },
	} {
		t.Run(name, func(t *testing.T) {
			var asked, connected atomic.Int64
			hook := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
				asked.Add(1)
				answering("application/json", "{}").ServeHTTP(w, req)
			}))
			hook.Config.ConnState = func(_ net.Conn, state http.ConnState) {
				if state == http.StateNew {
					connected.Add(1)
				}
			}
			start(hook)
			defer hook.Close()
			whose, still := Own, Own
			options := Options{
				Allowed:   []net.IPNet{network("127.0.0.0/8")},
				ServiceAt: func(context.Context, tenant.Name, netip.AddrPort) Whose { return whose },
				StillAt:   func(context.Context, tenant.Name, netip.AddrPort) Whose { return still },
			}
			config, err := options.restrict("acme", &rest.Config{}, nil)
			if err != nil {
				t.Fatal(err)
			}
			if hook.TLS != nil {
				config.CAData = append(config.CAData, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: hook.Certificate().Raw})...)
			}
			client, err := rest.HTTPClientFor(config)
			if err != nil {
				t.Fatal(err)
			}
			ask := func(wantAsked, leastConnected, mostConnected int64) error {
				t.Helper()
				response, err := client.Post(hook.URL, "application/json", strings.NewReader("{}"))
				if err == nil {
					err = response.Body.Close()
				}
				if a, c := asked.Load(), connected.Load(); a != wantAsked || c < leastConnected || c > mostConnected {
					t.Errorf("it has been asked %d times over %d connections, want %d and %d to %d: %v", a, c, wantAsked, leastConnected, mostConnected, err)
				}
				return err
			}
			for n := range int64(2) {
				if err := ask(n+1, 1, 1); err != nil {
					t.Fatal(err)
				}
			}
			whose, still = Others, Others
			if err := ask(2, 1, 1); err == nil {
				t.Error("it is asked where it may not be")
			}
			whose, still = Own, Own
			// With HTTP/2, the client may connect once more before it knows that the first connection is closed.
			if err := ask(3, 2, 3); err != nil {
				t.Error(err)
			}
		})
	}
}
