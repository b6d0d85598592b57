package authentication

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/client-go/rest"

	"github.com/tenantry/tenantry/internal/pki"
	"github.com/tenantry/tenantry/internal/standalone"
	"github.com/tenantry/tenantry/internal/tenant"
	"github.com/tenantry/tenantry/test/env/suite"
	"github.com/tenantry/tenantry/test/identities"
)

var (
	tenantry *suite.Environment
	dir      string
	// tenantsCA issues users of tenants, proxyCA front proxies.
	tenantsCA, proxyCA *pki.Authority
	// issuer and trusted issue tokens; trusted may issue system users.
	issuer, trusted *identities.Issuer
	webhook         *identities.Webhook
)

func TestAuthentication(t *testing.T) {
	suite.Run(t, "Authentication")
}

var _ = BeforeSuite(func(ctx SpecContext) {
	dir = GinkgoT().TempDir()
	var err error
	for name, ca := range map[string]**pki.Authority{"tenants": &tenantsCA, "proxies": &proxyCA} {
		*ca, err = pki.NewAuthority(name)
		Expect(err).NotTo(HaveOccurred())
	}
	for _, i := range []**identities.Issuer{&issuer, &trusted} {
		*i, err = identities.NewIssuer()
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup((*i).Close)
	}
	webhook = identities.NewWebhook()
	DeferCleanup(webhook.Close)

	tenantry = suite.Start(ctx, configure)
	tenantry.CreateTenants(ctx, "a", "b")
}, NodeTimeout(suite.StartTimeout))

// configure lets every kind of credentials in.
func configure(o *standalone.Options) {
	upstream := o.Server.Authentication.Upstream
	upstream.ClientCert.ClientCA = write("tenants-ca.crt", tenantsCA.PEM())
	upstream.TokenFile.TokenFile = write("tokens.csv", []byte(tokenFile))
	upstream.BootstrapToken.Enable = true
	o.Server.Authentication.BasicAuthFile = write("passwords.csv", []byte(passwordFile))
	upstream.RequestHeader.ClientCAFile = write("proxy-ca.crt", proxyCA.PEM())
	upstream.RequestHeader.AllowedNames = []string{"proxy"}
	upstream.RequestHeader.UsernameHeaders = []string{"X-Remote-User"}
	upstream.RequestHeader.GroupHeaders = []string{"X-Remote-Group"}
	upstream.RequestHeader.UIDHeaders = []string{"X-Remote-Uid"}
	upstream.RequestHeader.ExtraHeaderPrefixes = []string{"X-Remote-Extra-"}
	kubeconfig, err := webhook.Kubeconfig()
	Expect(err).NotTo(HaveOccurred())
	upstream.WebHook.ConfigFile = write("webhook.kubeconfig", kubeconfig)
	upstream.AuthenticationConfigFile = write("authentication.yaml", []byte(issuersFile(issuer, trusted)))
	o.Server.Authentication.SystemIssuers = []string{trusted.URL()}
	audit := o.Server.Kube.Audit
	audit.PolicyFile = write("audit.yaml", []byte("apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: Metadata}]\n"))
	audit.LogOptions.Path = filepath.Join(dir, "audit.log")
}

// write replaces a file of the server, as editors and Kubernetes do.
func write(name string, content []byte) string {
	GinkgoHelper()
	path := filepath.Join(dir, name)
	Expect(os.WriteFile(path+".new", content, 0o600)).To(Succeed())
	Expect(os.Rename(path+".new", path)).To(Succeed())
	return path
}

// credentials are what a request carries.
type credentials struct {
	cert, key []byte
	header    http.Header
}

