package keystone

import (
	"strconv"
	"time"

	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/tenantry/tenantry/internal/keystone"
	"github.com/tenantry/tenantry/internal/server/authentication/identity"
)

// Keys of the extra, below identity.KeystoneExtra. They have what Keystone calls things,
// which is for people and audit logs: names are arbitrary, and change.
const (
	extraUserName        = identity.KeystoneExtra + "user-name"
	extraUserDomainID    = identity.KeystoneExtra + "user-domain-id"
	extraUserDomainName  = identity.KeystoneExtra + "user-domain-name"
	extraProjectID       = identity.KeystoneExtra + "project-id"
	extraProjectName     = identity.KeystoneExtra + "project-name"
	extraDomainID        = identity.KeystoneExtra + "domain-id"
	extraDomainName      = identity.KeystoneExtra + "domain-name"
	extraSystem          = identity.KeystoneExtra + "system"
	extraRoleNames       = identity.KeystoneExtra + "role-names"
	extraFederatedGroups = identity.KeystoneExtra + "federated-group-ids"
	extraCredentialID    = identity.KeystoneExtra + "application-credential-id"
	extraRestricted      = identity.KeystoneExtra + "application-credential-restricted"
	extraTrustID         = identity.KeystoneExtra + "trust-id"
	extraTrustee         = identity.KeystoneExtra + "trustee-user-id"
	extraAuditID         = identity.KeystoneExtra + "audit-id"
	// extraPassword is that of who has logged in here, whose groups are those of all projects.
	extraPassword = identity.KeystoneExtra + "password"
)

// maxRoles is the number of roles, and of federated groups, that a token may have.
const maxRoles = 256

// Identity is what a token says.
type Identity struct {
	// User has no tenant.
	User *user.DefaultInfo
	// DomainID is that of the token's scope, empty without one. It is never the user's:
	// users may have roles in other domains.
	DomainID string
	// System is whether the scope is the system.
	System   bool
	IssuedAt time.Time
}

// identityOf returns what a token says, or why it is refused.
func identityOf(t *keystone.Token, acceptTrusts bool) (*Identity, error) {
	if t.Trust != nil && t.Trust.Impersonation && !acceptTrusts {
		return nil, identity.Refuse("the token is by trust %q, which impersonates; the KeystoneConfiguration has trusts: Refuse", t.Trust.ID)
	}
	if len(t.Roles) > maxRoles || len(t.User.Federation.Groups) > maxRoles {
		return nil, identity.Refuse("the token has %d roles and %d federated groups, and may have %d of each",
			len(t.Roles), len(t.User.Federation.Groups), maxRoles)
	}
	found := &Identity{IssuedAt: t.IssuedAt, System: t.System.All}
	e := extra{}
	e.add(extraUserName, t.User.Name)
	e.add(extraUserDomainID, t.User.Domain.ID)
	e.add(extraUserDomainName, t.User.Domain.Name)
	scope := ""
	switch {
	case t.Project != nil:
		found.DomainID, scope = t.Project.Domain.ID, identity.KeystoneProject+t.Project.ID
		e.add(extraProjectID, t.Project.ID)
		e.add(extraProjectName, t.Project.Name)
		e.addRef(extraDomainID, extraDomainName, t.Project.Domain)
	case t.Domain != nil:
		found.DomainID, scope = t.Domain.ID, identity.KeystoneDomain+t.Domain.ID
		e.addRef(extraDomainID, extraDomainName, *t.Domain)
	case t.System.All:
		scope = identity.KeystoneSystem
		e.add(extraSystem, "all")
	}
	found.User = &user.DefaultInfo{Name: identity.KeystonePrefix + t.User.ID, UID: t.User.ID, Extra: e}
	for _, role := range t.Roles {
		if scope != "" {
			found.User.Groups = append(found.User.Groups, scope+":"+role.ID)
		}
		e.add(extraRoleNames, role.Name)
	}
	for _, group := range t.User.Federation.Groups {
		e.add(extraFederatedGroups, group.ID)
	}
	if credential := t.ApplicationCredential; credential != nil {
		e.add(extraCredentialID, credential.ID)
		e.add(extraRestricted, strconv.FormatBool(credential.Restricted))
	}
	if t.Trust != nil {
		e.add(extraTrustID, t.Trust.ID)
		e.add(extraTrustee, t.Trust.Trustee.ID)
	}
	if len(t.AuditIDs) > 0 { // the others are of the tokens that it was made from
		e.add(extraAuditID, t.AuditIDs[0])
	}
	return found, nil
}

type extra map[string][]string

// add adds a value as it may stand in logs and on terminals.
func (e extra) add(key, value string) {
	if value == "" {
		return
	}
	e[key] = append(e[key], keystone.Printable(value))
}

func (e extra) addRef(id, name string, ref keystone.Ref) {
	e.add(id, ref.ID)
	e.add(name, ref.Name)
}
