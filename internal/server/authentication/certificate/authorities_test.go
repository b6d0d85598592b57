package certificate

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/tenantry/tenantry/internal/server/authentication/identity"
	"github.com/tenantry/tenantry/internal/tenant"
)

// authority is a certificate authority of the tests.
type authority struct {
	*x509.Certificate
	key crypto.Signer
}

// newAuthority makes one, issued by parent if there is one.
func newAuthority(t testing.TB, name string, parent *authority) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return certify(t, name, key, parent)
}

// certify makes a certificate of an authority with the given key.
func certify(t testing.TB, name string, key crypto.Signer, parent *authority) *authority {
	t.Helper()
	template := &x509.Certificate{Subject: pkix.Name{CommonName: name}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	made := &authority{Certificate: template, key: key}
	if parent == nil {
		parent = made
	}
	made.Certificate = sign(t, template, parent.Certificate, key, parent.key)
	return made
}

func (a *authority) issue(t testing.TB, subject pkix.Name) *x509.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return sign(t, &x509.Certificate{Subject: subject, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}, a.Certificate, key, a.key)
}

func sign(t testing.TB, template, parent *x509.Certificate, key, parentKey crypto.Signer) *x509.Certificate {
	t.Helper()
	template.SerialNumber = big.NewInt(time.Now().UnixNano())
	template.NotBefore, template.NotAfter = time.Now().Add(-time.Minute), time.Now().Add(time.Hour)
	raw, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), parentKey)
	if err != nil {
		t.Fatal(err)
	}
	c, err := x509.ParseCertificate(raw)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// bundle is a Bundle of the tests.
type bundle struct{ content []byte }

func (b *bundle) CurrentCABundleContent() []byte { return b.content }

func bundleOf(authorities ...*authority) *bundle {
	var b bytes.Buffer
	for _, a := range authorities {
		_ = pem.Encode(&b, &pem.Block{Type: "CERTIFICATE", Bytes: a.Raw})
	}
	return &bundle{b.Bytes()}
}

func requestWith(chain ...*x509.Certificate) *http.Request {
	return &http.Request{TLS: &tls.ConnectionState{PeerCertificates: chain}}
}

func TestAuthorities(t *testing.T) {
	root := newAuthority(t, "root", nil)
	clients, system := newAuthority(t, "clients", root), newAuthority(t, "system", root)
	// The clients' authority as the root had certified it another time.
	clientsBefore := certify(t, "clients", clients.key, root)
	beneath := newAuthority(t, "beneath", clients)
	stranger := newAuthority(t, "clients", nil)
	user := pkix.Name{CommonName: "u", Organization: []string{"tenant:a"}}
	admin := pkix.Name{CommonName: "u", Organization: []string{"tenant:system"}}
	node := pkix.Name{CommonName: "system:node:n", Organization: []string{"system:nodes"}}

	type outcome int
	const (
		unknown outcome = iota // somebody else may know the certificate
		refused
		accepted
	)
	for name, tc := range map[string]struct {
		clients, system *bundle
		chain           []*x509.Certificate
		want            outcome
	}{
		"one bundle, user":           {bundleOf(clients), nil, []*x509.Certificate{clients.issue(t, user)}, accepted},
		"one bundle, system":         {bundleOf(clients), nil, []*x509.Certificate{clients.issue(t, admin)}, accepted},
		"one bundle, stranger":       {bundleOf(clients), nil, []*x509.Certificate{stranger.issue(t, admin)}, unknown},
		"user of a tenant":           {bundleOf(clients), bundleOf(system), []*x509.Certificate{clients.issue(t, user)}, accepted},
		"clients say system":         {bundleOf(clients), bundleOf(system), []*x509.Certificate{clients.issue(t, admin)}, refused},
		"clients say node":           {bundleOf(clients), bundleOf(system), []*x509.Certificate{clients.issue(t, node)}, refused},
		"system":                     {bundleOf(clients), bundleOf(system), []*x509.Certificate{system.issue(t, admin)}, accepted},
		"system says node":           {bundleOf(clients), bundleOf(system), []*x509.Certificate{system.issue(t, node)}, accepted},
		"system issues users too":    {bundleOf(clients), bundleOf(system), []*x509.Certificate{system.issue(t, user)}, accepted},
		"system alone":               {nil, bundleOf(system), []*x509.Certificate{system.issue(t, admin)}, accepted},
		"system alone, clients":      {nil, bundleOf(system), []*x509.Certificate{clients.issue(t, user)}, unknown},
		"clients below system":       {bundleOf(clients), bundleOf(root), []*x509.Certificate{clients.issue(t, admin), clients.Certificate}, refused},
		"clients' other certificate": {bundleOf(clients), bundleOf(root), []*x509.Certificate{clients.issue(t, admin), clientsBefore.Certificate}, refused},
		"two below system":           {bundleOf(clients), bundleOf(root), []*x509.Certificate{beneath.issue(t, admin), beneath.Certificate, clients.Certificate}, refused},
		"user two below system":      {bundleOf(clients), bundleOf(root), []*x509.Certificate{beneath.issue(t, user), beneath.Certificate, clients.Certificate}, accepted},
		"system below clients":       {bundleOf(root), bundleOf(system), []*x509.Certificate{system.issue(t, admin), system.Certificate}, accepted},
		"the root of both":           {bundleOf(root), bundleOf(system), []*x509.Certificate{root.issue(t, admin)}, refused},
		"no certificate":             {bundleOf(clients), bundleOf(system), nil, unknown},
	} {
		t.Run(name, func(t *testing.T) {
			var c, s Bundle
			if tc.clients != nil {
				c = tc.clients
			}
			if tc.system != nil {
				s = tc.system
			}
			a, err := New(c, s)
			if err != nil {
				t.Fatal(err)
			}
			response, ok, err := a.AuthenticateRequest(requestWith(tc.chain...))
			got := unknown
			switch {
			case ok:
				got = accepted
			case errors.Is(err, identity.ErrRefused):
				got = refused
			}
			if got != tc.want {
				t.Errorf("outcome %d, want %d: %v, %v", got, tc.want, response, err)
			}
		})
	}
}