func certificate(ca *pki.Authority, subject pkix.Name) credentials {
	GinkgoHelper()
	cert, key, err := ca.Issue(&x509.Certificate{Subject: subject, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	Expect(err).NotTo(HaveOccurred())
	return credentials{cert: cert, key: key}
}

func bearer(token string) credentials {
	return credentials{header: http.Header{"Authorization": {"Bearer " + token}}}
}

// token is what bearer was given.
func (c credentials) token() string {
	return strings.TrimPrefix(c.header.Get("Authorization"), "Bearer ")
}

func basic(name, password string) credentials {
	req := &http.Request{Header: http.Header{}}
	req.SetBasicAuth(name, password)
	return credentials{header: req.Header}
}

// with adds header fields, given as names and values in turn.
func (c credentials) with(fields ...string) credentials {
	header := c.header.Clone()
	if header == nil {
		header = http.Header{}
	}
	for i := 0; i < len(fields); i += 2 {
		header.Add(fields[i], fields[i+1])
	}
	c.header = header
	return c
}

// do sends a request with credentials and returns the answer and its body.
func (c credentials) do(method, path string, body any) (*http.Response, []byte) {
	GinkgoHelper()
	config := tenantry.ShortPath(rest.AnonymousClientConfig(tenantry.Config(tenant.System)))
	config.CertData, config.KeyData = c.cert, c.key
	config.NextProtos = []string{"http/1.1"}
	tlsConfig, err := rest.TLSConfigFor(config)
	Expect(err).NotTo(HaveOccurred())
	transport := &http.Transport{TLSClientConfig: tlsConfig, TLSNextProto: map[string]func(string, *tls.Conn) http.RoundTripper{}}
	defer transport.CloseIdleConnections()
	encoded, err := json.Marshal(body)
	Expect(err).NotTo(HaveOccurred())
	req, err := http.NewRequest(method, config.Host+path, bytes.NewReader(encoded))
	Expect(err).NotTo(HaveOccurred())
	req.Header = c.with("Content-Type", "application/json").header
	response, err := transport.RoundTrip(req)
	Expect(err).NotTo(HaveOccurred())
	defer response.Body.Close()
	read, err := io.ReadAll(response.Body)
	Expect(err).NotTo(HaveOccurred())
	return response, read
}

// whoami asks the server who it takes the credentials for.
func (c credentials) whoami() (int, authenticationv1.UserInfo) {
	GinkgoHelper()
	response, body := c.do(http.MethodPost, "/apis/authentication.k8s.io/v1/selfsubjectreviews",
		authenticationv1.SelfSubjectReview{})
	var review authenticationv1.SelfSubjectReview
	if response.StatusCode == http.StatusCreated {
		Expect(json.Unmarshal(body, &review)).To(Succeed())
	}
	return response.StatusCode, review.Status.UserInfo
}

// expect checks who the server takes the credentials for.
func (c credentials) expect(name string, t tenant.Name, groups ...string) {
	GinkgoHelper()
	status, u := c.whoami()
	Expect(status).To(Equal(http.StatusCreated))
	Expect(u.Username).To(Equal(name))
	Expect(u.Groups).To(ConsistOf(append(groups, "system:authenticated")))
	Expect(u.Extra[tenant.UserExtraKey]).To(Equal(authenticationv1.ExtraValue{string(t)}))
}

// refused checks that the server accepts nothing of the credentials, and does
// not say why.
func (c credentials) refused() {
	GinkgoHelper()
	response, body := c.do(http.MethodGet, "/api/v1/namespaces", nil)
	Expect(response.StatusCode).To(Equal(http.StatusUnauthorized), string(body))
	var status struct{ Message string }
	Expect(json.Unmarshal(body, &status)).To(Succeed())
	Expect(status.Message).To(Equal("Unauthorized"))
}

// homeless checks that the server accepts the credentials, which give no tenant
// and therefore no right.
func (c credentials) homeless() {
	GinkgoHelper()
	for _, path := range []string{"/api/v1/namespaces", "/tenants/a/api/v1/namespaces", "/api/v1/tenants/system/namespaces", "/apis"} {
		response, body := c.do(http.MethodGet, path, nil)
		Expect(response.StatusCode).To(Equal(http.StatusForbidden), "%s: %s", path, body)
		Expect(string(body)).To(ContainSubstring(tenant.ErrNoTenant.Error()))
	}
}

// issuersFile is an AuthenticationConfiguration in which users are named by the
// claim "sub" and their tenants by an expression.
func issuersFile(issuers ...*identities.Issuer) string {
	var b strings.Builder
	b.WriteString("apiVersion: apiserver.config.k8s.io/v1\nkind: AuthenticationConfiguration\njwt:\n")
	for _, i := range issuers {
		fmt.Fprintf(&b, `- issuer: {url: %q, audiences: [tenantry], certificateAuthority: %q}
  claimMappings:
    username: {claim: sub, prefix: ""}
    groups: {claim: groups, prefix: ""}
    extra:
    - {key: tenantry.io/tenant, valueExpression: 'claims.?org.?id.orValue("")'}
    - {key: example.org/team, valueExpression: 'claims.?team.orValue("")'}
`, i.URL(), i.PEM())
	}
	return b.String()
}
