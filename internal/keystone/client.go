package keystone

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/config/clouds"
	"sigs.k8s.io/yaml"
)

// Config says where Keystone is and with which account it is asked.
type Config struct {
	// URL ends in /v3, or is that without it.
	URL string
	// CA is a bundle of certificates in PEM. Empty is the system's.
	CA []byte
	// Clouds and Secure are the contents of clouds.yaml and of secure.yaml, which may be
	// empty, and Cloud the name of an entry there.
	Clouds, Secure []byte
	Cloud          string
	// Timeout is for how long one answer is waited for.
	Timeout time.Duration
}

const (
	// maxAnswer bounds what is read of an answer, in bytes, and maxListed of one with a list,
	// which has some 400 for each object.
	maxAnswer, maxListed = 1 << 20, 256 << 20
	// loginPause is how long a log-in to which Keystone has said yes or no is not followed by
	// another: a wrong password would lock the account, and a rejected new token is not
	// mended by a newer one.
	loginPause = 5 * time.Second
)

// Client asks Keystone. It logs in when it is first used and when its token has ended.
type Client struct {
	provider *gophercloud.ProviderClient
	account  gophercloud.AuthOptions
	timeout  time.Duration

	mu       sync.Mutex
	loggedIn time.Time
	loginErr error
}

// New returns a client. It does not ask Keystone anything yet.
func New(config Config) (*Client, error) {
	account, err := accountOf(config)
	if err != nil {
		return nil, err
	}
	provider, err := openstack.NewClient(config.URL)
	if err != nil {
		return nil, fmt.Errorf("reading the URL of Keystone: %w", err)
	}
	transport, err := newTransport(config)
	if err != nil {
		return nil, err
	}
	provider.HTTPClient = http.Client{Timeout: config.Timeout, Transport: bounded{transport}, CheckRedirect: onHost}
	c := &Client{provider: provider, account: account, timeout: config.Timeout}
	provider.ReauthFunc = c.login
	return c, nil
}

// accountOf reads the account. The errors of the parser repeat values, so they are not
// passed on.
func accountOf(config Config) (gophercloud.AuthOptions, error) {
	account, _, _, err := clouds.Parse(clouds.WithCloudName(config.Cloud),
		clouds.WithCloudsYAML(bytes.NewReader(config.Clouds)), clouds.WithSecureYAML(bytes.NewReader(orEmpty(config.Secure))))
	if err != nil {
		return account, fmt.Errorf("cloud %q cannot be read from the clouds file: %s", config.Cloud, whyNot(config, err))
	}
	account.IdentityEndpoint = config.URL
	switch byPassword, byCredential := account.Password != "", account.ApplicationCredentialSecret != ""; {
	case byPassword == byCredential:
		return account, fmt.Errorf("cloud %q needs a user and its password, or an application credential and its secret, and not both", config.Cloud)
	case byPassword && account.Username == "" && account.UserID == "":
		return account, fmt.Errorf("cloud %q has a password but neither username nor user_id", config.Cloud)
	case byCredential && account.ApplicationCredentialID == "" && account.ApplicationCredentialName == "":
		return account, fmt.Errorf("cloud %q has application_credential_secret but neither application_credential_id nor _name", config.Cloud)
	case account.Username != "" && account.UserID == "" && account.ApplicationCredentialID == "" && account.DomainID == "" && account.DomainName == "":
		return account, fmt.Errorf("cloud %q has username without user_domain_name or user_domain_id: names of users are unique in a domain alone", config.Cloud)
	}
	scope := account
	if _, err := scope.ToTokenV3ScopeMap(); err != nil {
		return account, fmt.Errorf("cloud %q has a scope that Keystone cannot find: name a project by project_id, or by project_name with project_domain_id or _name; "+
			"a domain by domain_id or domain_name; or system_scope: all", config.Cloud)
	}
	return account, nil
}

var yamlLine = regexp.MustCompile(`line [0-9]+`)

// whyNot says what is wrong with the clouds files, without the values that are in err.
func whyNot(config Config, err error) string {
	var content struct {
		Clouds map[string]any `json:"clouds"`
	}
	for _, file := range []struct {
		name    string
		content []byte
	}{{"secure.yaml", orEmpty(config.Secure)}, {"it", config.Clouds}} {
		content.Clouds = nil
		if err := yaml.Unmarshal(file.content, &content); err != nil {
			return fmt.Sprintf("%s is not YAML with clouds below \"clouds\" (%s); YAML is not indented by tabs", file.name, cmp.Or(yamlLine.FindString(err.Error()), "its structure"))
		}
	}
	if content.Clouds[config.Cloud] == nil {
		return fmt.Sprintf("it has no such entry below \"clouds\", but %q", slices.Sorted(maps.Keys(content.Clouds)))
	}
	if strings.Contains(err.Error(), "system scope") {
		return "its system_scope is not all, the only one that there is"
	}
	return "it must be there, below \"clouds\", as OpenStack's own clients read it"
}

