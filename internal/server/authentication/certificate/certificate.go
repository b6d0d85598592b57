package certificate

import (
	"crypto/x509"
	"strings"

	"k8s.io/apiserver/pkg/authentication/authenticator"
	x509request "k8s.io/apiserver/pkg/authentication/request/x509"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/tenantry/tenantry/internal/server/authentication/identity"
	"github.com/tenantry/tenantry/internal/tenant"
)

// tenantOrganization begins the organization that names the tenant.
const tenantOrganization = "tenant:"

// userOf reads the two formats:
//
//	CN=user, O=tenant:{t}, OU=groups    the organizational units are groups
//	CN={t}:user, O=groups               the tenant ends at the first colon
//
// A common name without colon carries no tenant. The common name is always the
// user's name, so that bindings of the old format stay valid.
func userOf(chain []*x509.Certificate, maySystem bool) (*authenticator.Response, error) {
	subject := chain[0].Subject
	if subject.CommonName == "" {
		return nil, identity.Refuse("certificate has no common name")
	}
	response, ok, err := x509request.CommonNameUserConversion(chain)
	if err != nil || !ok {
		return nil, identity.Refuse("certificate of %q: %w", subject.CommonName, err)
	}
	u := &user.DefaultInfo{
		Name: response.User.GetName(), UID: response.User.GetUID(),
		Groups: subject.Organization, Extra: response.User.GetExtra(),
	}
	name, found := "", false
	for _, organization := range subject.Organization {
		named, ok := strings.CutPrefix(organization, tenantOrganization)
		if !ok {
			continue
		}
		if found {
			return nil, identity.Refuse("certificate of %q names more than one tenant", u.Name)
		}
		name, found = named, true
		u.Groups = subject.OrganizationalUnit
	}
	if !found {
		name, _, found = strings.Cut(u.Name, ":")
	}
	var n tenant.Name
	if found {
		if n, err = identity.ParseTenant(name, maySystem); err != nil {
			return nil, identity.Refuse("certificate of %q: %w", u.Name, err)
		}
	}
	if response.User, err = identity.New(u, n); err != nil {
		return nil, identity.Refuse("certificate of %q: %w", u.Name, err)
	}
	return response, nil
}
