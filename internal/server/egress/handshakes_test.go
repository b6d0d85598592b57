package egress

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/util/webhook"

	"github.com/tenantry/tenantry/internal/bounds"
	"github.com/tenantry/tenantry/internal/tenant"
)

// longAuthority is a certificate, as PEM, of a key that nobody has.
func longAuthority(t *testing.T, bits int) []byte {
	t.Helper()
	signer, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	modulus := new(big.Int).Lsh(big.NewInt(1), uint(bits-1))
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "ca"}, IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, template, &x509.Certificate{Subject: template.Subject},
		&rsa.PublicKey{N: modulus.SetBit(modulus, 0, 1), E: 65537}, signer)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// TestStoredAuthorities checks what upstream's clients do with authorities that are stored already.
func TestStoredAuthorities(t *testing.T) {
	var connections atomic.Int64
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte("{}"))
	}))
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			connections.Add(1)
		}
	}
	server.StartTLS()
	defer server.Close()
	clients, err := webhook.NewClientManager([]schema.GroupVersion{admissionv1.SchemeGroupVersion}, admissionv1.AddToScheme)
	if err != nil {
		t.Fatal(err)
	}
	resolver, err := webhook.NewDefaultAuthenticationInfoResolver("")
	if err != nil {
		t.Fatal(err)
	}
	clients.SetAuthenticationInfoResolver(resolver)
	clients.SetAuthenticationInfoResolverWrapper(Options{Allowed: []net.IPNet{network("127.0.0.0/8")}}.ForTenant("acme", nil))
	clients.SetServiceResolver(webhook.NewDefaultServiceResolver())

	good := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	comment := func(length int) []byte {
		return append(slices.Clone(good), slices.Repeat([]byte("\n"), length-len(good))...)
	}
	for name, tc := range map[string]struct {
		bundle []byte
		want   string // in the error, none if it is empty
	}{
		"good":     {good, ""},
		"a long":   {append(slices.Clone(good), longAuthority(t, 16384)...), "its caBundle is refused: certificate 2: its RSA key has 16384 bits"},
		"large":    {comment(bounds.MaxAuthorityBytes), ""},
		"larger":   {comment(bounds.MaxAuthorityBytes + 1), "its caBundle is refused: it has more than 262144 bytes"},
		"of other": {longAuthority(t, 2048), errUnreachable.Error()},
		"none":     {nil, errUnreachable.Error()},
	} {
		t.Run(name, func(t *testing.T) {
			connections.Store(0)
			client, err := clients.HookClient(webhook.ClientConfig{Name: "hook", URL: server.URL, CABundle: tc.bundle})
			if err != nil {
				t.Fatal(err)
			}
			err = client.Post().Body(&admissionv1.AdmissionReview{}).Do(t.Context()).Error()
			if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
			if errors.Is(err, errAuthorities) && connections.Load() > 0 {
				t.Error("it is connected to")
			}
		})
	}
}

// hook is a webhook at the other end of pipes, which are made in the bubble of a test.
type hook struct {
	certificate tls.Certificate
	roots       *x509.CertPool
}

func newHook(t *testing.T) *hook {
	server := httptest.NewTLSServer(nil)
	defer server.Close()
	h := &hook{server.TLS.Certificates[0], x509.NewCertPool()}
	h.roots.AddCert(server.Certificate())
	return h
}

// dial connects to the hook, which answers 200 once.
func (h *hook) dial(context.Context, string, string) (net.Conn, error) {
	client, server := net.Pipe()
	go func() {
		conn := tls.Server(server, &tls.Config{Certificates: []tls.Certificate{h.certificate}})
		defer server.Close()
		if n, _ := conn.Read(make([]byte, 1<<16)); n > 0 {
			_, _ = conn.Write([]byte("HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"))
		}
	}()
	return client, nil
}

// transport is that of a tenant, which calls verify for each certificate.
func (h *hook) transport(n tenant.Name, verify func()) http.RoundTripper {
	return handshakes{&http.Transport{DialContext: bounded(h.dial), TLSHandshakeTimeout: 10 * time.Second,
		TLSClientConfig: &tls.Config{RootCAs: h.roots, ServerName: "example.com", VerifyConnection: func(tls.ConnectionState) error {
			verify()
			return nil
		}}}, n}
}

func ask(ctx context.Context, transport http.RoundTripper) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://hook", nil)
	if err != nil {
		return err
	}
	response, err := transport.RoundTrip(req)
	if err != nil {
		return err
	}
	return response.Body.Close()
}

// TestHandshakesTakeTurns checks that a tenant has one certificate verified at a time, also after requests have given
// up.
func TestHandshakesTakeTurns(t *testing.T) {
	h := newHook(t)
	synctest.Test(t, func(t *testing.T) {
		verified := make(chan struct{})
		verifying := 0
		slow := h.transport("acme", func() { verifying++; <-verified })
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := ask(ctx, slow); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
		time.Sleep(time.Minute) // its handshake goes on after its own timeout
		asked := make(chan error, 2)
		for range 2 {
			go func() { asked <- ask(t.Context(), h.transport("acme", func() { verifying++ })) }()
		}
		synctest.Wait()
		if verifying != 1 {
			t.Errorf("%d certificates are verified at a time", verifying)
		}
		if err := ask(t.Context(), h.transport("globex", func() {})); err != nil {
			t.Errorf("another tenant waits: %v", err)
		}
		close(verified)
		for range 2 {
			if err := <-asked; err != nil {
				t.Error(err)
			}
		}
		synctest.Wait()
		if verifying != 3 {
			t.Errorf("%d certificates were verified", verifying)
		}
		isIdle(t, "acme")
	})
}

// TestGivingUpATurn checks that nothing waits for its turn after its connection is closed.
func TestGivingUpATurn(t *testing.T) {
	h := newHook(t)
	synctest.Test(t, func(t *testing.T) {
		release, err := handshakeTurns.Take(t.Context(), "acme")
		if err != nil {
			t.Fatal(err)
		}
		if err := ask(t.Context(), h.transport("acme", func() { t.Error("it is verified") })); err == nil {
			t.Error("no error")
		}
		release()
		synctest.Wait()
		isIdle(t, "acme")
	})
}

// TestWhatIsNoHandshake checks that an answer of something else, such as that of a proxy which refuses, is no turn.
func TestWhatIsNoHandshake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		transport := handshakes{&http.Transport{DialContext: bounded(func(context.Context, string, string) (net.Conn, error) {
			client, server := net.Pipe()
			go func() {
				defer server.Close()
				_, _ = server.Read(make([]byte, 1<<16))
				_, _ = server.Write([]byte("HTTP/1.1 403 Forbidden\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"))
			}()
			return client, nil
		})}, "acme"}
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://hook", nil)
		if err != nil {
			t.Fatal(err)
		}
		response, err := transport.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		synctest.Wait()
		isIdle(t, "acme")
	})
}

func isIdle(t *testing.T, n tenant.Name) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	release, err := handshakeTurns.Take(ctx, n)
	if err != nil {
		t.Fatal("the turn is not given back")
	}
	release()
}