// orEmpty returns a document for what the parser cannot read as empty.
func orEmpty(content []byte) []byte {
	if len(bytes.TrimSpace(content)) == 0 {
		return []byte("{}")
	}
	return content
}

func newTransport(config Config) (*http.Transport, error) {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.TLSClientConfig = &tls.Config{MinVersion: tls.VersionTLS12}
	transport.MaxIdleConnsPerHost = 16
	if len(config.CA) == 0 {
		return transport, nil
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(config.CA) {
		return nil, errors.New("the file of Keystone's certificate authorities has no certificate in PEM")
	}
	transport.TLSClientConfig.RootCAs = roots
	return transport, nil
}

// bounded bounds answers.
type bounded struct{ http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (b bounded) RoundTrip(req *http.Request) (*http.Response, error) {
	answer, err := b.RoundTripper.RoundTrip(req)
	if err == nil {
		limit := int64(maxAnswer)
		if req.Context().Value(listing{}) != nil {
			limit = maxListed
		}
		answer.Body = http.MaxBytesReader(nil, answer.Body, limit)
	}
	return answer, err
}

// onHost follows redirects on the same host alone: requests carry tokens in headers, which
// Go's client sends wherever it is redirected to.
func onHost(req *http.Request, via []*http.Request) error {
	if first := via[0].URL; req.URL.Host != first.Host || req.URL.Scheme != first.Scheme || len(via) > 3 {
		return errRedirect
	}
	return nil
}

// login makes a new token of the service account. Gophercloud calls it once for all
// requests that wait for it.
func (c *Client) login(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if time.Since(c.loggedIn) < loginPause {
		return c.loginErr
	}
	// It is for all who wait, and does not end with the first one.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.timeout)
	defer cancel()
	throwaway := &gophercloud.ProviderClient{
		IdentityBase: c.provider.IdentityBase, IdentityEndpoint: c.provider.IdentityEndpoint, HTTPClient: c.provider.HTTPClient,
	}
	account := c.account
	if err := openstack.AuthenticateV3(ctx, throwaway, &account, gophercloud.EndpointOpts{}); err != nil {
		failed := failure("logging in to Keystone with the account of the clouds file", err)
		if failed.Status == http.StatusUnauthorized {
			failed.Hint = "is the password or the secret right, is the user enabled, and does it have a role where the cloud says? " +
				"For system_scope: all: openstack role add --user USER --system all reader"
		}
		if failed.Status != 0 {
			c.loggedIn, c.loginErr = time.Now(), failed
		}
		return failed
	}
	c.provider.CopyTokenFrom(throwaway)
	c.loggedIn, c.loginErr = time.Now(), nil
	return nil
}

// ensureLogin logs in if nobody has.
func (c *Client) ensureLogin(ctx context.Context, doing string) error {
	if c.provider.Token() != "" {
		return nil
	}
	if err := c.provider.Reauthenticate(ctx, ""); err != nil {
		return failure(doing, err)
	}
	return nil
}

// Validate returns what Keystone says of a token: ErrNotValid, or an Error if that cannot
// be known. The context must not be that of a client who may leave: others may wait for the
// same log-in.
func (c *Client) Validate(ctx context.Context, token Secret) (*Token, error) {
	const doing = "asking Keystone about a token"
	if err := c.ensureLogin(ctx, doing); err != nil {
		return nil, err
	}
	var answer struct {
		Token *Token `json:"token"`
	}
	// Without the catalog of services an answer is a tenth as large. Keystone answers 404 for
	// tokens with access rules, because the header that announces their enforcement is missing.
	//nolint:bodyclose // gophercloud closes what it decodes
	_, err := c.provider.Request(ctx, http.MethodGet, c.provider.IdentityBase+"v3/auth/tokens?nocatalog", &gophercloud.RequestOpts{
		MoreHeaders:  map[string]string{"X-Subject-Token": string(token)},
		JSONResponse: &answer,
	})
	return answered(doing, answer.Token, err, isNotValid)
}

// answered returns the token of an answer, or what is wrong with that: ErrNotValid if Keystone refuses.
func answered(doing string, token *Token, err error, refuses func(error) bool) (*Token, error) {
	switch {
	case refuses(err):
		return nil, ErrNotValid
	case err != nil:
		return nil, failure(doing, err)
	case token == nil:
		return nil, failure(doing, errAnswer)
	}
	if err := token.validate(); err != nil {
		return nil, &Error{Doing: doing, Cause: err}
	}
	return token, nil
}
