package certificate

import (
	"bytes"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"

	"k8s.io/apiserver/pkg/authentication/authenticator"
	x509request "k8s.io/apiserver/pkg/authentication/request/x509"
	"k8s.io/client-go/util/cert"

	"github.com/tenantry/tenantry/internal/server/authentication/identity"
)

// Bundle is a bundle of certificate authorities that may change while the server
// runs, like those of dynamiccertificates. Its content is not modified in place.
type Bundle interface {
	CurrentCABundleContent() []byte
}

// Authorities authenticates by client certificates of two bundles.
type Authorities struct {
	// clients issue users of tenants, and of the system tenant if system is nil.
	clients Bundle
	// system issues users of every tenant. Nil for none.
	system  Bundle
	current atomic.Pointer[trust]
	x509    *x509request.Authenticator
}

// trust is the content of both bundles at one time.
type trust struct {
	clients, system []byte
	options         x509.VerifyOptions
	// limited and full are the public keys of the authorities, because one
	// authority may have several certificates.
	limited, full map[string]bool
}

// New returns an authenticator by certificates. Either bundle may be nil.
func New(clients, system Bundle) (*Authorities, error) {
	a := &Authorities{clients: clients, system: system}
	a.x509 = x509request.NewDynamic(a.verifyOptions, x509request.UserConversionFunc(a.user))
	t, err := a.load()
	if err != nil {
		return nil, err
	}
	for key := range t.full {
		if t.limited[key] {
			return nil, errors.New("an authority of --client-ca-file is also one of those that may issue system users " +
				"(--system-client-ca-file; the client CA of \"tenantry up\"): take it out of one of them")
		}
	}
	return a, nil
}

// AuthenticateRequest implements authenticator.Request.
func (a *Authorities) AuthenticateRequest(req *http.Request) (*authenticator.Response, bool, error) {
	return a.x509.AuthenticateRequest(req)
}

func (a *Authorities) verifyOptions() (x509.VerifyOptions, bool) {
	t, err := a.load()
	if err != nil { // fail closed, without the previous bundles
		return x509.VerifyOptions{}, false
	}
	return t.options, true
}

// load returns the current bundles.
func (a *Authorities) load() (*trust, error) {
	clients, system := content(a.clients), content(a.system)
	if t := a.current.Load(); t != nil && bytes.Equal(t.clients, clients) && bytes.Equal(t.system, system) {
		return t, nil
	}
	t := &trust{clients: clients, system: system, options: x509request.DefaultVerifyOptions(),
		limited: make(map[string]bool), full: make(map[string]bool)}
	t.options.Roots = x509.NewCertPool()
	issuers := t.limited
	if a.system == nil {
		issuers = t.full
	}
	if err := t.add(clients, issuers); err != nil {
		return nil, fmt.Errorf("reading --client-ca-file: %w", err)
	}
	if err := t.add(system, t.full); err != nil {
		return nil, fmt.Errorf("reading --system-client-ca-file: %w", err)
	}
	a.current.Store(t)
	return t, nil
}

func (t *trust) add(bundle []byte, issuers map[string]bool) error {
	if len(bundle) == 0 {
		return nil
	}
	authorities, err := cert.ParseCertsPEM(bundle)
	for _, authority := range authorities {
		t.options.Roots.AddCert(authority)
		issuers[string(authority.RawSubjectPublicKeyInfo)] = true
	}
	return err
}

// user returns the user of a verified chain. The nearest authority of the chain decides
// which users are allowed, because one authority may have certified another.
func (a *Authorities) user(chain []*x509.Certificate) (*authenticator.Response, bool, error) {
	t, err := a.load()
	if err != nil {
		return nil, false, err
	}
	// The certificate of an authority itself is a chain of one.
	for _, authority := range chain[min(1, len(chain)-1):] {
		limited, full := t.limited[string(authority.RawSubjectPublicKeyInfo)], t.full[string(authority.RawSubjectPublicKeyInfo)]
		if limited || full {
			response, err := userOf(chain, full && !limited)
			return response, err == nil, err
		}
	}
	return nil, false, identity.Refuse("certificate of %q is of no authority of this server", chain[0].Subject.CommonName)
}

func content(b Bundle) []byte {
	if b == nil {
		return nil
	}
	return b.CurrentCABundleContent()
}
