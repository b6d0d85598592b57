package credential

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/tokens"

	"github.com/tenantry/tenantry/internal/roundtrip"
	"github.com/tenantry/tenantry/internal/version"
)

const (
	// maxAnswer is how much of an answer is read. A catalog may have some hundred kilobytes.
	maxAnswer = 8 << 20
	// margin is how long before it expires a token is replaced: a request takes time.
	margin = time.Minute
)

// keystone asks Keystone on behalf of a login.
type keystone struct {
	*login
	client http.Client
}

func newKeystone(l *login) (*keystone, error) {
	config, err := l.tlsConfig()
	if err != nil {
		return nil, err
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.TLSClientConfig = config
	return &keystone{login: l, client: http.Client{
		Transport: roundtrip.Func(func(r *http.Request) (*http.Response, error) {
			response, err := transport.RoundTrip(r)
			if err == nil {
				response.Body = http.MaxBytesReader(nil, response.Body, maxAnswer)
			}
			return response, err
		}),
		// Whom Keystone, or what stands there, names does not get the password.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}, nil
}

// read reads the file that a setting names.
func (l *login) read(setting string) ([]byte, error) {
	path := l.get(setting)
	if rest, ok := strings.CutPrefix(path, "~/"); ok {
		home, err := os.UserHomeDir()
		if err != nil {
			return nil, l.errorf("%s: %w", l.name(setting), err)
		}
		path = filepath.Join(home, rest)
	}
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, l.errorf("%s: %w", l.name(setting), err)
	}
	return content, nil
}

// tlsConfig is what the cloud says of certificates.
func (l *login) tlsConfig() (*tls.Config, error) {
	config := &tls.Config{}
	if l.get("cacert") != "" {
		content, err := l.read("cacert")
		if err != nil {
			return nil, err
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(content) {
			return nil, l.errorf("%s: %s has no certificate in PEM", l.name("cacert"), l.get("cacert"))
		}
	}
	switch hasCert, hasKey := l.get("cert") != "", l.get("key") != ""; {
	case hasCert != hasKey:
		return nil, l.errorf("%s and %s go together, and one is missing", l.name("cert"), l.name("key"))
	case hasCert:
		cert, err := l.read("cert")
		if err != nil {
			return nil, err
		}
		key, err := l.read("key")
		if err != nil {
			return nil, err
		}
		pair, err := tls.X509KeyPair(cert, key)
		if err != nil {
			return nil, l.errorf("%s and %s: %w", l.name("cert"), l.name("key"), err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	for setting, insecure := range map[string]bool{"verify": false, "insecure": true} {
		switch strings.ToLower(l.get(setting)) {
		case "true", "yes", "on", "1":
			config.InsecureSkipVerify = config.InsecureSkipVerify || insecure
		case "false", "no", "off", "0":
			config.InsecureSkipVerify = config.InsecureSkipVerify || !insecure
		case "":
		default:
			return nil, l.errorf("%s must be true or false", l.name(setting))
		}
	}
	return config, nil
}

// service returns gophercloud's client, with a token or without.
func (k *keystone) service(token string) *gophercloud.ServiceClient {
	provider := &gophercloud.ProviderClient{HTTPClient: k.client, TokenID: token}
	provider.UserAgent.Prepend("tenantry/" + version.Version)
	return &gophercloud.ServiceClient{ProviderClient: provider, Endpoint: k.url + "/"}
}

// token is one that can be used until a time.
type token struct {
	ID      string    `json:"token"`
	Expires time.Time `json:"expires"`
}

// tokenID is what a token looks like: it becomes a header.
var tokenID = regexp.MustCompile(`^[!-~]+$`)

// logIn returns a new token.
func (k *keystone) logIn(ctx context.Context) (token, error) {
	began := time.Now()
	result := tokens.Create(ctx, k.service(""), k.withSecrets())
	if result.Err != nil {
		return token{}, k.explain(result.Err)
	}
	id, err := result.ExtractTokenID()
	var body struct {
		IssuedAt  time.Time `json:"issued_at"`
		ExpiresAt time.Time `json:"expires_at"`
	}
	if err != nil || !tokenID.MatchString(id) || result.ExtractInto(&body) != nil || body.ExpiresAt.IsZero() {
		return token{}, k.errorf("what answers at %s is not Keystone: is %s right?", k.url, k.name("auth_url"))
	}
	// The clock here may be another than Keystone's.
	life := body.ExpiresAt.Sub(began)
	if !body.IssuedAt.IsZero() {
		life = body.ExpiresAt.Sub(body.IssuedAt)
	}
	if life <= 0 {
		return token{}, k.errorf("Keystone at %s gave %s a token that has expired already: is %s older than it may be?", k.url, k.who(), k.secretNames())
	}
	return token{ID: id, Expires: began.Add(life - min(margin, life/10))}, nil
}

// valid asks whether a token is still good.
func (k *keystone) valid(ctx context.Context, id string) (bool, error) {
	valid, err := tokens.Validate(ctx, k.service(id), id)
	if gophercloud.ResponseCodeIs(err, http.StatusUnauthorized) {
		return false, nil
	}
	return valid, err
}

// refusal is an answer to a log-in that another attempt will get, too.
type refusal struct{ error }

// requestID is how Keystone names requests.
var requestID = regexp.MustCompile(`^req-[0-9a-f-]{36}$`)

// explain returns an error without anything of the body of an answer, which may echo what was
// sent.
func (k *keystone) explain(err error) error {
	if answer, is := errors.AsType[gophercloud.ErrUnexpectedResponseCode](err); is {
		return k.explainAnswer(answer)
	}
	what, hint := "the connection failed", "is "+k.name("auth_url")+" right?"
	var untrusted *tls.CertificateVerificationError
	var operation *net.OpError
	var timeout net.Error
	switch {
	case errors.Is(err, context.Canceled):
		return context.Canceled
	case errors.As(err, &untrusted):
		what, hint = untrusted.Error(), "name the file of its authority in "+k.name("cacert")
	case errors.Is(err, http.ErrSchemeMismatch):
		what = "it does not speak TLS"
	case errors.As(err, &timeout) && timeout.Timeout():
		what = "no answer in time (--timeout)"
	case errors.As(err, &operation):
		what = operation.Error()
	case !isTransport(err):
		return k.errorf("what answers at %s is not Keystone: is %s right?", k.url, k.name("auth_url"))
	}
	return k.errorf("asking Keystone at %s: %s: %s", k.url, what, hint)
}

func isTransport(err error) bool {
	var transport *url.Error
	return errors.As(err, &transport)
}

func (k *keystone) explainAnswer(answer gophercloud.ErrUnexpectedResponseCode) error {
	said := fmt.Sprintf("%d %s", answer.Actual, http.StatusText(answer.Actual))
	if id := answer.ResponseHeader.Get("X-Openstack-Request-Id"); requestID.MatchString(id) {
		said += ", request " + id
	}
	switch code := answer.Actual; {
	case code == http.StatusUnauthorized && answer.ResponseHeader.Get("Openstack-Auth-Receipt") != "":
		return refusal{k.errorf("Keystone at %s wants another proof of %s (%s): set %s to multifactor, and OS_PASSCODE to the passcode",
			k.url, k.who(), said, k.name("auth_type"))}
	case code == http.StatusUnauthorized, code == http.StatusNotFound && (k.method == byToken || k.method == byCredential):
		return refusal{k.errorf("Keystone at %s refused %s (%s): is %s right, is the user enabled, and does it have a role where the token is for?",
			k.url, k.who(), said, k.secretNames())}
	case code >= 300 && code < 400:
		hint := ""
		if location, err := url.Parse(answer.ResponseHeader.Get("Location")); err == nil && location.Host != "" {
			hint = fmt.Sprintf(" to %q", location.Scheme+"://"+location.Host)
		}
		return k.errorf("%s redirects%s (%s), which is not followed with a password: correct %s", k.url, hint, said, k.name("auth_url"))
	case code == http.StatusTooManyRequests || code >= 500:
		return k.errorf("Keystone at %s cannot answer (%s): try again later", k.url, said)
	default:
		return k.errorf("Keystone at %s answered %s: are %s and the names of users, projects and domains right?", k.url, said, k.name("auth_url"))
	}
}

// secretNames returns how the secrets of the log-in are called.
func (l *login) secretNames() string {
	names := slices.Clone(secrets[l.method])
	for i := range names {
		names[i] = l.name(names[i])
	}
	return strings.Join(names, " and ")
}
