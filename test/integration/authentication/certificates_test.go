package authentication

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"net/http"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/tenantry/tenantry/internal/pki"
	"github.com/tenantry/tenantry/internal/tenant"
)

var _ = Describe("A certificate of the tenants' authority", func() {
	DescribeTable("tells the tenant", func(subject pkix.Name, name string, t tenant.Name, groups ...string) {
		certificate(tenantsCA, subject).expect(name, t, groups...)
	},
		Entry("in the old format", pkix.Name{CommonName: "a:jane", Organization: []string{"xyz"}}, "a:jane", tenant.Name("a"), "xyz"),
		Entry("in the new format", pkix.Name{CommonName: "jane", Organization: []string{"tenant:a"}, OrganizationalUnit: []string{"x", "y"}}, "jane", tenant.Name("a"), "x", "y"),
		Entry("in both, the new one wins", pkix.Name{CommonName: "a:jane", Organization: []string{"tenant:b", "system:masters"}}, "a:jane", tenant.Name("b")),
		Entry("and no privileged group", pkix.Name{CommonName: "jane", Organization: []string{"tenant:a"}, OrganizationalUnit: []string{"system:masters", "system:nodes", "system:serviceaccounts", "system:serviceaccounts:kube-system"}}, "jane", tenant.Name("a")),
	)

	DescribeTable("is refused", func(subject pkix.Name) {
		certificate(tenantsCA, subject).refused()
		// Not even a token that is valid makes it good.
		certificate(tenantsCA, subject).with("Authorization", "Bearer a-token").refused()
	},
		Entry("without a name", pkix.Name{Organization: []string{"tenant:a"}}),
		Entry("with an empty tenant", pkix.Name{CommonName: "jane", Organization: []string{"tenant:"}}),
		Entry("with two tenants", pkix.Name{CommonName: "jane", Organization: []string{"tenant:a", "tenant:b"}}),
		Entry("with a colon for a name", pkix.Name{CommonName: ":"}),
		Entry("with an invalid tenant", pkix.Name{CommonName: "jane", Organization: []string{"tenant:A_B"}}),
		Entry("with all tenants", pkix.Name{CommonName: "jane", Organization: []string{"tenant:all"}}),
		Entry("with a system name", pkix.Name{CommonName: "system:serviceaccount:default:default", Organization: []string{"tenant:a"}}),
		Entry("as a system user", pkix.Name{CommonName: "admin", Organization: []string{"tenant:system"}, OrganizationalUnit: []string{"system:masters"}}),
		Entry("as a system user in the old format", pkix.Name{CommonName: "system:admin", Organization: []string{"system:masters"}}),
		Entry("as a node", pkix.Name{CommonName: "system:node:n", Organization: []string{"system:nodes"}}),
		Entry("as the server", pkix.Name{CommonName: "system:apiserver", Organization: []string{"tenant:system"}}),
	)

	It("without a tenant gives no right", func() {
		certificate(tenantsCA, pkix.Name{CommonName: "jane", Organization: []string{"system:masters"}}).homeless()
	})

	It("is refused when it has expired or is for something else", func() {
		subject := pkix.Name{CommonName: "jane", Organization: []string{"tenant:a"}}
		for _, template := range []*x509.Certificate{
			{Subject: subject, NotBefore: time.Now().Add(-2 * time.Hour), NotAfter: time.Now().Add(-time.Hour), ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}},
			{Subject: subject, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}},
		} {
			cert, key, err := tenantsCA.Issue(template)
			Expect(err).NotTo(HaveOccurred())
			credentials{cert: cert, key: key}.refused()
		}
	})
})

var _ = Describe("A certificate of the authority of this installation", func() {
	It("may be one of the system tenant", func() {
		config := tenantry.User(tenant.System, "root", "system:masters")
		credentials{cert: config.CertData, key: config.KeyData}.expect("root", "system", "system:masters")
	})
})

var _ = Describe("A certificate of somebody else", func() {
	It("is nobody's", func() {
		stranger, err := pki.NewAuthority("tenants")
		Expect(err).NotTo(HaveOccurred())
		subject := pkix.Name{CommonName: "jane", Organization: []string{"tenant:a"}}
		certificate(stranger, subject).refused()
		certificate(proxyCA, subject).refused()
		// Beside it, a token counts.
		certificate(stranger, subject).with("Authorization", "Bearer a-token").expect("jane", "a", "developers")
	})
})

var _ = Describe("A front proxy", func() {
	asJane := []string{"X-Remote-User", "jane", "X-Remote-Group", "developers", "X-Remote-Group", "system:masters"}
	inA := append([]string{"X-Remote-Extra-Tenantry.io%2fTenant", "a"}, asJane...)

	It("names the tenant", func() {
		proxy := certificate(proxyCA, pkix.Name{CommonName: "proxy"})
		proxy.with(inA...).expect("jane", "a", "developers")
		proxy.with(inA...).with("X-Remote-Extra-Multi-Tenancy.k8s.io%2ftenant", "b").expect("jane", "a", "developers")
		proxy.with(asJane...).homeless()
		proxy.with(asJane...).with("X-Remote-Extra-Multi-Tenancy.k8s.io%2ftenant", "system").homeless()
	})

	It("is refused what it may not say", func() {
		proxy := certificate(proxyCA, pkix.Name{CommonName: "proxy"})
		for _, name := range []string{"system", "all", "A_B", "*", "a/../b"} {
			proxy.with(asJane...).with("X-Remote-Extra-Tenantry.io%2fTenant", name).refused()
		}
		proxy.with(inA...).with("X-Remote-Extra-Tenantry.io%2fTenant", "b").refused()
		for _, name := range []string{"system:kube-scheduler", "system:apiserver", "system:anonymous", "system:serviceaccount:default:default"} {
			proxy.with("X-Remote-User", name, "X-Remote-Extra-Tenantry.io%2fTenant", "a").refused()
			proxy.with("X-Remote-User", name).refused()
		}
		proxy.refused() // it is nobody itself
	})

	It("is believed by its certificate alone", func() {
		certificate(proxyCA, pkix.Name{CommonName: "another"}).with(inA...).refused()
		certificate(tenantsCA, pkix.Name{CommonName: "proxy"}).with(inA...).homeless()
		certificate(tenantsCA, pkix.Name{CommonName: "joe", Organization: []string{"tenant:b"}}).with(inA...).expect("joe", "b")
		bearer("a-token").with(inA...).with("X-Remote-Extra-Tenantry.io%2fTenant", "b").expect("jane", "a", "developers")
		response, _ := credentials{}.with(inA...).do(http.MethodGet, "/api/v1/namespaces", nil)
		Expect(response.StatusCode).To(Equal(http.StatusForbidden), "the anonymous user")
	})
})
