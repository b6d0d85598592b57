package authentication

import (
	"crypto/x509"
	"fmt"
	"strings"

	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/tenantry/tenantry/internal/tenant"
)

// tenantOrganization begins the organization that names the tenant.
const tenantOrganization = "tenant:"

// userOfCertificate reads the two formats of arktos-access-control
// ("Certificate Authenticator"):
//
//	CN=user, O=tenant:{t}, OU=groups    the organizational units are groups
//	CN={t}:user, O=groups               the tenant ends at the first colon
//
// A common name without colon carries no tenant. The common name is the user's
// name in all of them, so that bindings of the old format stay valid.
func userOfCertificate(chain []*x509.Certificate) (*authenticator.Response, bool, error) {
	subject := chain[0].Subject
	if subject.CommonName == "" {
		return nil, false, fmt.Errorf("%w: certificate has no common name", errRejected)
	}
	u := &user.DefaultInfo{Name: subject.CommonName, Groups: subject.Organization}
	name, found := "", false
	for _, organization := range subject.Organization {
		named, ok := strings.CutPrefix(organization, tenantOrganization)
		if !ok {
			continue
		}
		if found {
			return nil, false, fmt.Errorf("%w: certificate of %q names more than one tenant", errRejected, subject.CommonName)
		}
		name, found = named, true
		u.Groups = subject.OrganizationalUnit
	}
	if !found {
		name, _, found = strings.Cut(subject.CommonName, ":")
	}
	if found {
		n, err := tenant.Parse(name)
		if err == nil && n == tenant.All {
			err = fmt.Errorf("%q is reserved", n)
		}
		if err == nil && n != tenant.System && strings.HasPrefix(u.Name, "system:") {
			err = fmt.Errorf("user names that begin with system: belong to the system tenant")
		}
		if err != nil {
			return nil, false, fmt.Errorf("%w: certificate of %q: %w", errRejected, subject.CommonName, err)
		}
		u.Extra = map[string][]string{tenant.UserExtraKey: {string(n)}}
	}
	return &authenticator.Response{User: u}, true, nil
}
