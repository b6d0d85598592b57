package egress

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptrace"
	"sync"

	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"

	"github.com/tenantry/tenantry/internal/bounds"
	"github.com/tenantry/tenantry/internal/process/keyed"
	"github.com/tenantry/tenantry/internal/roundtrip"
	"github.com/tenantry/tenantry/internal/tenant"
)

// Certificates of webhooks are verified by authorities that a tenant has chosen, in a goroutine that nothing ends and
// nobody is charged for. Go bounds the keys that a server sends, and how many signatures it verifies for one
// connection. So the authorities are bounded here, and a tenant has one certificate verified at a time.

// errAuthorities says that a caBundle is refused. A new one is refused at admission, with the field.
var errAuthorities = errors.New("its caBundle is refused")

// boundAuthorities has transports of config refuse what is too much work, before anything is sent. Upstream
// appends the caBundle to the authorities of config, without a copy of their array as long as it is large enough.
func boundAuthorities(config *rest.Config) {
	authorities := make([]byte, bounds.MaxAuthorityBytes)
	config.CAData = authorities[:0]
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		bundle := bytes.TrimRight(authorities, "\x00")
		if err := bounds.Authorities(bundle); err != nil {
			return refused(fmt.Errorf("%w: %w", errAuthorities, err))
		}
		trusted, err := utilnet.TLSClientConfig(next)
		if err != nil || trusted != nil && trusted.RootCAs != nil && len(bundle) == 0 {
			return refused(fmt.Errorf("%w: it has more than %d bytes", errAuthorities, bounds.MaxAuthorityBytes))
		}
		return next
	})
}

// refused returns a transport that sends nothing.
func refused(err error) roundtrip.Func {
	return func(*http.Request) (*http.Response, error) { return nil, err }
}

// handshakeTurns are those of the tenants whose webhooks' certificates are being verified. They are the process's,
// because what makes connections for a tenant comes and goes.
var handshakeTurns = keyed.Turns[tenant.Name]{Each: 1}

// handshakes is a transport by which a tenant has one certificate verified at a time.
type handshakes struct {
	next http.RoundTripper
	of   tenant.Name
}

// handshake is that of a request which connects. Where it connects twice, since somebody has closed
// the connection that it was given, these are one after the other.
type handshake struct {
	of      tenant.Name
	mu      sync.Mutex
	started bool
	release func() // if it is the tenant's turn
}

type handshakeKey struct{}

// RoundTrip implements http.RoundTripper.
func (t handshakes) RoundTrip(req *http.Request) (*http.Response, error) {
	h := &handshake{of: t.of}
	ctx := httptrace.WithClientTrace(context.WithValue(req.Context(), handshakeKey{}, h), &httptrace.ClientTrace{
		GotConn: func(got httptrace.GotConnInfo) {
			if got.Reused {
				closeIfDenied(req.Context(), got.Conn)
			}
		},
		TLSHandshakeStart: h.start,
		// It is called when the handshake has returned, though the request may have given up long before.
		TLSHandshakeDone: func(tls.ConnectionState, error) { h.end() },
	})
	req = req.WithContext(ctx)
	req.Close = connections.Users(t.of) > maxIdle
	return t.next.RoundTrip(req)
}

func (h *handshake) start() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.started = true
}

// answered waits for the tenant's turn, once in a handshake.
func (h *handshake) answered(ctx context.Context) error {
	h.mu.Lock()
	waits := h.started && h.release == nil
	h.mu.Unlock()
	if !waits {
		return nil
	}
	release, err := handshakeTurns.Take(ctx, h.of)
	if err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.release = release
	return nil
}

func (h *handshake) end() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.release != nil {
		h.release()
	}
	h.started, h.release = false, nil
}
