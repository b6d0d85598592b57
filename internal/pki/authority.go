package pki

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"time"

	"k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"

	"github.com/tenantry/tenantry/internal/atomicfile"
)

// Authority is a certificate authority with its key.
type Authority struct {
	// File and KeyFile are where its certificate and its key lie.
	File, KeyFile string
	cert          *x509.Certificate
	key           crypto.Signer
	// others are further certificates in the file: those of an earlier authority, whose
	// certificates are still good.
	others []*x509.Certificate
}

// PEM returns the authority's certificate, and those that its file has behind it.
func (a *Authority) PEM() []byte {
	bundle := encodeCertificate(a.cert.Raw)
	for _, other := range a.others {
		bundle = append(bundle, encodeCertificate(other.Raw)...)
	}
	return bundle
}

// KeyPEM returns the authority's key.
func (a *Authority) KeyPEM() ([]byte, error) { return keyutil.MarshalPrivateKeyToPEM(a.key) }

// ensureAuthority loads the authority name in dir, or makes it. A key without
// certificate is what a crash of the first start leaves; it is used.
func ensureAuthority(dir, name, commonName string) (*Authority, error) {
	base := filepath.Join(dir, name)
	if _, err := os.Stat(base + ".crt"); err == nil {
		return loadAuthority(dir, name)
	} else if !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("reading a certificate authority: %w", err)
	}
	key, err := ensureKey(base + ".key")
	if err != nil {
		return nil, err
	}
	a, err := newAuthority(commonName, key)
	if err != nil {
		return nil, fmt.Errorf("creating certificate authority %s: %w", name, err)
	}
	if err := atomicfile.Write(base+".crt", a.PEM()); err != nil {
		return nil, fmt.Errorf("writing certificate authority %s: %w", name, err)
	}
	return loadAuthority(dir, name)
}

// NewAuthority makes an authority that lies in no file.
func NewAuthority(commonName string) (*Authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	return newAuthority(commonName, key)
}

