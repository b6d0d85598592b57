package authorization

import (
	"net/http"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/tenantry/tenantry/internal/tenant"
	"github.com/tenantry/tenantry/test/env/suite"
)

// Acceptance line 24.
var _ = Describe("A tenant's administrator", func() {
	DescribeTable("does not reach what is the system's", func(ctx SpecContext, method, path string) {
		admin := tenantry.Config("a")
		forms := []string{path, "/tenants/a" + path, "/tenants/system" + path, "/tenants/all" + path, "/tenants/*" + path, "//" + path[1:],
			strings.ToUpper(path), path + "/", "/tenants/a/" + path, "/tenants/a/./" + path[1:], "/tenants/a/..%2f" + path[1:]}
		if group, rest, ok := strings.Cut(path, "/v1/"); ok {
			forms = append(forms, group+"/v1/tenants/a/"+rest, group+"/v1/tenants/system/"+rest)
		}
		for _, form := range forms {
			status, body := send(ctx, admin, method, form, "{}")
			Expect(status).To(BeElementOf(http.StatusBadRequest, http.StatusForbidden, http.StatusNotFound, http.StatusMethodNotAllowed), "%s %s: %s", method, form, body)
		}
	},
		Entry("nodes", http.MethodGet, "/api/v1/nodes"),
		Entry("a node", http.MethodPost, "/api/v1/nodes"),
		Entry("proxies to nodes", http.MethodGet, "/api/v1/nodes/n1/proxy/"),
		Entry("status of nodes", http.MethodPut, "/api/v1/nodes/n1/status"),
		Entry("Tenants", http.MethodGet, "/apis/tenantry.io/v1alpha1/tenants"),
		Entry("another Tenant", http.MethodGet, "/api/v1/tenants/b"),
		Entry("its own Tenant", http.MethodDelete, "/api/v1/tenants/a"),
		Entry("its own end", http.MethodPut, "/api/v1/tenants/a/finalize"),
		Entry("APIServices", http.MethodPost, "/apis/apiregistration.k8s.io/v1/apiservices"),
		Entry("an APIService", http.MethodPut, "/apis/apiregistration.k8s.io/v1/apiservices/v1.apps"),
		Entry("metrics", http.MethodGet, "/metrics"),
		Entry("profiles", http.MethodGet, "/debug/pprof/heap"),
		Entry("flow control", http.MethodGet, "/debug/api_priority_and_fairness/dump_requests"),
		Entry("logs", http.MethodGet, "/logs/"),
		Entry("configuration", http.MethodGet, "/configz"),
		Entry("component statuses", http.MethodGet, "/api/v1/componentstatuses/etcd-0"),
	)
})

// Acceptance line 25.
var _ = DescribeTable("A certificate of a tenant gives nothing by", func(ctx SpecContext, groups ...string) {
	mallory := who{tenant: "a", name: "mallory", groups: groups}
	for _, space := range []tenant.Name{"a", "b", tenant.System, suite.All} {
		for _, resource := range []string{"secrets", "nodes", "pods", "clusterrolebindings.rbac.authorization.k8s.io"} {
			path, group, _ := strings.Cut(resource, ".")
			path = "/" + path
			if group == "" {
				path = "/api/v1" + path
			} else {
				path = "/apis/" + group + "/v1" + path
			}
			status, body := send(ctx, mallory.config(), http.MethodGet, "/tenants/"+space.String()+path, "")
			Expect(status).To(Equal(http.StatusForbidden), "%s in %s: %s", resource, space, body)
		}
	}
	Expect(can(ctx, mallory.in("a"), authorizationv1.ResourceAttributes{Verb: "get", Resource: "pods", Namespace: "default"})).To(BeFalse())
},
	Entry("system:masters", "system:masters"),
	Entry("system:nodes", "system:nodes"),
	Entry("all of them", "system:masters", "system:nodes", "system:bootstrappers", "system:monitoring", "system:kube-controller-manager"),
)