func TestAuthoritiesOverlap(t *testing.T) {
	one, other := newAuthority(t, "one", nil), newAuthority(t, "other", nil)
	if _, err := New(bundleOf(one, other), bundleOf(other)); err == nil || !strings.Contains(err.Error(), "--system-client-ca-file") {
		t.Errorf("error %v", err)
	}
	if _, err := New(&bundle{[]byte("no certificate")}, nil); err == nil || !strings.Contains(err.Error(), "--client-ca-file") {
		t.Errorf("error %v", err)
	}
}

func TestAuthoritiesReload(t *testing.T) {
	before, after := newAuthority(t, "before", nil), newAuthority(t, "after", nil)
	request := requestWith(after.issue(t, pkix.Name{CommonName: "u", Organization: []string{"tenant:a"}}))
	clients := bundleOf(before)
	a, err := New(clients, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, ok, _ := a.AuthenticateRequest(request); ok {
		t.Fatal("a stranger was accepted")
	}
	clients.content = bundleOf(after).content
	response, ok, err := a.AuthenticateRequest(request)
	if err != nil || !ok {
		t.Fatalf("not accepted: %v", err)
	}
	if n, err := tenant.OfUser(response.User); err != nil || n != "a" {
		t.Errorf("tenant %q, %v", n, err)
	}
	clients.content = []byte("broken")
	if _, ok, _ := a.AuthenticateRequest(request); ok {
		t.Error("accepted by a broken bundle")
	}
}

// TestSystemAuthoritiesReload checks what the authorities of system users may do when a
// bundle changes to what the server would not start with.
func TestSystemAuthoritiesReload(t *testing.T) {
	users, admins := newAuthority(t, "users", nil), newAuthority(t, "admins", nil)
	request := requestWith(admins.issue(t, pkix.Name{CommonName: "u", Organization: []string{"tenant:system"}}))
	for name, change := range map[string]func(clients, system *bundle){
		"it is also one of the clients'": func(clients, _ *bundle) { clients.content = bundleOf(users, admins).content },
		"the system's bundle is broken":  func(_, system *bundle) { system.content = []byte("broken") },
		"the system's bundle is broken in part": func(_, system *bundle) {
			system.content = append(system.content, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte("broken")})...)
		},
		"the clients' bundle is broken":         func(clients, _ *bundle) { clients.content = []byte("broken") },
		"the system's has changed, not in size": func(_, system *bundle) { system.content = bytes.Repeat([]byte("x"), len(system.content)) },
	} {
		t.Run(name, func(t *testing.T) {
			clients, system := bundleOf(users), bundleOf(admins)
			a, err := New(clients, system)
			if err != nil {
				t.Fatal(err)
			}
			if _, ok, err := a.AuthenticateRequest(request); err != nil || !ok {
				t.Fatalf("not accepted: %v", err)
			}
			change(clients, system)
			if response, ok, _ := a.AuthenticateRequest(request); ok {
				t.Errorf("accepted as %v", response.User)
			}
			if response, ok, _ := a.user([]*x509.Certificate{request.TLS.PeerCertificates[0], admins.Certificate}); ok {
				t.Errorf("accepted, verified before, as %v", response.User)
			}
		})
	}
}

// BenchmarkAuthenticate compares with upstream's authenticator, which verifies
// the same signature.
func BenchmarkAuthenticate(b *testing.B) {
	clients, system := newAuthority(b, "clients", nil), newAuthority(b, "system", nil)
	request := requestWith(clients.issue(b, pkix.Name{CommonName: "u", Organization: []string{"tenant:a"}, OrganizationalUnit: []string{"g"}}))
	a, err := New(bundleOf(clients), bundleOf(system))
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, ok, err := a.AuthenticateRequest(request); err != nil || !ok {
			b.Fatal(err)
		}
	}
}
