package authentication

import (
	"crypto/x509/pkix"
	"net/http"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/group"
	x509request "k8s.io/apiserver/pkg/authentication/request/x509"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"

	"github.com/tenantry/tenantry/internal/pki"
	"github.com/tenantry/tenantry/internal/tenant"
	"github.com/tenantry/tenantry/test/identities"
	"github.com/tenantry/tenantry/test/keystone/fake"
)

// BenchmarkAuthenticate measures a request whose credentials the server has seen
// before, with every kind of them configured. "certificate-upstream" is
// Kubernetes' own authenticator, which verifies the same signature.
func BenchmarkAuthenticate(b *testing.B) {
	clients, err := pki.NewAuthority("clients")
	if err != nil {
		b.Fatal(err)
	}
	system, err := pki.NewAuthority("system")
	if err != nil {
		b.Fatal(err)
	}
	proxies, err := pki.NewAuthority("proxies")
	if err != nil {
		b.Fatal(err)
	}
	webhook := identities.NewWebhook()
	b.Cleanup(webhook.Close)
	webhook.Know("hook", authenticationv1.UserInfo{Username: "jane", Groups: []string{"g"}, Extra: map[string]authenticationv1.ExtraValue{extraKey: {"a"}}})
	kubeconfig, err := webhook.Kubeconfig()
	if err != nil {
		b.Fatal(err)
	}
	issuer := newIssuer(b)
	token, err := issuer.Token(map[string]any{"sub": "jane", "aud": audience, "org": "a"})
	if err != nil {
		b.Fatal(err)
	}
	clientCA := file(b, clients.PEM())
	cloud, keystone := newKeystone(b)
	cloud.Know(fake.Token(1), fake.Body("u", fake.InProject("p", "d-acme", "r", "s")))
	a := build(b, "", func(o *Options) {
		o.KeystoneConfig = keystone
		o.Upstream.ClientCert.ClientCA, o.SystemClientCAFile = clientCA, file(b, system.PEM())
		o.Upstream.RequestHeader.ClientCAFile = file(b, proxies.PEM())
		o.Upstream.RequestHeader.UsernameHeaders = []string{"X-Remote-User"}
		o.Upstream.TokenFile.TokenFile = file(b, []byte("file,jane,1,g,,a\n"))
		o.BasicAuthFile = file(b, []byte(sha512Secret+",jane,1,g,,a\n"))
		o.Upstream.WebHook.ConfigFile = file(b, kubeconfig)
		oidcFlags(b, o, issuer)
		o.OIDCTenantClaim, o.Upstream.OIDC.UsernamePrefix = "org", "-"
	}, domains)
	awaitKeys(b, a, token)
	subject := pkix.Name{CommonName: "jane", Organization: []string{"tenant:a"}, OrganizationalUnit: []string{"g"}}
	certificate := withCertificate(b, newRequest(b, ""), clients, subject)
	bundle, err := dynamiccertificates.NewDynamicCAContentFromFile("clients", clientCA)
	if err != nil {
		b.Fatal(err)
	}
	upstream := group.NewAuthenticatedGroupAdder(x509request.NewDynamic(bundle.VerifyOptions, x509request.CommonNameUserConversion))

	password := newRequest(b, "")
	password.SetBasicAuth("jane", "secret")
	for _, bc := range []struct {
		name string
		authenticator.Request
		req *http.Request
	}{
		{"token-file", a, newRequest(b, "Bearer file")},
		{"password", a, password},
		{"webhook", a, newRequest(b, "Bearer hook")},
		{"keystone", a, newRequest(b, "Bearer "+fake.Token(1))},
		{"oidc", a, newRequest(b, "Bearer "+token)},
		{"anonymous", a, newRequest(b, "")},
		{"certificate", a, certificate},
		{"certificate-upstream", upstream, certificate},
	} {
		b.Run(bc.name, func(b *testing.B) {
			authorization := bc.req.Header.Get("Authorization")
			b.ReportAllocs()
			for b.Loop() {
				if authorization != "" {
					bc.req.Header.Set("Authorization", authorization) // which authenticators remove
				}
				tenant.RequestFrom(bc.req.Context()).Authenticated = ""
				if _, ok, err := bc.AuthenticateRequest(bc.req); err != nil || !ok {
					b.Fatal(err)
				}
			}
		})
	}
}

// sha512Secret is the hash of "secret" ("openssl passwd -6").
const sha512Secret = "$6$saltsalt$TVLlQcbpFVof5W3Yz4DTP6gRstiNuHwwTt6GLc1E5n0U0aDehy0S5knV8wiOQSpT0Y77vwPZN.Pq.H91p5hVO1"
