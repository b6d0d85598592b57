package authentication

import (
	"crypto/x509/pkix"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	authenticationv1 "k8s.io/api/authentication/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/transport"

	spacerbac "github.com/tenantry/tenantry/internal/spaces/rbac"
	"github.com/tenantry/tenantry/internal/tenant"
)

// as is what a request says that impersonates.
func (c credentials) as(name string, t tenant.Name, groups ...string) credentials {
	c = c.with(transport.ImpersonateUserHeader, name)
	if t != "" {
		c = c.with(transport.ImpersonateUserExtraHeaderPrefix+"Tenantry.io%2ftenant", string(t))
	}
	for _, group := range groups {
		c = c.with(transport.ImpersonateGroupHeader, group)
	}
	return c
}

// seen is what becomes of credentials: nobody, or a user with rights.
type seen struct {
	known  bool
	name   string
	groups []string
	tenant string
	rights []int
}

// seenIn returns what becomes of credentials in the space of t.
func (c credentials) seenIn(t tenant.Name) seen {
	GinkgoHelper()
	code, u := c.whoami()
	if code != http.StatusCreated {
		Expect(code).To(BeElementOf(http.StatusUnauthorized, http.StatusForbidden))
		return seen{}
	}
	result := seen{known: true, name: u.Username, groups: slices.Sorted(slices.Values(u.Groups)), tenant: strings.Join(u.Extra[tenant.UserExtraKey], "+")}
	for _, path := range []string{"configmaps", "services", "pods", "secrets", "endpoints"} {
		response, _ := c.do(http.MethodGet, "/tenants/"+string(t)+"/api/v1/namespaces/default/"+path, nil)
		result.rights = append(result.rights, response.StatusCode)
	}
	return result
}

