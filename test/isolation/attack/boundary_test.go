package attack

import (
	"context"
	"net/http"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/tenantry/tenantry/internal/tenant"
	"github.com/tenantry/tenantry/test/env/suite"
)

// tokenOf returns a config of a service account of a tenant.
func tokenOf(ctx context.Context, n tenant.Name, account string) *rest.Config {
	GinkgoHelper()
	config := tenantry.Config(n)
	token, err := suite.Client(config).CoreV1().ServiceAccounts("default").CreateToken(ctx, account, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	config = rest.AnonymousClientConfig(config)
	config.BearerToken = token.Status.Token
	return config
}

// secretTokenOf returns a config of a service account of a tenant, by a token that does
// not say when it was issued.
func secretTokenOf(ctx context.Context, n tenant.Name, account string) *rest.Config {
	GinkgoHelper()
	config := tenantry.Config(n)
	secrets := suite.Client(config).CoreV1().Secrets("default")
	_, err := secrets.Create(ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "token", Annotations: map[string]string{corev1.ServiceAccountNameKey: account}},
		Type:       corev1.SecretTypeServiceAccountToken,
	}, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	config = rest.AnonymousClientConfig(config)
	Eventually(func() (string, error) {
		secret, err := secrets.Get(ctx, "token", metav1.GetOptions{})
		if err == nil {
			config.BearerToken = string(secret.Data[corev1.ServiceAccountTokenKey])
		}
		return config.BearerToken, err
	}).ShouldNot(BeEmpty())
	return config
}

var _ = Describe("The boundary of tenant a", Ordered, func() {
	var endpoints []endpoint
	var before map[string]int64

	BeforeAll(func(ctx SpecContext) {
		endpoints = surface(tenantry.Config("a"))
		before = versions(ctx)
	})
	AfterAll(func(ctx SpecContext) {
		Expect(versions(ctx)).To(Equal(before), "objects in etcd")
	})

	DescribeTable("holds for every verb, resource and form of URL against", func(ctx SpecContext, config func(context.Context) *rest.Config) {
		w := newWire(config(ctx))
		for _, e := range endpoints {
			bodies := map[string]string{}
			for _, other := range []string{"b", "nobody", "system", "all", "everything"} {
				for form, calls := range map[string][]call{"root": e.calls("/tenants/"+other, ""), "full": e.calls("", "/tenants/"+other)} {
					for _, c := range calls {
						got := w.send(ctx, c, nil)
						Expect(got.status).To(Equal(http.StatusForbidden), "%s %s: %s", c.method, c.path, got.body)
						Expect(got.body).NotTo(ContainSubstring(canary))
						// Who is there and who is not must look the same.
						at := form + " " + c.verb
						if known, ok := bodies[at]; ok {
							Expect(got.body).To(Equal(known), "%s %s", c.method, c.path)
						}
						bodies[at] = got.body
					}
				}
			}
		}
	},
		Entry("its administrator", NodeTimeout(5*time.Minute), func(context.Context) *rest.Config { return tenantry.Config("a") }),
		Entry("a user in system:masters", NodeTimeout(5*time.Minute), func(context.Context) *rest.Config { return tenantry.User("a", "admin", "system:masters") }),
		Entry("a user in the groups of nodes and components", NodeTimeout(5*time.Minute), func(context.Context) *rest.Config {
			return tenantry.User("a", "admin", "system:nodes", "system:kube-controller-manager", "system:serviceaccounts", "system:authenticated")
		}),
		Entry("a service account that b has too", NodeTimeout(5*time.Minute), func(ctx context.Context) *rest.Config { return tokenOf(ctx, "a", robot) }),
	)

	It("gives privileged groups of a tenant nothing", func(ctx SpecContext) {
		plain := newWire(tenantry.User("a", "somebody"))
		privileged := newWire(tenantry.User("a", "somebody", "system:masters", "system:nodes", "system:kube-controller-manager", "system:kube-scheduler"))
		for _, e := range endpoints {
			for _, c := range e.calls("", "") {
				if c.method != http.MethodGet {
					continue // what one is refused, the other must be; nothing is changed
				}
				Expect(privileged.send(ctx, c, nil)).To(Equal(plain.send(ctx, c, nil)), "%s %s", c.method, c.path)
			}
		}
	}, NodeTimeout(time.Minute))

	It("is not crossed by a user with a name of the system", func(ctx SpecContext) {
		for _, name := range []string{"system:apiserver", "system:node:n", "system:kube-controller-manager", "system:serviceaccount:default:robot", "system:anonymous"} {
			got := newWire(tenantry.User("a", name, "system:masters", "system:nodes")).send(ctx, call{method: http.MethodGet, path: "/api/v1/namespaces"}, nil)
			Expect(got.status).To(Equal(http.StatusUnauthorized), "%s: %s", name, got.body)
			Expect(got.body).NotTo(ContainSubstring(name), "the reason is for the log")
		}
	})

	It("ends with the tenant: its credentials are nobody's when another one has its name", func(ctx SpecContext) {
		const n = "phoenix"
		system := tenantry.Config(tenant.System)
		tenantry.CreateTenants(ctx, n)
		seed(ctx, tenantry.Config(n), "first")
		olds := map[string]*wire{"certificate": newWire(tenantry.Config(n)), "token": newWire(tokenOf(ctx, n, robot)),
			"token of a secret": newWire(secretTokenOf(ctx, n, robot))}
		secrets := call{method: http.MethodGet, path: "/api/v1/namespaces/default/secrets"}
		for kind, old := range olds {
			Expect(old.send(ctx, secrets, nil).status).To(Equal(http.StatusOK), kind)
		}
		tenantObject := call{method: http.MethodDelete, path: "/api/v1/tenants/" + n}
		root := newWire(system)
		Expect(root.send(ctx, tenantObject, nil).status).To(Equal(http.StatusOK))
		tenantObject.method = http.MethodGet
		Eventually(func() int { return root.send(ctx, tenantObject, nil).status }).WithTimeout(time.Minute).Should(Equal(http.StatusNotFound))
		for kind, old := range olds {
			Expect(old.send(ctx, secrets, nil).status).To(BeElementOf(http.StatusUnauthorized, http.StatusForbidden), "%s of no tenant", kind)
		}

		tenantry.CreateTenants(ctx, n)
		seed(ctx, tenantry.Config(n), canary)
		for kind, old := range olds {
			got := old.send(ctx, secrets, nil)
			Expect(got.status).To(Equal(http.StatusUnauthorized), "%s: %s", kind, got.body)
			Expect(got.body).NotTo(ContainSubstring(canary))
		}
		Expect(newWire(tenantry.Config(n)).send(ctx, secrets, nil).status).To(Equal(http.StatusOK), "a new certificate")
		Expect(newWire(tokenOf(ctx, n, robot)).send(ctx, secrets, nil).status).To(Equal(http.StatusOK), "a new token")
		tenantObject.method = http.MethodDelete
		Expect(root.send(ctx, tenantObject, nil).status).To(Equal(http.StatusOK))
		tenantObject.method = http.MethodGet
		Eventually(func() int { return root.send(ctx, tenantObject, nil).status }).WithTimeout(time.Minute).Should(Equal(http.StatusNotFound))
	}, NodeTimeout(3*time.Minute))
})
