package authentication

import (
	"crypto/x509/pkix"
	"net/http"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	authenticationv1 "k8s.io/api/authentication/v1"

	"github.com/tenantry/tenantry/internal/tenant"
	"github.com/tenantry/tenantry/test/identities"
)

const (
	claimKey           = "tenantry.io/tenant"
	keystoneDomainID   = "alpha.kubernetes.io/identity/user/domain/id"
	keystoneDomainName = "alpha.kubernetes.io/identity/user/domain/name"
)

// reviewed returns a token that the webhook knows as one of jane's.
func reviewed(token string, extra map[string]authenticationv1.ExtraValue) credentials {
	webhook.Know(token, authenticationv1.UserInfo{Username: "jane", Groups: []string{"developers", "system:masters"}, Extra: extra})
	return bearer(token)
}

var _ = Describe("The token webhook", func() {
	type extra = map[string]authenticationv1.ExtraValue

	DescribeTable("names the tenant", func(token string, extra extra, t tenant.Name) {
		reviewed(token, extra).expect("jane", t, "developers")
	},
		Entry("by the server's key", "hook-claim", extra{claimKey: {"a"}}, tenant.Name("a")),
		Entry("by Keystone's domain", "hook-keystone", extra{
			keystoneDomainID: {"b"}, keystoneDomainName: {"Domain B"},
			"alpha.kubernetes.io/identity/roles": {"member", "reader"}, "alpha.kubernetes.io/identity/project/id": {""},
		}, tenant.Name("b")),
		Entry("by Keystone's domain name, without an id", "hook-domain-name", extra{keystoneDomainID: {""}, keystoneDomainName: {"a"}}, tenant.Name("a")),
		Entry("and not by the former key", "hook-forged", extra{claimKey: {"a"}, tenant.Former(tenant.UserExtraKey): {"system"}}, tenant.Name("a")),
	)

	DescribeTable("is refused what it may not say", func(token string, extra extra) {
		reviewed(token, extra).refused()
	},
		Entry("system", "hook-system", extra{claimKey: {"system"}}),
		Entry("system by Keystone", "hook-keystone-system", extra{keystoneDomainID: {"system"}}),
		Entry("all", "hook-all", extra{claimKey: {"all"}}),
		Entry("an invalid name", "hook-invalid", extra{keystoneDomainName: {"Default"}}),
		Entry("two", "hook-two", extra{claimKey: {"a", "b"}}),
	)

	It("gives no right without a tenant", func() {
		reviewed("hook-none", nil).homeless()
		reviewed("hook-none-forged", extra{tenant.Former(tenant.UserExtraKey): {"a"}}).homeless()
	})

	It("gives no names of the system", func() {
		for i, name := range []string{"system:kube-scheduler", "system:apiserver", "system:anonymous", "system:serviceaccount:default:default", ""} {
			for _, extra := range []extra{nil, {claimKey: {"a"}}} {
				token := strings.Repeat("n", i+1) + strings.Repeat("x", len(extra))
				webhook.Know(token, authenticationv1.UserInfo{Username: name, Extra: extra})
				bearer(token).refused()
			}
		}
	})

	It("is asked once", func() {
		c := reviewed("hook-once", extra{claimKey: {"a"}})
		for range 5 {
			c.expect("jane", "a", "developers")
		}
		Expect(webhook.Asked("hook-once")).To(Equal(1))
		bearer("old-format-token").expect("joe", "system", "g1", "g2")
		Expect(webhook.Asked("old-format-token")).To(BeZero(), "tokens that the server knows stay with it")
	})

	It("may answer anything", func() {
		for i, body := range []string{"", "{", "[]", "null", `{"kind":"Status","apiVersion":"v1","status":"Success"}`, `{"kind":"TokenReview"}`,
			`{"kind":"TokenReview","apiVersion":"authentication.k8s.io/v1","status":{"authenticated":true}}`,
			`{"kind":"TokenReview","apiVersion":"authentication.k8s.io/v1","status":{"authenticated":true,"user":{"username":1}}}`,
			`{"kind":"TokenReview","apiVersion":"authentication.k8s.io/v1","status":{"authenticated":true,"user":{"username":"u","extra":{"tenantry.io/tenant":"a"}}}}`,
		} {
			token := strings.Repeat("b", i+1)
			webhook.Break(token, body)
			bearer(token).refused()
		}
	})
})

