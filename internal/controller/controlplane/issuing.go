package controlplane

import (
	"crypto/x509"

	"github.com/tenantry/tenantry/internal/pki"
)

// issuing is how a certificate is to be.
type issuing struct {
	authority *pki.Authority
	template  *x509.Certificate
}

// renew returns a certificate and its key: the given ones for as long as they are good.
func (i issuing) renew(certPEM, keyPEM []byte) (newCert, newKey []byte, err error) {
	if i.authority.Fits(certPEM, keyPEM, i.template, servingLeft) {
		return certPEM, keyPEM, nil
	}
	return i.authority.Issue(i.template)
}