var _ = Describe("An impersonated user", Ordered, func() {
	root := func() credentials {
		config := tenantry.User(tenant.System, "root", "system:masters")
		return credentials{cert: config.CertData, key: config.KeyData}
	}
	names := []string{"jane", "a:jane", "system:node:n", "system:masters", "system:kube-scheduler", "system:apiserver", "system:anonymous",
		"system:tenantry:publisher", "system:serviceaccount:default:robot", "system:serviceaccount:default", "System:node", "x"}
	groups := []string{"devs", "system:masters", "system:nodes", "system:serviceaccounts", "system:serviceaccounts:default",
		"system:serviceaccounts:kube-system", "system:authenticated", "system:unauthenticated", "System:nodes", "tenant:a", "system:"}

	BeforeAll(func(ctx SpecContext) {
		bindings := map[string]string{"configmaps": "system:nodes", "services": "system:serviceaccounts", "pods": "devs", "secrets": "system:unauthenticated", "endpoints": "system:authenticated"}
		for resource, group := range bindings {
			for _, t := range []tenant.Name{"a", "b"} {
				role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "oracle-" + resource},
					Rules: []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{resource}, Verbs: []string{"list"}}}}
				binding := &rbacv1.ClusterRoleBinding{ObjectMeta: role.ObjectMeta,
					RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
					Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: group}}}
				client := clientIn(t).RbacV1()
				_, err := client.ClusterRoles().Create(ctx, role, metav1.CreateOptions{})
				Expect(err).NotTo(HaveOccurred())
				_, err = client.ClusterRoleBindings().Create(ctx, binding, metav1.CreateOptions{})
				Expect(err).NotTo(HaveOccurred())
				DeferCleanup(func(ctx SpecContext) {
					Expect(client.ClusterRoleBindings().Delete(ctx, binding.Name, metav1.DeleteOptions{})).To(Succeed())
					Expect(client.ClusterRoles().Delete(ctx, role.Name, metav1.DeleteOptions{})).To(Succeed())
				})
			}
		}
	})

	It("is what it would be by its own credentials", func(ctx SpecContext) {
		newAccount(ctx, "a", "robot")
		newAccount(ctx, "b", "robot")
		robots := map[tenant.Name]credentials{}
		for _, t := range []tenant.Name{"a", "b"} {
			robots[t] = bearer(requestToken(ctx, t, "robot", authenticationv1.TokenRequestSpec{}))
		}
		random := rand.New(rand.NewPCG(11, 29))
		for range 150 {
			t := []tenant.Name{"a", "b"}[random.IntN(2)]
			name := names[random.IntN(len(names))]
			var some []string
			for _, i := range random.Perm(len(groups))[:random.IntN(4)] {
				some = append(some, groups[i])
			}
			own := robots[t]
			if name != "system:serviceaccount:default:robot" {
				own = certificate(tenantsCA, pkix.Name{CommonName: name, Organization: []string{"tenant:" + string(t)}, OrganizationalUnit: some})
			}
			want := own.seenIn(t)
			Expect(root().as(name, t, some...).seenIn(t)).To(Equal(want), "system user as %q of %q in %q", name, t, some)
			admin := tenantry.User(t, "admin")
			got := credentials{cert: admin.CertData, key: admin.KeyData}.as(name, "", some...).seenIn(t)
			if got.known { // a tenant's user may be refused what means nothing
				Expect(got).To(Equal(want), "administrator of %q as %q in %q", t, name, some)
			}
		}
	})

	It("has one tenant, in which there are users", func() {
		for _, none := range []tenant.Name{"all", "*", "A_B"} {
			Expect(root().as("jane", none).seenIn("a").known).To(BeFalse(), string(none))
		}
		Expect(root().as("jane", "a").as("jane", "b").seenIn("a").known).To(BeFalse())
	})

	It("in one space is none in another", func(ctx SpecContext) {
		_, err := tenantry.Tenants().Patch(ctx, "a", types.MergePatchType, []byte(`{"metadata":{"labels":{"oracle":"a"}}}`), metav1.PatchOptions{})
		Expect(err).NotTo(HaveOccurred())
		client := clientIn(tenant.System).RbacV1()
		give := func(name, selector string, rules ...rbacv1.PolicyRule) {
			scope := map[string]string{tenant.ScopeAnnotation: spacerbac.ScopeTenants}
			if selector != "" {
				scope[tenant.SelectorAnnotation] = selector
			}
			role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "oracle-" + name, Annotations: scope}, Rules: rules}
			_, err := client.ClusterRoles().Create(ctx, role, metav1.CreateOptions{})
			Expect(err).NotTo(HaveOccurred())
			_, err = client.ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: role.Name},
				RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
				Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: name}}}, metav1.CreateOptions{})
			Expect(err).NotTo(HaveOccurred())
			DeferCleanup(func(ctx SpecContext) {
				Expect(client.ClusterRoleBindings().Delete(ctx, role.Name, metav1.DeleteOptions{})).To(Succeed())
				Expect(client.ClusterRoles().Delete(ctx, role.Name, metav1.DeleteOptions{})).To(Succeed())
			})
		}
		pods := rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"list"}}
		give("helper", "", pods)
		give("support", "oracle=a",
			rbacv1.PolicyRule{APIGroups: []string{"authentication.k8s.io"}, Resources: []string{"users"}, Verbs: []string{"impersonate:user-info"}},
			rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"impersonate-on:user-info:list"}},
			rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"users"}, Verbs: []string{"impersonate"}})
		config := tenantry.User(tenant.System, "support")
		support := credentials{cert: config.CertData, key: config.KeyData}.as("helper", "")
		for t, want := range map[string]int{"a": http.StatusOK, "b": http.StatusForbidden} {
			// Twice and in both orders, in case that something remembers.
			for _, at := range []string{"a", t, "a", t} {
				response, body := support.do(http.MethodGet, "/tenants/"+at+"/api/v1/namespaces/default/pods", nil)
				if at == t {
					Expect(response.StatusCode).To(Equal(want), "in %s: %s", at, body)
				}
			}
		}
	})

	It("of a tenant is nobody by a right in the system space, where the URL names none", func(ctx SpecContext) {
		client := clientIn(tenant.System).RbacV1()
		role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "oracle-proxy"}, Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{""}, Resources: []string{"users", "groups"}, Verbs: []string{"impersonate"}},
			{APIGroups: []string{"authentication.k8s.io"}, Resources: []string{"*"}, Verbs: []string{"impersonate"}},
		}}
		_, err := client.ClusterRoles().Create(ctx, role, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		binding := &rbacv1.ClusterRoleBinding{ObjectMeta: role.ObjectMeta,
			RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
			Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "proxy"}}}
		_, err = client.ClusterRoleBindings().Create(ctx, binding, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(func(ctx SpecContext) {
			Expect(client.ClusterRoleBindings().Delete(ctx, role.Name, metav1.DeleteOptions{})).To(Succeed())
			Expect(client.ClusterRoles().Delete(ctx, role.Name, metav1.DeleteOptions{})).To(Succeed())
		})
		config := tenantry.User(tenant.System, "proxy")
		proxy := credentials{cert: config.CertData, key: config.KeyData}
		Eventually(func() bool { _, u := proxy.as("jane", "").whoami(); return u.Username == "jane" }).Should(BeTrue(), "a system user may be impersonated")

		for _, path := range []string{"/api/v1/namespaces/default/pods", "/tenants/a/api/v1/namespaces/default/pods"} {
			response, body := proxy.as("admin", "a").do(http.MethodGet, path, nil)
			Expect(response.StatusCode).To(Equal(http.StatusForbidden), "%s: %s", path, body)
			response, body = root().as("admin", "a").do(http.MethodGet, path, nil)
			Expect(response.StatusCode).To(Equal(http.StatusOK), "%s: %s", path, body)
		}

		role.Annotations = map[string]string{tenant.ScopeAnnotation: spacerbac.ScopeAll, tenant.SelectorAnnotation: "oracle=a"}
		_, err = client.ClusterRoles().Update(ctx, role, metav1.UpdateOptions{})
		Expect(err).NotTo(HaveOccurred())
		Eventually(func() int {
			response, _ := proxy.as("admin", "a").do(http.MethodGet, "/api/v1/namespaces/default/pods", nil)
			return response.StatusCode
		}).Should(Equal(http.StatusOK), "the right holds in the tenant")
		response, body := proxy.as("admin", "b").do(http.MethodGet, "/api/v1/namespaces/default/pods", nil)
		Expect(response.StatusCode).To(Equal(http.StatusForbidden), "another tenant: %s", body)
	})

	It("of a tenant is who may be become there, also where the URL names none", func(ctx SpecContext) {
		_, err := tenantry.Tenants().Patch(ctx, "a", types.MergePatchType, []byte(`{"metadata":{"labels":{"oracle":"a"}}}`), metav1.PatchOptions{})
		Expect(err).NotTo(HaveOccurred())
		client := clientIn(tenant.System).RbacV1()
		give := func(name string, annotations map[string]string, rules ...rbacv1.PolicyRule) {
			role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: annotations}, Rules: rules}
			_, err := client.ClusterRoles().Create(ctx, role, metav1.CreateOptions{})
			Expect(err).NotTo(HaveOccurred())
			_, err = client.ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: name},
				RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
				Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "desk"}}}, metav1.CreateOptions{})
			Expect(err).NotTo(HaveOccurred())
			DeferCleanup(func(ctx SpecContext) {
				Expect(client.ClusterRoleBindings().Delete(ctx, name, metav1.DeleteOptions{})).To(Succeed())
				Expect(client.ClusterRoles().Delete(ctx, name, metav1.DeleteOptions{})).To(Succeed())
			})
		}
		impersonate := func(group, resource string, names ...string) rbacv1.PolicyRule {
			return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: []string{resource}, ResourceNames: names, Verbs: []string{"impersonate"}}
		}
		give("oracle-viewers", map[string]string{tenant.ScopeAnnotation: spacerbac.ScopeTenants, tenant.SelectorAnnotation: "oracle=a"},
			impersonate("", "users", "viewer"), impersonate("", "groups", "readers"),
			impersonate(authenticationv1.GroupName, "userextras/"+tenant.UserExtraKey, "a", "b", "system"), impersonate(authenticationv1.GroupName, "userextras/scopes", "view"))
		give("oracle-robots", nil, impersonate("", "users", "admin"), impersonate("", "groups", "system:masters", "devs"), impersonate("", "serviceaccounts"),
			impersonate(authenticationv1.GroupName, "uids"), impersonate(authenticationv1.GroupName, "userextras/scopes", "edit"))
		config := tenantry.User(tenant.System, "desk")
		desk := credentials{cert: config.CertData, key: config.KeyData}
		scopes := transport.ImpersonateUserExtraHeaderPrefix + "scopes"
		code := func(c credentials) int { code, _ := c.whoami(); return code }

		Eventually(code).WithArguments(desk.as("viewer", "a", "readers").with(scopes, "view")).Should(Equal(http.StatusCreated))
		_, u := desk.as("viewer", "a", "readers").whoami()
		Expect(u.Extra[tenant.UserExtraKey]).To(HaveExactElements("a"))
		Eventually(code).WithArguments(desk.as("admin", "", "devs").with(scopes, "edit")).Should(Equal(http.StatusCreated), "a system user")
		for name, c := range map[string]credentials{
			"another user":               desk.as("admin", "a"),
			"a group":                    desk.as("viewer", "a", "devs"),
			"a privileged group":         desk.as("viewer", "a", "system:masters"),
			"a service account":          desk.as("system:serviceaccount:default:robot", "a"),
			"a UID":                      desk.as("viewer", "a").with(transport.ImpersonateUIDHeader, "1"),
			"another extra":              desk.as("viewer", "a").with(scopes, "edit"),
			"a user of another tenant":   desk.as("viewer", "b"),
			"a user of two":              desk.as("viewer", "a").as("viewer", "system"),
			"the system user":            desk.as("viewer", "system"),
			"a system user, by spelling": desk.as("viewer", "").with(transport.ImpersonateUserExtraHeaderPrefix+"%54enantry.io%2ftenant", "a"),
		} {
			code, u := c.whoami()
			Expect(code).To(Equal(http.StatusForbidden), "%s: %v", name, u)
		}
	})
})