// issued returns a token of an issuer for jane, with further claims.
func issued(i *identities.Issuer, claims map[string]any) credentials {
	GinkgoHelper()
	all := map[string]any{"sub": "jane", "aud": "tenantry", "groups": []string{"developers", "system:masters"}}
	for claim, value := range claims {
		all[claim] = value
	}
	token, err := i.Token(all)
	Expect(err).NotTo(HaveOccurred())
	return bearer(token)
}

func org(id any) map[string]any { return map[string]any{"org": map[string]any{"id": id}} }

var _ = Describe("A token issuer", func() {
	It("names the tenant", func() {
		issued(issuer, org("a")).expect("jane", "a", "developers")
		issued(trusted, org("b")).expect("jane", "b", "developers")
		issued(issuer, map[string]any{"org": map[string]any{"id": "a"}, "team": "t"}).expect("jane", "a", "developers")
		issued(issuer, nil).homeless()
		issued(issuer, org("")).homeless()
		issued(issuer, map[string]any{tenant.UserExtraKey: "a", tenant.Former(tenant.UserExtraKey): "a"}).homeless()
	})

	It("names the system tenant where it is configured to", func() {
		issued(trusted, org("system")).expect("jane", "system", "developers", "system:masters")
		issued(issuer, org("system")).refused()
	})

	It("cannot pass for another one", func() {
		for _, payload := range []string{
			`{"iss":%q,"ISS":%q,`, `{"ISS":%[2]q,"iss":%[1]q,`, `{"iss":%q,"iss":%q,`, `{"iss":%[2]q,"iss":%[1]q,`, `{"iss":%[1]q,"ıss":%[2]q,"iſs":%[2]q,`,
		} {
			for _, urls := range [][2]string{{issuer.URL(), trusted.URL()}, {trusted.URL(), issuer.URL()}} {
				prefix := strings.NewReplacer("%[1]q", `"`+urls[0]+`"`, "%[2]q", `"`+urls[1]+`"`).Replace(payload)
				prefix = strings.Replace(prefix, "%q", `"`+urls[0]+`"`, 1)
				prefix = strings.Replace(prefix, "%q", `"`+urls[1]+`"`, 1)
				token, err := issuer.Sign([]byte(prefix + `"sub":"jane","aud":"tenantry","exp":9999999999,"org":{"id":"system"}}`))
				Expect(err).NotTo(HaveOccurred())
				bearer(token).refused()
			}
		}
	})

	DescribeTable("is refused", func(claims map[string]any) {
		issued(issuer, claims).refused()
	},
		Entry("an invalid tenant", org("A_B")),
		Entry("an issuer's URL as a tenant", org("https://issuer.example.org#a")),
		Entry("all", org("all")),
		Entry("two tenants", org([]string{"a", "b"})),
		Entry("a number", org(1)),
		Entry("an object", org(map[string]any{"a": "b"})),
		Entry("another audience", map[string]any{"aud": "other", "org": map[string]any{"id": "a"}}),
		Entry("an expired token", map[string]any{"exp": 1, "org": map[string]any{"id": "a"}}),
		Entry("a system name", map[string]any{"sub": "system:kube-scheduler", "org": map[string]any{"id": "a"}}),
		Entry("a system name without a tenant", map[string]any{"sub": "system:node:n"}),
		Entry("a service account's name", map[string]any{"sub": "system:serviceaccount:default:default", "org": map[string]any{"id": "a"}}),
		Entry("no name", map[string]any{"sub": ""}),
	)

	It("is refused what it has not signed", func() {
		stranger, err := identities.NewIssuer()
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(stranger.Close)
		issued(stranger, org("a")).refused()
		issued(stranger, map[string]any{"iss": issuer.URL(), "org": map[string]any{"id": "a"}}).refused()
		issued(issuer, map[string]any{"iss": trusted.URL(), "org": map[string]any{"id": "system"}}).refused()
		good := issued(issuer, org("a")).token()
		parts := strings.Split(good, ".")
		for _, token := range []string{
			parts[0] + "." + parts[1], good + "x", parts[0] + ".." + parts[2], "." + parts[1] + ".", parts[0] + "." + parts[1] + ".AAAA", "..", "a.b.c",
			"eyJhbGciOiJub25lIn0." + parts[1] + ".",
		} {
			bearer(token).refused()
		}
	})

	It("is configured anew without a restart", func() {
		added, err := identities.NewIssuer()
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(added.Close)
		issued(added, org("a")).refused()
		write("authentication.yaml", []byte(issuersFile(issuer, trusted, added)))
		// Upstream asks a new issuer for its keys before it takes it.
		Eventually(func() int { return status(issued(added, org("a"))) }).Should(Equal(http.StatusCreated))
		issued(added, org("a")).expect("jane", "a", "developers")
		issued(added, org("system")).refused()
	})
})

