package translate

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/asn1"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/tenantry/tenantry/api/v1alpha1"
	"github.com/tenantry/tenantry/internal/bounds"
)

const (
	// CertificateRules is another one whenever hosts get something else of certificates, so that those that are there
	// are looked at again.
	CertificateRules = 2
	// maxChain and maxKey are how long a chain of certificates, and a key, may be on a host, in bytes of PEM.
	maxChain = 64 << 10
	maxKey   = 16 << 10
	// minRSABits is how long keys of RSA are that OpenSSL takes by itself.
	minRSABits = 2048
	// certificateBlock is the type of certificates in PEM.
	certificateBlock = "CERTIFICATE"
)

// signatures are those of certificates that OpenSSL takes by itself.
var signatures = []x509.SignatureAlgorithm{
	x509.SHA256WithRSA, x509.SHA384WithRSA, x509.SHA512WithRSA, x509.SHA256WithRSAPSS, x509.SHA384WithRSAPSS, x509.SHA512WithRSAPSS,
	x509.ECDSAWithSHA256, x509.ECDSAWithSHA384, x509.ECDSAWithSHA512,
}

// Certificate returns what the host has of a Secret with a certificate and its key, in PEM. Some controllers present a
// certificate to whoever asks for a name that is in it, whichever Ingress names its Secret: so it must be for names
// that the tenant has, and for no other. Some do not begin any more, for any tenant, with one that their library does
// not load: so the key must be that of the certificate, and both such as any library loads. What is returned is written
// anew: nobody reads in it what was not looked at.
func (r Rules) Certificate(data map[string][]byte) (map[string][]byte, error) {
	chain, err := r.chain(data[corev1.TLSCertKey])
	if err != nil {
		return nil, err
	}
	key, err := privateKey(chain, data[corev1.TLSPrivateKeyKey])
	if err != nil {
		return nil, err
	}
	return map[string][]byte{corev1.TLSCertKey: chain, corev1.TLSPrivateKeyKey: key}, nil
}

// chain returns a certificate for names of the tenant, with those that vouch for it.
func (r Rules) chain(text []byte) ([]byte, error) {
	if len(text) > maxChain {
		return nil, fmt.Errorf("its tls.crt has more than %d bytes", maxChain)
	}
	var chain []byte
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		certificate, err := x509.ParseCertificate(block.Bytes)
		if err != nil || block.Type != certificateBlock {
			return nil, errors.New("its tls.crt has something else than certificates")
		}
		if len(chain) > 0 && isRoot(certificate) {
			continue // who trusts it has it, and old ones are signed as nobody may sign any more
		}
		if err := errors.Join(checkEncoding(certificate), checkLoads(certificate)); err != nil {
			return nil, err
		}
		if len(chain) == 0 {
			if err := r.checkNames(certificate); err != nil {
				return nil, err
			}
		}
		chain = append(chain, pem.EncodeToMemory(&pem.Block{Type: certificateBlock, Bytes: block.Bytes})...)
	}
	if len(chain) == 0 {
		return nil, errors.New("its tls.crt has no certificate")
	}
	return chain, nil
}

// isRoot reports whether nobody but itself vouches for a certificate.
func isRoot(c *x509.Certificate) bool {
	return bytes.Equal(c.RawSubject, c.RawIssuer) && (len(c.AuthorityKeyId) == 0 || bytes.Equal(c.AuthorityKeyId, c.SubjectKeyId))
}

// checkLoads returns an error if there are libraries that do not load a certificate because of its key or signature.
func checkLoads(certificate *x509.Certificate) error {
	fits := false
	switch key := certificate.PublicKey.(type) {
	case *rsa.PublicKey:
		fits = key.N.BitLen() >= minRSABits
	case *ecdsa.PublicKey:
		fits = key.Curve != elliptic.P224()
	}
	if !fits {
		return fmt.Errorf("its tls.crt has a certificate with another key than one of RSA of at least %d bits, or of ECDSA with the curve P-256, P-384 or P-521; make one of these", minRSABits)
	}
	if len(certificate.UnhandledCriticalExtensions) > 0 {
		return fmt.Errorf("its tls.crt has a certificate with the critical extension %s, which not all programs know", certificate.UnhandledCriticalExtensions[0])
	}
	if err := bounds.PublicKey(certificate.PublicKey); err != nil {
		return fmt.Errorf("its tls.crt has a certificate that is not taken: %w", err)
	}
	if !slices.Contains(signatures, certificate.SignatureAlgorithm) {
		return fmt.Errorf("its tls.crt has a certificate that is signed by %v; have it signed by RSA or ECDSA with SHA-256, SHA-384 or SHA-512", certificate.SignatureAlgorithm)
	}
	return nil
}

// privateKey returns the key of a chain of certificates, which is the first one in a text. Tools write parameters of
// curves before it.
func privateKey(chain, text []byte) ([]byte, error) {
	if len(text) > maxKey {
		return nil, fmt.Errorf("its tls.key has more than %d bytes", maxKey)
	}
	pair, err := tls.X509KeyPair(chain, text)
	if err != nil { // which quotes what is in there
		return nil, errors.New("its tls.key has no private key of the certificate, or one that needs a passphrase")
	}
	if key, ok := pair.PrivateKey.(*rsa.PrivateKey); ok && len(key.Primes) != 2 {
		return nil, errors.New("its tls.key has a private key with more than two primes; make one with two")
	}
	written, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	if err != nil {
		return nil, fmt.Errorf("writing the private key of its tls.key: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: written}), nil
}

// oidCommonName is the type of common names (RFC 5280, appendix A.1).
var oidCommonName = asn1.ObjectIdentifier{2, 5, 4, 3}

// checkNames returns an error if a certificate is for what is not the tenant's. A common name that can be no host's is
// none. There may be several: controllers may look at any of them.
func (r Rules) checkNames(certificate *x509.Certificate) error {
	all := certificate.DNSNames
	for _, attribute := range certificate.Subject.Names {
		if common, ok := attribute.Value.(string); ok && attribute.Type.Equal(oidCommonName) && isHostName(common) {
			all = append(all, common)
		}
	}
	if len(all) == 0 {
		return errors.New("its certificate is for no host name")
	}
	for _, name := range all {
		if !v1alpha1.HasHostName(r.HostNames, plainName(name)) {
			return fmt.Errorf("its certificate is for %q, which is not one of the host names of this Tenant (%s)", name, oneOf(r.HostNames))
		}
	}
	if len(certificate.IPAddresses) > 0 {
		return errors.New("its certificate is for an IP address, which no Tenant has")
	}
	if len(certificate.EmailAddresses)+len(certificate.URIs) > 0 { // which some controllers compare with names of hosts
		return errors.New("its certificate is for an address of mail or a URI; have one made for names of hosts alone")
	}
	return nil
}

// plainName returns a name as it is compared.
func plainName(name string) string { return strings.TrimSuffix(strings.ToLower(name), ".") }

// otherLetters are those that names of hosts do not have, and that programs compare nevertheless: asterisks wherever,
// and underscores.
var otherLetters = strings.NewReplacer("*", "x", "_", "x")

// isHostName reports whether a name can be one of hosts to any program. Some read a name up to a NUL, and others trim
// it.
func isHostName(name string) bool {
	name, _, _ = strings.Cut(name, "\x00")
	name = strings.TrimFunc(name, func(r rune) bool { return r == '-' || unicode.IsSpace(r) || unicode.IsControl(r) })
	return len(validation.IsDNS1123Subdomain(otherLetters.Replace(plainName(name)))) == 0
}
