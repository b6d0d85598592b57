package signing

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"errors"
	"fmt"
	"slices"
	"strings"

	certificatesv1 "k8s.io/api/certificates/v1"

	"github.com/tenantry/tenantry/internal/pki"
	"github.com/tenantry/tenantry/internal/server/authentication/identity"
	"github.com/tenantry/tenantry/internal/tenant"
)

const (
	systemPrefix = "system:"
	tenantPrefix = "tenant:"
	minRSABits   = 2048
	maxRSABits   = 8192
)

var (
	commonName   = asn1.ObjectIdentifier{2, 5, 4, 3}
	organization = asn1.ObjectIdentifier{2, 5, 4, 10}
)

// subjectIn returns the subject of a user's certificate in the space of n, or why the
// request is refused. As in Kubernetes, the common name of the request is the user and its
// organizations are the groups. The certificate has them where Tenantry looks for them:
// CN=user, O=tenant:{n}, OU=groups.
func subjectIn(n tenant.Name, request *x509.CertificateRequest) (pkix.Name, error) {
	if len(request.Extensions) > 0 {
		return pkix.Name{}, errors.New("the request has extensions, such as other names; a user's certificate has none: leave them out")
	}
	names := 0
	for _, attribute := range request.Subject.Names {
		switch {
		case attribute.Type.Equal(commonName):
			names++
		case !attribute.Type.Equal(organization):
			return pkix.Name{}, errors.New("the subject may have a common name, the user, and organizations, its groups, and nothing else")
		}
	}
	user, groups := request.Subject.CommonName, request.Subject.Organization
	switch {
	case names != 1 || user == "":
		return pkix.Name{}, errors.New("the subject needs one common name, the name of the user")
	case strings.HasPrefix(user, systemPrefix):
		return pkix.Name{}, fmt.Errorf("the user's name %q begins with %q, which is for the components of Kubernetes", user, systemPrefix)
	case identity.IsKeystone(user):
		return pkix.Name{}, fmt.Errorf("the user's name %q begins with %q, which is for users of Keystone", user, identity.KeystonePrefix)
	}
	for _, group := range groups {
		if err := pki.CheckGroup(group); err != nil {
			return pkix.Name{}, fmt.Errorf("an organization is a group: %w", err)
		}
	}
	return pkix.Name{CommonName: user, Organization: []string{tenantPrefix + n.String()}, OrganizationalUnit: groups}, nil
}

// checkUsages refuses what upstream's signer refuses.
func checkUsages(usages []certificatesv1.KeyUsage) error {
	for _, usage := range usages {
		switch usage {
		case certificatesv1.UsageClientAuth, certificatesv1.UsageDigitalSignature, certificatesv1.UsageKeyEncipherment:
		default:
			return fmt.Errorf("usage %q is not one of a client's certificate: %q, %q or %q",
				usage, certificatesv1.UsageClientAuth, certificatesv1.UsageDigitalSignature, certificatesv1.UsageKeyEncipherment)
		}
	}
	if !slices.Contains(usages, certificatesv1.UsageClientAuth) {
		return fmt.Errorf("usage %q is missing", certificatesv1.UsageClientAuth)
	}
	return nil
}

// checkKey refuses keys that are weak, or costly to verify at each connection.
func checkKey(key any) error {
	switch key := key.(type) {
	case *rsa.PublicKey:
		if bits := key.N.BitLen(); bits < minRSABits || bits > maxRSABits {
			return fmt.Errorf("an RSA key has %d to %d bits, not %d", minRSABits, maxRSABits, bits)
		}
		return nil
	case *ecdsa.PublicKey:
		if key.Curve == elliptic.P256() || key.Curve == elliptic.P384() || key.Curve == elliptic.P521() {
			return nil
		}
	case ed25519.PublicKey:
		return nil
	}
	return errors.New("the key must be RSA, ECDSA (P-256, P-384 or P-521) or Ed25519")
}
