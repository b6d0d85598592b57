package credential

import (
	"cmp"
	"fmt"
	"net/url"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/tokens"
)

// Ways to log in, by the secrets that they need. A password and a passcode together are
// for users who need both.
const (
	byPassword   = "password"
	byPasscode   = "totp"
	byBoth       = "multifactor"
	byToken      = "token"
	byCredential = "applicationcredential"
)

// secrets are the settings with the secrets of each way.
var secrets = map[string][]string{
	byPassword:   {"password"},
	byPasscode:   {"passcode"},
	byBoth:       {"password", "passcode"},
	byToken:      {"token"},
	byCredential: {"application_credential_secret"},
}

// login is a log-in that can be tried, but for secrets that are not there yet.
type login struct {
	cloud
	url     string
	method  string
	options tokens.AuthOptions
}

// newLogin checks a cloud.
func newLogin(c cloud) (*login, error) {
	l := &login{cloud: c}
	for _, step := range []func() error{l.findURL, l.findMethod, l.findUser, l.findScope} {
		if err := step(); err != nil {
			return nil, err
		}
	}
	// A passcode is for one log-in, so no cloud has one.
	if c.get("passcode") == "" && slices.Contains(secrets[l.method], "passcode") {
		c.settings["passcode"] = os.Getenv("OS_PASSCODE")
	}
	return l, nil
}

// findURL settles where version 3 of the API is.
func (l *login) findURL() error {
	value, field := l.get("auth_url"), l.name("auth_url")
	if value == "" {
		return l.errorf("%s is missing: set it to the URL of Keystone, such as https://keystone.example.com/v3", field)
	}
	u, err := url.Parse(value)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return l.errorf("%s is not of the form https://HOST/v3, without user and query", field)
	}
	switch root, version := path.Split(strings.TrimRight(u.Path, "/")); version {
	case "v3":
		u.Path = root
	case "v2.0":
		return l.errorf("%s ends in /v2.0: only version 3 of the API is supported, /v3", field)
	}
	l.url = u.JoinPath("v3").String()
	return nil
}

func (l *login) findMethod() error {
	switch given := strings.TrimPrefix(strings.ReplaceAll(l.get("auth_type"), "_", ""), "v3"); {
	case secrets[given] != nil:
		l.method = given
	case given != "":
		return l.errorf("%s is %q, and must be password, token, applicationcredential, totp or multifactor: log in otherwise, and set %s to the token",
			l.name("auth_type"), l.get("auth_type"), l.name("token"))
	case cmp.Or(l.get("application_credential_id"), l.get("application_credential_name")) != "":
		l.method = byCredential
	case l.get("token") != "" && l.get("password") == "":
		l.method = byToken
	case l.get("passcode") != "" && l.get("password") != "":
		l.method = byBoth
	case l.get("passcode") != "":
		l.method = byPasscode
	default:
		l.method = byPassword
	}
	return nil
}

// findUser settles who logs in.
func (l *login) findUser() error {
	o := &l.options
	if l.method == byToken {
		return nil
	}
	if l.method == byCredential {
		o.ApplicationCredentialID, o.ApplicationCredentialName = l.get("application_credential_id"), l.get("application_credential_name")
		if o.ApplicationCredentialID != "" {
			return nil
		}
		if o.ApplicationCredentialName == "" {
			return l.errorf("%s is missing, or %s and its user", l.name("application_credential_id"), l.name("application_credential_name"))
		}
	}
	o.UserID, o.Username = l.get("user_id"), l.get("username")
	if o.UserID != "" {
		return nil
	}
	if o.Username == "" {
		return l.errorf("%s is missing, or %s: who logs in?", l.name("username"), l.name("user_id"))
	}
	o.DomainID, o.DomainName = l.get("user_domain_id"), l.get("user_domain_name")
	if o.DomainID == "" && o.DomainName == "" {
		return l.errorf("%s is missing, or %s: names of users are unique in a domain only", l.name("user_domain_name"), l.name("user_domain_id"))
	}
	return nil
}

// findScope settles what the token is for. Without a scope it is for the user's default
// project, or for nothing.
func (l *login) findScope() error {
	var given []string
	for _, scope := range scopes {
		if i := slices.IndexFunc(scope, func(name string) bool { return l.get(name) != "" }); i >= 0 {
			given = append(given, l.name(scope[i]))
		}
	}
	if l.method == byCredential && len(given) > 0 {
		return l.errorf("%s does not go with an application credential, which is for the project that it was made in: remove it", given[0])
	}
	if len(given) > 1 {
		return l.errorf("%s exclude each other, since a token is for one of them: remove all but one", strings.Join(given, " and "))
	}
	s := &l.options.Scope
	switch scope := l.get("system_scope"); scope {
	case "", "all":
		s.System = scope != ""
	default:
		return l.errorf("%s is %q, and must be all", l.name("system_scope"), scope)
	}
	s.TrustID, s.ProjectID, s.ProjectName = l.get("trust_id"), l.get("project_id"), l.get("project_name")
	s.DomainID, s.DomainName = l.get("domain_id"), l.get("domain_name")
	if s.ProjectName != "" {
		s.DomainID, s.DomainName = l.get("project_domain_id"), l.get("project_domain_name")
		if s.DomainID == "" && s.DomainName == "" {
			return l.errorf("%s is missing, or %s: names of projects are unique in a domain only", l.name("project_domain_name"), l.name("project_domain_id"))
		}
	}
	return nil
}

// who returns the user for messages.
func (l *login) who() string {
	switch o := l.options; {
	case l.method == byToken:
		return "the owner of the token"
	case o.ApplicationCredentialID != "":
		return fmt.Sprintf("application credential %q", o.ApplicationCredentialID)
	case o.ApplicationCredentialName != "":
		return fmt.Sprintf("application credential %q of user %q", o.ApplicationCredentialName, cmp.Or(o.Username, o.UserID))
	default:
		return fmt.Sprintf("user %q", cmp.Or(o.Username, o.UserID))
	}
}

// missing returns the secrets that are not there.
func (l *login) missing() []string {
	return slices.DeleteFunc(slices.Clone(secrets[l.method]), func(name string) bool { return l.get(name) != "" })
}

// withSecrets returns the options with the secrets of the method, and no others: stray variables
// are not sent.
func (l *login) withSecrets() *tokens.AuthOptions {
	o := l.options
	for _, name := range secrets[l.method] {
		switch value := l.get(name); name {
		case "password":
			o.Password = value
		case "passcode":
			o.Passcode = value
		case "token":
			o.TokenID = value
		default:
			o.ApplicationCredentialSecret = value
		}
	}
	return &o
}
