package authentication

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/request/bearertoken"
	"k8s.io/apiserver/pkg/authentication/user"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/client-go/kubernetes/fake"
	kubeoptions "k8s.io/kubernetes/pkg/kubeapiserver/options"

	"github.com/tenantry/tenantry/internal/pki"
	"github.com/tenantry/tenantry/internal/server/authentication/identity"
	"github.com/tenantry/tenantry/internal/tenant"
	"github.com/tenantry/tenantry/test/identities"
)

const audience = "tenantry"

// build makes the authenticator that options stand for. Of the service accounts
// of the system space it knows one token, "system-account".
func build(t testing.TB, defaultTenant tenant.Name, change func(*Options), more ...func(*Config)) authenticator.Request {
	t.Helper()
	options := NewOptions(kubeoptions.NewBuiltInAuthenticationOptions().WithAll())
	change(&options)
	if errs := options.Validate(); len(errs) > 0 {
		t.Fatal(errs)
	}
	generic := &genericapiserver.Config{SecureServing: &genericapiserver.SecureServingInfo{}}
	generic.Authentication.APIAudiences = authenticator.Audiences{audience}
	generic.Authentication.Authenticator = bearertoken.New(authenticator.TokenFunc(
		func(_ context.Context, token string) (*authenticator.Response, bool, error) {
			account := &user.DefaultInfo{Name: "system:serviceaccount:ns:sa", Groups: []string{"system:serviceaccounts"}}
			return &authenticator.Response{User: account, Audiences: authenticator.Audiences{audience}}, token == "system-account", nil
		}))
	config := Config{
		Options: options, DefaultTenant: defaultTenant, ServiceAccounts: ServiceAccounts{Client: fake.NewClientset()},
		Since: func(context.Context, tenant.Name) (time.Time, error) { return time.Time{}, nil },
	}
	for _, change := range more {
		change(&config)
	}
	a, err := New(t.Context(), generic, config)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// file writes a file for an option.
func file(t testing.TB, content []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// newRequest returns a request as the tenant filter leaves it.
func newRequest(t testing.TB, authorization string) *http.Request {
	t.Helper()
	ctx := tenant.WithRequest(authenticator.WithAudiences(t.Context(), authenticator.Audiences{audience}), &tenant.Request{})
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://server/api", nil)
	if err != nil {
		t.Fatal(err)
	}
	if authorization != "" {
		req.Header.Set("Authorization", authorization)
	}
	return req
}

// check tells what becomes of a request: "name of tenant", or "refused".
func check(t testing.TB, a authenticator.Request, req *http.Request) string {
	t.Helper()
	response, ok, err := a.AuthenticateRequest(req)
	if err != nil || !ok {
		if response != nil || ok {
			t.Errorf("an error and %v, %v", response, ok)
		}
		return "refused"
	}
	n, err := tenant.OfUser(response.User)
	if err != nil {
		t.Fatal(err)
	}
	if noted := tenant.RequestFrom(req.Context()).Authenticated; noted != n {
		t.Errorf("the user's tenant is %q, that of the request %q", n, noted)
	}
	return response.User.GetName() + " of " + string(n)
}

func newIssuer(t testing.TB) *identities.Issuer {
	t.Helper()
	issuer, err := identities.NewIssuer()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(issuer.Close)
	return issuer
}

func oidcFlags(t testing.TB, o *Options, issuer *identities.Issuer) {
	t.Helper()
	flags := o.Upstream.OIDC
	flags.IssuerURL, flags.ClientID = issuer.URL(), audience
	flags.CAFile, flags.SigningAlgs = file(t, issuer.PEM()), []string{identities.SigningAlgorithm}
}

// awaitKeys returns once the issuer's keys have been read, which upstream does
// in the background.
func awaitKeys(t testing.TB, a authenticator.Request, token string) {
	t.Helper()
	if err := wait.PollUntilContextCancel(t.Context(), 10*time.Millisecond, true, func(context.Context) (bool, error) {
		_, ok, err := a.AuthenticateRequest(newRequest(t, "Bearer "+token))
		return ok || errors.Is(err, identity.ErrRefused), nil
	}); err != nil {
		t.Fatal(err)
	}
}

func TestOIDCFlags(t *testing.T) {
	issuer := newIssuer(t)
	token := func(claims map[string]any) string {
		claims["aud"] = audience
		token, err := issuer.Token(claims)
		if err != nil {
			t.Fatal(err)
		}
		return token
	}
	for name, tc := range map[string]struct {
		change        func(*Options)
		defaultTenant tenant.Name
		claims        map[string]any
		want          string
	}{
		"claim": {
			change: func(o *Options) { o.OIDCTenantClaim, o.Upstream.OIDC.UsernamePrefix = "org", "-" },
			claims: map[string]any{"sub": "jane", "org": "a"}, want: "jane of a"},
		"claim with any name": {
			change: func(o *Options) {
				o.OIDCTenantClaim, o.Upstream.OIDC.UsernamePrefix = `https://example.org/"tenant"`, "-"
			},
			claims: map[string]any{"sub": "jane", `https://example.org/"tenant"`: "a"}, want: "jane of a"},
		"no claim in the token": {
			change: func(o *Options) { o.OIDCTenantClaim, o.Upstream.OIDC.UsernamePrefix = "org", "-" },
			claims: map[string]any{"sub": "jane"}, want: "jane of "},
		"no claim in the token, default tenant": {
			change:        func(o *Options) { o.OIDCTenantClaim, o.Upstream.OIDC.UsernamePrefix = "org", "-" },
			defaultTenant: "d", claims: map[string]any{"sub": "jane"}, want: "jane of d"},
		"no claim configured": {
			change: func(o *Options) { o.Upstream.OIDC.UsernamePrefix = "-" },
			claims: map[string]any{"sub": "jane", tenant.UserExtraKey: "a", tenant.Former(tenant.UserExtraKey): "a"}, want: "jane of "},
		"a prefix is no tenant": {
			change: func(*Options) {},
			claims: map[string]any{"sub": "jane"}, want: issuer.URL() + "#jane of "},
		"a prefix like a tenant is none": {
			change: func(o *Options) { o.Upstream.OIDC.UsernamePrefix = "a:" },
			claims: map[string]any{"sub": "jane"}, want: "a:jane of "},
		"system": {
			change: func(o *Options) { o.OIDCTenantClaim = "org" },
			claims: map[string]any{"sub": "jane", "org": "system"}, want: "refused"},
		"system, by an issuer that may": {
			change: func(o *Options) {
				o.OIDCTenantClaim, o.Upstream.OIDC.UsernamePrefix, o.SystemIssuers = "org", "-", []string{issuer.URL()}
			},
			claims: map[string]any{"sub": "jane", "org": "system"}, want: "jane of system"},
		"system name with a default tenant": {
			change:        func(o *Options) { o.Upstream.OIDC.UsernamePrefix = "-" },
			defaultTenant: "d", claims: map[string]any{"sub": "system:serviceaccount:ns:sa"}, want: "refused"},
		"many tenants": {
			change: func(o *Options) { o.OIDCTenantClaim = "org" },
			claims: map[string]any{"sub": "jane", "org": []string{"a", "b"}}, want: "refused"},
		"an object": {
			change: func(o *Options) { o.OIDCTenantClaim, o.Upstream.OIDC.UsernamePrefix = "org", "-" },
			claims: map[string]any{"sub": "jane", "org": map[string]any{"a": "b"}}, want: "refused"},
	} {
		t.Run(name, func(t *testing.T) {
			a := build(t, tc.defaultTenant, func(o *Options) {
				oidcFlags(t, o, issuer)
				tc.change(o)
			})
			awaitKeys(t, a, token(map[string]any{"sub": "known"}))
			if got := check(t, a, newRequest(t, "Bearer "+token(tc.claims))); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

func TestDefaultTenant(t *testing.T) {
	clients, err := pki.NewAuthority("clients")
	if err != nil {
		t.Fatal(err)
	}
	webhook := identities.NewWebhook()
	t.Cleanup(webhook.Close)
	webhook.Know("nameless", authenticationv1.UserInfo{})
	webhook.Know("node", authenticationv1.UserInfo{Username: "system:node:n", Groups: []string{"system:nodes"}})
	webhook.Know("master", authenticationv1.UserInfo{Username: "joe", Groups: []string{"system:masters", "g"}})
	kubeconfig, err := webhook.Kubeconfig()
	if err != nil {
		t.Fatal(err)
	}
	a := build(t, "d", func(o *Options) {
		o.Upstream.ClientCert.ClientCA = file(t, clients.PEM())
		o.Upstream.TokenFile.TokenFile = file(t, []byte("file,ops,1,g\nfile-a,ann,1,,a\n"))
		o.Upstream.WebHook.ConfigFile = file(t, kubeconfig)
	})
	for authorization, want := range map[string]string{
		"Bearer file": "ops of system", "Bearer file-a": "ann of a", "Bearer system-account": "system:serviceaccount:ns:sa of system",
		"Bearer master": "joe of d", "Bearer node": "refused", "Bearer nameless": "refused", "Bearer unknown": "refused",
		"": "system:anonymous of ", "Basic eDp5": "system:anonymous of ", "Bearer": "system:anonymous of ",
	} {
		if got := check(t, a, newRequest(t, authorization)); got != want {
			t.Errorf("%q: got %q, want %q", authorization, got, want)
		}
	}
	for name, want := range map[string]string{"jane": "jane of d", "a:jane": "a:jane of a", "system:node:n": "system:node:n of system"} {
		if got := check(t, a, withCertificate(t, newRequest(t, ""), clients, pkix.Name{CommonName: name})); got != want {
			t.Errorf("certificate of %q: got %q, want %q", name, got, want)
		}
	}
	response, _, err := a.AuthenticateRequest(newRequest(t, "Bearer master"))
	if err != nil || strings.Join(response.User.GetGroups(), " ") != "g system:authenticated" {
		t.Errorf("groups %q, %v", response.User.GetGroups(), err)
	}
}

func TestWebhookVersions(t *testing.T) {
	webhook := identities.NewWebhook()
	t.Cleanup(webhook.Close)
	webhook.Know("token", authenticationv1.UserInfo{Username: "jane", Extra: map[string]authenticationv1.ExtraValue{"Org": {"a"}}})
	kubeconfig, err := webhook.Kubeconfig()
	if err != nil {
		t.Fatal(err)
	}
	for _, version := range []string{"v1", "v1beta1"} {
		a := build(t, "", func(o *Options) {
			o.Upstream.WebHook.ConfigFile, o.Upstream.WebHook.Version = file(t, kubeconfig), version
			o.WebhookTenantKeys = []string{"missing", "Org"}
		})
		if got := check(t, a, newRequest(t, "Bearer token")); got != "jane of a" {
			t.Errorf("%s: got %q", version, got)
		}
	}
}

func withCertificate(t testing.TB, req *http.Request, ca *pki.Authority, subject pkix.Name) *http.Request {
	t.Helper()
	cert, key, err := ca.Issue(&x509.Certificate{Subject: subject, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	req.TLS = &tls.ConnectionState{PeerCertificates: []*x509.Certificate{pair.Leaf}}
	return req
}

// TestWebSocket: browsers cannot set the header, and send tokens so.
func TestWebSocket(t *testing.T) {
	a := build(t, "", func(o *Options) { o.Upstream.TokenFile.TokenFile = file(t, []byte("token,jane,1,,a\n")) })
	req := newRequest(t, "")
	req.Header.Set("Connection", "Upgrade")
	req.Header.Set("Upgrade", "websocket")
	req.Header.Set("Sec-WebSocket-Protocol", "v5.channel.k8s.io, base64url.bearer.authorization.k8s.io."+base64.RawURLEncoding.EncodeToString([]byte("token")))
	if got := check(t, a, req); got != "jane of a" {
		t.Errorf("got %q", got)
	}
}

func TestNoAnonymous(t *testing.T) {
	a := build(t, "d", func(o *Options) { o.Upstream.Anonymous.Allow = false })
	if got := check(t, a, newRequest(t, "")); got != "refused" {
		t.Errorf("got %q", got)
	}
}

func TestAnonymousPaths(t *testing.T) {
	a := build(t, "d", func(o *Options) {
		o.Upstream.AuthenticationConfigFile = file(t, []byte(`
apiVersion: apiserver.config.k8s.io/v1
kind: AuthenticationConfiguration
anonymous: {enabled: true, conditions: [{path: /healthz}]}
`))
	})
	for path, want := range map[string]string{"/healthz": "system:anonymous of ", "/api": "refused"} {
		req := newRequest(t, "")
		req.URL.Path = path
		if got := check(t, a, req); got != want {
			t.Errorf("%s: got %q, want %q", path, got, want)
		}
	}
}

func TestAudiences(t *testing.T) {
	a := build(t, "", func(o *Options) { o.Upstream.TokenFile.TokenFile = file(t, []byte("token,jane,1,,a\n")) })
	req := newRequest(t, "Bearer token")
	if got := check(t, a, req.WithContext(authenticator.WithAudiences(req.Context(), authenticator.Audiences{"other"}))); got != "refused" {
		t.Errorf("a token of this server for somebody else: %q", got)
	}
}

func TestValidate(t *testing.T) {
	one, err := pki.NewAuthority("one")
	if err != nil {
		t.Fatal(err)
	}
	two, err := pki.NewAuthority("two")
	if err != nil {
		t.Fatal(err)
	}
	bundle, other := file(t, one.PEM()), file(t, two.PEM())
	oidc := func(o *Options) { o.Upstream.OIDC.IssuerURL, o.Upstream.OIDC.ClientID = "https://a", "x" }
	for name, tc := range map[string]struct {
		change func(*Options)
		want   string
	}{
		"empty issuer":       {func(o *Options) { oidc(o); o.SystemIssuers = []string{"https://a", ""} }, "--system-issuers"},
		"issuer without any": {func(o *Options) { o.SystemIssuers = []string{"https://a"} }, `"https://a" is neither`},
		"another issuer":     {func(o *Options) { oidc(o); o.SystemIssuers = []string{"https://a", "https://a/"} }, `"https://a/" is neither`},
		"an issuer that the file has not": {func(o *Options) {
			o.Upstream.AuthenticationConfigFile = file(t, []byte(`
apiVersion: apiserver.config.k8s.io/v1
kind: AuthenticationConfiguration
jwt:
- issuer: {url: "https://b", audiences: [x]}
  claimMappings: {username: {claim: sub, prefix: ""}}
`))
			o.SystemIssuers = []string{"https://b", "https://a"}
		}, `"https://a" is neither`},
		"empty key":            {func(o *Options) { o.WebhookTenantKeys = []string{""} }, "--authentication-token-webhook-tenant-extra-key"},
		"claim without issuer": {func(o *Options) { o.OIDCTenantClaim = "org" }, "--oidc-tenant-claim needs --oidc-issuer-url"},
		"proxies and system users of one authority": {func(o *Options) {
			o.SystemClientCAFile, o.Upstream.RequestHeader.ClientCAFile = bundle, bundle
		}, "--requestheader-allowed-names"},
		"proxies that may make system users, and users of one authority": {func(o *Options) {
			o.SystemClientCAFile, o.Upstream.ClientCert.ClientCA, o.Upstream.RequestHeader.ClientCAFile = other, bundle, bundle
			o.Upstream.RequestHeader.AllowedNames, o.RequestHeaderSystem = []string{"proxy"}, true
		}, "--requestheader-allow-system"},
		"no such file": {func(o *Options) {
			o.SystemClientCAFile, o.Upstream.RequestHeader.ClientCAFile = bundle, bundle+"x"
		}, "reading certificate authorities"},
	} {
		t.Run(name, func(t *testing.T) {
			options := NewOptions(kubeoptions.NewBuiltInAuthenticationOptions().WithAll())
			tc.change(&options)
			errs := options.Validate()
			if len(errs) != 1 || !strings.Contains(errs[0].Error(), tc.want) {
				t.Errorf("errors %v, want one with %q", errs, tc.want)
			}
		})
	}
}

func TestLoopbackNamesItsSpace(t *testing.T) {
	const own, informers = "own", "informers"
	others := build(t, "", func(*Options) {})
	a := WithLoopback(others, own, informers)
	for _, tc := range []struct {
		authorization string
		requested     tenant.Scope
		want          string
	}{
		{"Bearer " + own, "", "refused"},
		{"Bearer " + own, tenant.System.Scope(), "system:apiserver of system"},
		{"Bearer " + own, "acme", "system:apiserver of system"},
		{"Bearer " + informers, "", "system:apiserver of system"},
		{"Bearer " + own + informers, "", "refused"},
		{"Bearer system-account", "", "system:serviceaccount:ns:sa of system"},
		{"Bearer ", "", "system:anonymous of "},
	} {
		req := newRequest(t, tc.authorization)
		tenant.RequestFrom(req.Context()).Requested = tc.requested
		if got := check(t, a, req); got != tc.want {
			t.Errorf("%q in space %q: %s, want %s", tc.authorization, tc.requested, got, tc.want)
		}
		if own := tenant.RequestFrom(req.Context()).Own; own != strings.HasPrefix(tc.want, user.APIServerUser) {
			t.Errorf("%q in space %q: the server's own: %v", tc.authorization, tc.requested, own)
		}
	}
	if got := check(t, WithLoopback(others, "", ""), newRequest(t, "Bearer ")); got != "system:anonymous of " {
		t.Errorf("no token at all is %s", got)
	}
}

// The server's own user is made by its tokens alone.
func TestNameOfLoopback(t *testing.T) {
	impostor := authenticator.RequestFunc(func(*http.Request) (*authenticator.Response, bool, error) {
		return &authenticator.Response{User: &user.DefaultInfo{Name: user.APIServerUser}}, true, nil
	})
	req := newRequest(t, "Bearer other")
	if got := check(t, WithLoopback(impostor, "own", "informers"), req); got != "system:apiserver of " || tenant.RequestFrom(req.Context()).Own {
		t.Errorf("another user of that name is %s", got)
	}
}
