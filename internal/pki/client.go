package pki

import (
	"cmp"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"

	"github.com/tenantry/tenantry/internal/tenant"
)

// ClientCertificate issues a certificate, and its key, for a user of a tenant, both as
// PEM, valid for a year unless validity is another time. The subject is CN={user},
// O=tenant:{tenant}, OU={groups}.
func (p *PKI) ClientCertificate(validity time.Duration, t tenant.Name, user string, groups ...string) (certPEM, keyPEM []byte, err error) {
	if user == "" {
		return nil, nil, errors.New("a client certificate needs a user name")
	}
	template := clientTemplate(t, user, groups)
	// Not a minute ago: there may have been another tenant of this name then.
	template.NotBefore = time.Now()
	template.NotAfter = template.NotBefore.Add(cmp.Or(validity, leafLifetime))
	certPEM, keyPEM, err = p.ClientCA.Issue(template)
	if err != nil {
		return nil, nil, fmt.Errorf("signing a client certificate for %q of tenant %q: %w", user, t, err)
	}
	return certPEM, keyPEM, nil
}

// IsClientCertificate reports whether a certificate and its key, both as PEM, are what
// ClientCertificate issues for a user, and last for longer than left.
func (p *PKI) IsClientCertificate(certPEM, keyPEM []byte, left time.Duration, t tenant.Name, user string, groups ...string) bool {
	return p.ClientCA.Fits(certPEM, keyPEM, clientTemplate(t, user, groups), left)
}

func clientTemplate(t tenant.Name, user string, groups []string) *x509.Certificate {
	return &x509.Certificate{
		Subject: pkix.Name{
			CommonName:         user,
			Organization:       []string{"tenant:" + t.String()},
			OrganizationalUnit: groups,
		},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
}

// IsName reports whether somebody, or a group, can have a name: those with blanks around them or
// control characters are nobody's.
func IsName(name string) bool {
	return name == strings.TrimSpace(name) && !strings.ContainsFunc(name, unicode.IsControl)
}

// CheckGroup reports why a user of a tenant cannot have a group by a client certificate.
func CheckGroup(group string) error {
	const system, ofTenant, keystone = "system:", "tenant:", "keystone:"
	switch {
	case group == "":
		return errors.New("a group needs a name")
	case !IsName(group):
		return fmt.Errorf("group %q has blanks around it or control characters: nobody has such a group", group)
	case strings.HasPrefix(group, system):
		return fmt.Errorf("group %q begins with %q, which is for groups of Kubernetes", group, system)
	case strings.HasPrefix(group, keystone):
		return fmt.Errorf("group %q begins with %q, which is for groups of Keystone", group, keystone)
	case strings.HasPrefix(group, ofTenant):
		return fmt.Errorf("group %q names a tenant; a certificate has the one that it is issued for: leave it out", group)
	default:
		return nil
	}
}

func encodeCertificate(raw []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: raw})
}