func newAuthority(commonName string, key crypto.Signer) (*Authority, error) {
	template := &x509.Certificate{
		Subject:               pkix.Name{CommonName: commonName},
		NotAfter:              time.Now().Add(authorityLifetime),
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		BasicConstraintsValid: true,
		IsCA:                  true,
	}
	raw, err := sign(template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	c, err := x509.ParseCertificate(raw)
	return &Authority{cert: c, key: key}, err
}

// loadAuthority reads the authority name in dir.
func loadAuthority(dir, name string) (*Authority, error) {
	base := filepath.Join(dir, name)
	all, err := loadCertificates(base + ".crt")
	if err != nil {
		return nil, err
	}
	key, err := loadKey(base + ".key")
	if err != nil {
		return nil, err
	}
	a, err := checkAuthority(base, all, key)
	if err != nil {
		return nil, err
	}
	a.File, a.KeyFile = base+".crt", base+".key"
	return a, nil
}

// ParseAuthority returns an authority that lies in no file. Errors call its certificate
// name.crt and its key name.key.
func ParseAuthority(name string, certPEM, keyPEM []byte) (*Authority, error) {
	all, err := parseCertificates(name+".crt", certPEM)
	if err != nil {
		return nil, err
	}
	key, err := parseKey(name+".key", keyPEM)
	if err != nil {
		return nil, err
	}
	return checkAuthority(name, all, key)
}

// checkAuthority returns the authority of a key and of its certificate, the first of all.
func checkAuthority(base string, all []*x509.Certificate, key crypto.Signer) (*Authority, error) {
	c := all[0]
	if !sameKey(c, key) {
		return nil, fmt.Errorf("%s.crt and %s.key do not belong together: restore the pair", base, base)
	}
	if !c.IsCA {
		return nil, fmt.Errorf("%s.crt is not the certificate of an authority", base)
	}
	if now := time.Now(); now.After(c.NotAfter) {
		return nil, fmt.Errorf("certificate authority %s.crt expired on %s: move it and its key away to have a new one made, and hand out new kubeconfigs", base, c.NotAfter.Format(time.DateOnly))
	} else if now.Before(c.NotBefore) {
		return nil, fmt.Errorf("certificate authority %s.crt is valid only from %s on: is the clock right?", base, c.NotBefore.Format(time.DateTime))
	}
	return &Authority{cert: c, key: key, others: all[1:]}, nil
}

// ensureLeaf makes base.crt and base.key unless they fit the template already.
func (a *Authority) ensureLeaf(base string, template *x509.Certificate) error {
	current, err := loadCertificates(base + ".crt")
	switch {
	case errors.Is(err, os.ErrNotExist):
	case err != nil:
		return err
	default:
		key, err := loadKey(base + ".key")
		if err != nil {
			return err
		}
		if sameKey(current[0], key) && a.fits(current[0], template, renewBefore) {
			return nil
		}
	}
	certPEM, key, err := a.Issue(template)
	if err != nil {
		return fmt.Errorf("creating certificate %s.crt: %w", base, err)
	}
	// The key goes first: a crash in between leaves a pair that does not match,
	// which the next start replaces.
	if err := atomicfile.Write(base+".key", key); err != nil {
		return fmt.Errorf("writing key: %w", err)
	}
	if err := atomicfile.Write(base+".crt", certPEM); err != nil {
		return fmt.Errorf("writing certificate: %w", err)
	}
	return nil
}

// Fits reports whether a certificate and its key, both as PEM, are what Issue makes of
// template, and last for longer than left.
func (a *Authority) Fits(certPEM, keyPEM []byte, template *x509.Certificate, left time.Duration) bool {
	all, err := parseCertificates("", certPEM)
	if err != nil {
		return false
	}
	key, err := parseKey("", keyPEM)
	return err == nil && sameKey(all[0], key) && a.fits(all[0], template, left)
}

// fits reports whether c is of this authority, says what template says, and
// lasts for longer than left.
func (a *Authority) fits(c, template *x509.Certificate, left time.Duration) bool {
	return c.CheckSignatureFrom(a.cert) == nil &&
		time.Until(c.NotAfter) > left &&
		time.Now().After(c.NotBefore) &&
		subject(c) == subject(template) &&
		slices.Equal(c.DNSNames, template.DNSNames) &&
		slices.EqualFunc(c.IPAddresses, template.IPAddresses, net.IP.Equal)
}

// subject is of whom c is, its units sorted: they are a set, and DER sorts them by its own order.
func subject(c *x509.Certificate) string {
	sorted := c.Subject
	sorted.OrganizationalUnit = slices.Sorted(slices.Values(sorted.OrganizationalUnit))
	return sorted.String()
}

// Issue signs a new key for template, for a year unless that says otherwise, and returns
// both as PEM.
func (a *Authority) Issue(template *x509.Certificate) (certPEM, keyPEM []byte, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	if template.NotAfter.IsZero() {
		template.NotAfter = time.Now().Add(leafLifetime)
	}
	if template.NotAfter.After(a.cert.NotAfter) {
		template.NotAfter = a.cert.NotAfter
	}
	template.KeyUsage = x509.KeyUsageDigitalSignature
	raw, err := sign(template, a.cert, key.Public(), a.key)
	if err != nil {
		return nil, nil, err
	}
	keyPEM, err = keyutil.MarshalPrivateKeyToPEM(key)
	return encodeCertificate(raw), keyPEM, err
}

// sign fills in what all certificates here have in common.
func sign(template, parent *x509.Certificate, public crypto.PublicKey, key crypto.Signer) ([]byte, error) {
	if template.NotBefore.IsZero() {
		template.NotBefore = time.Now().Add(-time.Minute) // clocks differ a little
	}
	return x509.CreateCertificate(rand.Reader, template, parent, public, key)
}

func sameKey(c *x509.Certificate, key crypto.Signer) bool {
	public, ok := c.PublicKey.(interface{ Equal(crypto.PublicKey) bool })
	return ok && public.Equal(key.Public())
}

// ensureKey returns the key at path, which it makes if there is none.
func ensureKey(path string) (crypto.Signer, error) {
	key, err := loadKey(path)
	if !errors.Is(err, os.ErrNotExist) {
		return key, err
	}
	data, err := keyutil.MakeEllipticPrivateKeyPEM()
	if err != nil {
		return nil, fmt.Errorf("creating key: %w", err)
	}
	if err := atomicfile.Write(path, data); err != nil {
		return nil, fmt.Errorf("writing key: %w", err)
	}
	return loadKey(path)
}

func loadKey(path string) (crypto.Signer, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading a key: %w", err)
	}
	return parseKey(path, data)
}

func parseKey(path string, data []byte) (crypto.Signer, error) {
	parsed, err := keyutil.ParsePrivateKeyPEM(data)
	if err != nil {
		return nil, fmt.Errorf("%s holds no private key: restore it", path)
	}
	key, ok := parsed.(crypto.Signer)
	if !ok {
		return nil, fmt.Errorf("%s holds a key of an unsupported type", path)
	}
	return key, nil
}

// loadCertificates returns the certificates in a file, of which there is one at least.
func loadCertificates(path string) ([]*x509.Certificate, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading a certificate: %w", err)
	}
	return parseCertificates(path, data)
}

func parseCertificates(path string, data []byte) ([]*x509.Certificate, error) {
	all, err := cert.ParseCertsPEM(data)
	if err != nil {
		return nil, fmt.Errorf("%s holds no certificate: restore it (%w)", path, err)
	}
	return all, nil
}