// Acceptance line 26.
var _ = Describe("RBAC", func() {
	It("gives nothing in another space", func(ctx SpecContext) {
		give(ctx, tenantry.Client(tenant.System), clusterRole("here", nil, rule("*", "*")), "wanderer")
		give(ctx, tenantry.Client("a"), clusterRole("here", nil, rule("pods", "list")), "stayer")

		inSystem := who{tenant: tenant.System, name: "wanderer"}
		_, err := inSystem.in(tenant.System).CoreV1().Secrets("").List(ctx, metav1.ListOptions{})
		Expect(err).NotTo(HaveOccurred())
		for _, space := range []tenant.Name{"a", "b", suite.All} {
			_, err := inSystem.in(space).CoreV1().Secrets("").List(ctx, metav1.ListOptions{})
			Expect(err).To(beForbidden, space.String())
		}
		_, err = who{tenant: "a", name: "stayer"}.in("a").CoreV1().Pods("").List(ctx, metav1.ListOptions{})
		Expect(err).NotTo(HaveOccurred())
		for _, user := range []who{{tenant: "b", name: "stayer"}, {tenant: tenant.System, name: "stayer"}} {
			_, err := user.in(user.tenant).CoreV1().Pods("").List(ctx, metav1.ListOptions{})
			Expect(err).To(beForbidden, user.tenant.String())
		}
		_, err = who{tenant: tenant.System, name: "stayer"}.in("a").CoreV1().Pods("").List(ctx, metav1.ListOptions{})
		Expect(err).To(beForbidden, "a system user of the name in a")
	}, SpecTimeout(specTimeout))

	It("knows service accounts of the space alone", func(ctx SpecContext) {
		// The system space and every tenant have an account of this name.
		const account = "system:serviceaccount:default:default"
		give(ctx, tenantry.Client("a"), clusterRole("accounts", nil, rule("pods", "list")), account)
		token := func(n tenant.Name) *rest.Config {
			GinkgoHelper()
			client := tenantry.Client(tenant.System)
			if n != tenant.System {
				client = tenantry.Client(n)
			}
			var request *authenticationv1.TokenRequest
			Eventually(func() (err error) {
				request, err = client.CoreV1().ServiceAccounts("default").CreateToken(ctx, "default", &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
				return err
			}).Should(Succeed())
			config := rest.AnonymousClientConfig(tenantry.ShortPath(tenantry.Config(tenant.System)))
			config.BearerToken = request.Status.Token
			return config
		}
		Expect(statusOf(ctx, token("a"), "/api/v1/pods")()).To(Equal(http.StatusOK))
		for _, n := range []tenant.Name{"b", tenant.System} {
			Expect(statusOf(ctx, token(n), "/api/v1/tenants/a/pods")()).To(Equal(http.StatusForbidden), n.String())
			Expect(statusOf(ctx, token(n), "/api/v1/pods")()).To(Equal(http.StatusForbidden), n.String())
		}
	}, SpecTimeout(specTimeout))

	It("is decided by what has just been written", func(ctx SpecContext) {
		admin, guest := tenantry.Client("a"), who{tenant: "a", name: "guest"}.in("a").CoreV1().Pods("default")
		list := func() error {
			_, err := guest.List(ctx, metav1.ListOptions{})
			return err
		}
		binding := &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "guests"}, RoleRef: bindingTo("view", "").RoleRef, Subjects: bindingTo("", "guest").Subjects}
		for range 20 {
			_, err := admin.RbacV1().RoleBindings("default").Create(ctx, binding, metav1.CreateOptions{})
			Expect(err).NotTo(HaveOccurred())
			Expect(list()).To(Succeed())
			Expect(admin.RbacV1().RoleBindings("default").Delete(ctx, binding.Name, metav1.DeleteOptions{})).To(Succeed())
			Expect(list()).To(beForbidden)
		}
	}, SpecTimeout(specTimeout))

	It("checks escalation with what a user has in the space", func(ctx SpecContext) {
		// In b and in the system space users of that name may do everything.
		for _, space := range []tenant.Name{"b", tenant.System} {
			client := tenantry.Client("b")
			if space == tenant.System {
				client = tenantry.Client(tenant.System)
			}
			give(ctx, client, clusterRole("everything", nil, rule("*", "*")), "climber")
		}
		give(ctx, tenantry.Client("a"), clusterRole("climbing", nil, rule("pods", "get"),
			rule("clusterroles", "create"), rule("clusterrolebindings", "create")), "climber")
		climber := who{tenant: "a", name: "climber"}.in("a")
		_, err := climber.RbacV1().ClusterRoles().Create(ctx, clusterRole("higher", nil, rule("secrets", "get")), metav1.CreateOptions{})
		Expect(err).To(beForbidden)
		_, err = climber.RbacV1().ClusterRoleBindings().Create(ctx, bindingTo("cluster-admin", "climber"), metav1.CreateOptions{})
		Expect(err).To(beForbidden)
		_, err = climber.RbacV1().ClusterRoles().Create(ctx, clusterRole("as-high", nil, rule("pods", "get")), metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
	}, SpecTimeout(specTimeout))
})