var _ = Describe("Nobody", func() {
	It("sees whether the server is healthy, and nothing else", func() {
		for path, want := range map[string]int{
			"/healthz": http.StatusOK, "/livez": http.StatusOK, "/readyz": http.StatusOK, "/version": http.StatusOK,
			"/metrics": http.StatusForbidden, "/api": http.StatusForbidden, "/apis": http.StatusForbidden, "/openapi/v2": http.StatusForbidden,
			"/api/v1/namespaces": http.StatusForbidden, "/tenants/a/api/v1/namespaces": http.StatusForbidden,
			"/tenants/system/api": http.StatusForbidden, "/tenants/unknown/api": http.StatusForbidden,
		} {
			response, body := credentials{}.do(http.MethodGet, path, nil)
			Expect(response.StatusCode).To(Equal(want), "%s: %s", path, body)
		}
	})

	It("does not learn which tenants there are", func() {
		for _, path := range []string{"/version", "/healthz", "/api", "/api/v1/namespaces"} {
			known, knownBody := credentials{}.do(http.MethodGet, "/tenants/a"+path, nil)
			unknown, unknownBody := credentials{}.do(http.MethodGet, "/tenants/unknown"+path, nil)
			Expect(known.StatusCode).To(Equal(unknown.StatusCode), path)
			Expect(string(knownBody)).To(Equal(string(unknownBody)), path)
		}
	})
})

var _ = Describe("The tenant of a user", func() {
	It("is set by nothing that a client sends", func() {
		forged := []string{
			"Multi-Tenancy.k8s.io%2fTenant", "b", "X-Remote-User", "root", "X-Remote-Group", "system:masters",
			"X-Remote-Extra-Multi-Tenancy.k8s.io%2ftenant", "system", "X-Remote-Extra-Tenantry.io%2ftenant", "b",
		}
		for _, c := range []credentials{
			bearer("a-token"), basic("jane", "plain"), issued(issuer, org("a")),
			certificate(tenantsCA, pkix.Name{CommonName: "jane", Organization: []string{"tenant:a"}, OrganizationalUnit: []string{"developers"}}),
			reviewed("hook-headers", map[string]authenticationv1.ExtraValue{claimKey: {"a"}}),
		} {
			c.with(forged...).expect("jane", "a", "developers")
			for _, extra := range []string{"b", "system"} {
				for _, key := range []string{"Tenantry.io%2ftenant", "Multi-Tenancy.k8s.io%2ftenant"} {
					code, u := c.with("Impersonate-User", "joe", "Impersonate-Extra-"+key, extra).whoami()
					Expect(code).To(Equal(http.StatusForbidden), "%v", u)
				}
			}
		}
	})
})
