package translate

import (
	"crypto/x509"
	"encoding/asn1"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"
	"unicode"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/tenantry/tenantry/api/v1alpha1"
)

const (
	// maxChain and maxKey are how long a chain of certificates, and a key, may be on a host, in bytes of PEM.
	maxChain = 64 << 10
	maxKey   = 16 << 10
	// certificateBlock is the type of certificates in PEM.
	certificateBlock = "CERTIFICATE"
	// keyBlocks ends the types of private keys.
	keyBlocks = "PRIVATE KEY"
)

// Certificate returns what the host has of a Secret with a certificate and its key, in PEM. Some controllers present a
// certificate to whoever asks for a name that is in it, whichever Ingress names its Secret: so it must be for names that the
// tenant has, and for no other. What is returned is written anew: nobody reads in it what was not looked at.
func (r Rules) Certificate(data map[string][]byte) (map[string][]byte, error) {
	chain, err := r.chain(data[corev1.TLSCertKey])
	if err != nil {
		return nil, err
	}
	key, err := privateKey(data[corev1.TLSPrivateKeyKey])
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

// privateKey returns the first private key. Tools write parameters of curves before it.
func privateKey(text []byte) ([]byte, error) {
	if len(text) > maxKey {
		return nil, fmt.Errorf("its tls.key has more than %d bytes", maxKey)
	}
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if strings.HasSuffix(block.Type, keyBlocks) {
			return pem.EncodeToMemory(&pem.Block{Type: block.Type, Bytes: block.Bytes}), nil
		}
	}
	return nil, errors.New("its tls.key has no private key")
}

// oidCommonName is the type of common names (RFC 5280, appendix A.1).
var oidCommonName = asn1.ObjectIdentifier{2, 5, 4, 3}

// checkNames returns an error if a certificate is for what is not the tenant's. A common name that can be no host's is none.
// There may be several: controllers may look at any of them.
func (r Rules) checkNames(certificate *x509.Certificate) error {
	all := certificate.DNSNames
	for _, attribute := range certificate.Subject.Names {
		if common, ok := attribute.Value.(string); ok && attribute.Type.Equal(oidCommonName) && isHostName(common) {
			all = append(all, common)
		}
	}
	for _, name := range all {
		if !v1alpha1.HasHostName(r.HostNames, plainName(name)) {
			return fmt.Errorf("its certificate is for %q, which is not one of the host names of this Tenant (%s)", name, oneOf(r.HostNames))
		}
	}
	if len(certificate.IPAddresses) > 0 {
		return errors.New("its certificate is for an IP address, which no Tenant has")
	}
	return nil
}

// plainName returns a name as it is compared.
func plainName(name string) string { return strings.TrimSuffix(strings.ToLower(name), ".") }

// otherLetters are those that names of hosts do not have, and that programs compare nevertheless: asterisks wherever, and underscores.
var otherLetters = strings.NewReplacer("*", "x", "_", "x")

// isHostName reports whether a name can be one of hosts to any program. Some read a name up to a NUL, and others trim it.
func isHostName(name string) bool {
	name, _, _ = strings.Cut(name, "\x00")
	name = strings.TrimFunc(name, func(r rune) bool { return r == '-' || unicode.IsSpace(r) || unicode.IsControl(r) })
	return len(validation.IsDNS1123Subdomain(otherLetters.Replace(plainName(name)))) == 0
}