var _ = Describe("A ClusterRole of the system space", func() {
	const scope, selector = tenant.ScopeAnnotation, tenant.SelectorAnnotation

	It("holds where its scope says, from the next request on", func(ctx SpecContext) {
		give(ctx, tenantry.Client(tenant.System), clusterRole("operators", map[string]string{scope: "Tenants", selector: "region=eu"}, rule("secrets", "list")), "operator")
		annotate := func(annotations string) {
			GinkgoHelper()
			status, body := send(ctx, tenantry.Config(tenant.System), http.MethodPatch, "/apis/rbac.authorization.k8s.io/v1/clusterroles/operators",
				`{"metadata":{"annotations":`+annotations+`}}`)
			Expect(status).To(Equal(http.StatusOK), body)
		}
		label := func(name, region string) {
			GinkgoHelper()
			status, body := send(ctx, tenantry.Config(tenant.System), http.MethodPatch, "/api/v1/tenants/"+name, `{"metadata":{"labels":{"region":`+region+`}}}`)
			Expect(status).To(Equal(http.StatusOK), body)
		}
		reach := func() map[tenant.Name]bool {
			reached := map[tenant.Name]bool{}
			for _, space := range []tenant.Name{"a", "b", tenant.System, suite.All} {
				_, err := who{tenant: tenant.System, name: "operator"}.in(space).CoreV1().Secrets("").List(ctx, metav1.ListOptions{})
				reached[space] = err == nil
			}
			return reached
		}
		Expect(reach()).To(Equal(map[tenant.Name]bool{"a": false, "b": false, "system": false, "all": false}))
		label("a", `"eu"`)
		Expect(reach()).To(Equal(map[tenant.Name]bool{"a": true, "b": false, "system": false, "all": false}))
		annotate(`{"` + selector + `":null}`)
		Expect(reach()).To(Equal(map[tenant.Name]bool{"a": true, "b": true, "system": false, "all": true}))
		annotate(`{"` + scope + `":"All","` + selector + `":"region=eu"}`)
		Expect(reach()).To(Equal(map[tenant.Name]bool{"a": true, "b": false, "system": true, "all": false}))
		label("a", "null")
		Expect(reach()).To(Equal(map[tenant.Name]bool{"a": false, "b": false, "system": true, "all": false}))
		// The annotations of older versions hold as they did.
		annotate(`{"` + scope + `":null,"` + selector + `":null,"` + tenant.Former(scope) + `":"Tenants","` + tenant.Former(selector) + `":"tier!=x"}`)
		Expect(reach()).To(Equal(map[tenant.Name]bool{"a": true, "b": true, "system": false, "all": false}))
		annotate(`{"` + tenant.Former(scope) + `":null,"` + tenant.Former(selector) + `":null}`)
		Expect(reach()).To(Equal(map[tenant.Name]bool{"a": false, "b": false, "system": true, "all": false}))
	}, SpecTimeout(specTimeout))

	It("is given a scope by those only who may", func(ctx SpecContext) {
		give(ctx, tenantry.Client(tenant.System), clusterRole("writers", nil, rule("clusterroles", "create", "update", "patch", "get"),
			rule("clusterrolebindings", "create"), rule("secrets", "list")), "writer")
		give(ctx, tenantry.Client(tenant.System), clusterRole("given", map[string]string{scope: "All"}, rule("secrets", "list")), "somebody")
		writer := who{tenant: tenant.System, name: "writer"}.in(tenant.System).RbacV1()
		_, err := writer.ClusterRoles().Create(ctx, clusterRole("plain", nil, rule("secrets", "list")), metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		for _, key := range []string{scope, tenant.Former(scope)} {
			_, err = writer.ClusterRoles().Create(ctx, clusterRole("wide", map[string]string{key: "Tenants"}, rule("secrets", "list")), metav1.CreateOptions{})
			Expect(err).To(MatchError(ContainSubstring("needs the verb escalate")))
		}
		_, err = writer.ClusterRoles().Update(ctx, clusterRole("plain", map[string]string{scope: "All"}, rule("secrets", "list")), metav1.UpdateOptions{})
		Expect(err).To(MatchError(ContainSubstring("needs the verb escalate")))
		_, err = writer.ClusterRoles().Update(ctx, clusterRole("given", map[string]string{scope: "All"}), metav1.UpdateOptions{})
		Expect(err).To(MatchError(ContainSubstring("needs the verb escalate")))
		_, err = writer.ClusterRoleBindings().Create(ctx, bindingTo("given", "writer"), metav1.CreateOptions{})
		Expect(err).To(MatchError(ContainSubstring("needs the verb bind")))
		_, err = tenantry.Client(tenant.System).RbacV1().ClusterRoles().Create(ctx, clusterRole("wrong", map[string]string{scope: "Everywhere"}), metav1.CreateOptions{})
		Expect(err).To(MatchError(ContainSubstring("must be System, Tenants or All")))
	}, SpecTimeout(specTimeout))
})
