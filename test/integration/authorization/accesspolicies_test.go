package authorization

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/apimachinery/pkg/watch"
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/rest"

	"github.com/tenantry/tenantry/api/v1alpha1"
	"github.com/tenantry/tenantry/internal/tenant"
)

const collection = "/apis/tenantry.io/v1alpha1/tenantaccesspolicies"

func accessPolicy(name string, to tenant.Name, userName string, rules ...v1alpha1.AccessRule) *v1alpha1.TenantAccessPolicy {
	return &v1alpha1.TenantAccessPolicy{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "TenantAccessPolicy"},
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: v1alpha1.TenantAccessPolicySpec{
			Subjects: []v1alpha1.ForeignSubject{{Tenant: to.String(), Kind: v1alpha1.SubjectUser, Name: userName}},
			Rules:    rules,
		},
	}
}

func accessRule(namespace, resource string, verbs ...string) v1alpha1.AccessRule {
	return v1alpha1.AccessRule{Verbs: verbs, APIGroups: []string{""}, Resources: []string{resource}, Namespaces: []string{namespace}}
}

// grant creates a policy in the space of n and removes it when the spec ends.
func grant(ctx context.Context, n tenant.Name, p *v1alpha1.TenantAccessPolicy) {
	GinkgoHelper()
	config := tenantry.Config(n)
	status, body := send(ctx, config, http.MethodPost, collection, encode(p))
	Expect(status).To(Equal(http.StatusCreated), body)
	DeferCleanup(func(ctx SpecContext) {
		status, body := send(ctx, config, http.MethodDelete, collection+"/"+p.Name, "")
		Expect(status).To(BeElementOf(http.StatusOK, http.StatusNotFound), body)
	})
}

// statusOf returns the status of a GET.
func statusOf(ctx context.Context, config *rest.Config, path string) func() int {
	return func() int {
		status, _ := send(ctx, config, http.MethodGet, path, "")
		return status
	}
}

// Acceptance line 30.
var _ = Describe("A TenantAccessPolicy", func() {
	bob := who{tenant: "b", name: "bob"}

	// space returns a new tenant that has given bob the pods of a namespace to
	// read and one of its secrets.
	space := func(ctx context.Context) tenant.Name {
		GinkgoHelper()
		n := tenant.Name("t-" + string(uuid.NewUUID())[:8])
		tenantry.CreateTenants(ctx, n)
		client := tenantry.Client(n)
		for _, namespace := range []string{"x", "y"} {
			_, err := client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{})
			Expect(err).NotTo(HaveOccurred())
			for _, name := range []string{"shared", "private"} {
				_, err = client.CoreV1().Secrets(namespace).Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
				Expect(err).NotTo(HaveOccurred())
			}
		}
		shared := accessRule("x", "secrets", "get")
		shared.ResourceNames = []string{"shared"}
		grant(ctx, n, accessPolicy("bobs", "b", bob.name, accessRule("x", "pods", "get", "list"), shared))
		return n
	}

	It("grants exactly what it says, by every form of URL", func(ctx SpecContext) {
		n := space(ctx).String()
		config := bob.config()
		for _, prefix := range []string{"/tenants/" + n + "/api/v1", "/api/v1/tenants/" + n} {
			for path, want := range map[string]int{
				"/namespaces/x/pods":                  http.StatusOK,
				"/namespaces/x/pods/none":             http.StatusNotFound,
				"/namespaces/x/secrets/shared":        http.StatusOK,
				"/namespaces/x/secrets/private":       http.StatusForbidden,
				"/namespaces/x/secrets":               http.StatusForbidden,
				"/namespaces/y/secrets/shared":        http.StatusForbidden,
				"/namespaces/y/pods":                  http.StatusForbidden,
				"/namespaces/x/pods?watch=true":       http.StatusForbidden,
				"/namespaces/x/pods/none/log":         http.StatusForbidden,
				"/namespaces/x/configmaps":            http.StatusForbidden,
				"/namespaces/x":                       http.StatusForbidden,
				"/namespaces":                         http.StatusForbidden,
				"/pods":                               http.StatusForbidden,
				"/nodes":                              http.StatusForbidden,
				"/watch/namespaces/x/pods":            http.StatusForbidden,
				"/namespaces/x/services/none/proxy/":  http.StatusForbidden,
				"/namespaces/x/secrets/shared/status": http.StatusForbidden,
			} {
				if prefix == "/api/v1/tenants/"+n && path == "/namespaces/x/services/none/proxy/" {
					continue
				}
				status, body := send(ctx, config, http.MethodGet, prefix+path, "")
				Expect(status).To(Equal(want), "%s%s: %s", prefix, path, body)
			}
			for _, write := range []string{http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete} {
				for _, path := range []string{"/namespaces/x/pods", "/namespaces/x/pods/p", "/namespaces/x/secrets/shared"} {
					status, body := send(ctx, config, write, prefix+path, encode(pod("p")))
					Expect(status).To(BeElementOf(http.StatusForbidden, http.StatusMethodNotAllowed), "%s %s%s: %s", write, prefix, path, body)
				}
			}
		}
		for _, other := range []who{{tenant: "b", name: "alice"}, {tenant: "a", name: "bob"}} {
			Expect(statusOf(ctx, other.config(), "/tenants/"+n+"/api/v1/namespaces/x/pods")()).To(Equal(http.StatusForbidden))
		}
	}, SpecTimeout(specTimeout))

	It("gives no identity of the space", func(ctx SpecContext) {
		n := space(ctx)
		root, config := "/tenants/"+n.String(), bob.config()
		// The space's own bob may do everything, and the visitor is not him.
		_, err := tenantry.Client(n).RbacV1().ClusterRoleBindings().Create(ctx, bindingTo("cluster-admin", "bob"), metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(statusOf(ctx, who{tenant: n, name: "bob"}.config(), "/api/v1/secrets")()).To(Equal(http.StatusOK))
		everything := accessPolicy("everything", "b", "bob", v1alpha1.AccessRule{
			Verbs:     []string{"get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"},
			APIGroups: []string{"*"}, Resources: []string{"*"}, Namespaces: []string{"*"},
		})
		grant(ctx, n, everything)
		Expect(statusOf(ctx, config, root+"/api/v1/secrets")()).To(Equal(http.StatusOK))
		status, body := send(ctx, config, http.MethodPost, root+"/api/v1/namespaces/y/configmaps", encode(configMap("mine")))
		Expect(status).To(Equal(http.StatusCreated), body)

		const rbac = "/apis/rbac.authorization.k8s.io/v1"
		for name, attempt := range map[string]struct{ method, path, body string }{
			"a binding":     {http.MethodPost, rbac + "/clusterrolebindings", encode(bindingTo("cluster-admin", "mallory"))},
			"a role":        {http.MethodPost, rbac + "/clusterroles", encode(clusterRole("mine", nil, rule("*", "*")))},
			"a policy":      {http.MethodPost, collection, encode(accessPolicy("more", "a", "mallory", accessRule("*", "*", "get")))},
			"its own":       {http.MethodPatch, collection + "/everything", `{"metadata":{"labels":{"a":"b"}}}`},
			"a token":       {http.MethodPost, "/api/v1/namespaces/x/serviceaccounts/default/token", `{"apiVersion":"authentication.k8s.io/v1","kind":"TokenRequest","spec":{}}`},
			"a certificate": {http.MethodPost, "/apis/certificates.k8s.io/v1/certificatesigningrequests", `{}`},
			"a review":      {http.MethodPost, "/apis/authorization.k8s.io/v1/subjectaccessreviews", `{"spec":{"user":"bob","nonResourceAttributes":{"path":"/","verb":"get"}}}`},
			"a token's":     {http.MethodPost, "/apis/authentication.k8s.io/v1/tokenreviews", `{"spec":{"token":"x"}}`},
			"metrics":       {http.MethodGet, "/metrics", ""},
			"the Tenant":    {http.MethodGet, "/apis/tenantry.io/v1alpha1/tenants/" + n.String(), ""},
		} {
			status, body := send(ctx, config, attempt.method, root+attempt.path, attempt.body)
			Expect(status).To(BeElementOf(http.StatusForbidden, http.StatusNotFound), "%s: %s", name, body)
		}
		for _, headers := range [][]string{
			{"Impersonate-User", "admin"},
			{"Impersonate-User", "bob", "Impersonate-Extra-Tenantry.io%2ftenant", n.String()},
			{"Impersonate-User", "bob", "Impersonate-Extra-Multi-Tenancy.k8s.io%2ftenant", n.String()},
			{"Impersonate-User", "system:serviceaccount:x:default"},
			{"Impersonate-User", "bob", "Impersonate-Group", "system:masters"},
		} {
			status, body := send(ctx, config, http.MethodGet, root+"/api/v1/namespaces/x/pods", "", headers...)
			Expect(status).To(Equal(http.StatusForbidden), "%v: %s", headers, body)
		}
		for _, other := range []string{"a", "system", "all"} {
			Expect(statusOf(ctx, config, "/tenants/"+other+"/api/v1/pods")()).To(Equal(http.StatusForbidden), other)
		}
		// The object is the space's, and so is what it costs.
		created, err := tenantry.Client(n).CoreV1().ConfigMaps("y").Get(ctx, "mine", metav1.GetOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(created.Annotations).To(HaveKeyWithValue(tenant.Annotation, n.String()))
	}, SpecTimeout(specTimeout))

	It("grants watches and every kind of write, if it says so", func(ctx SpecContext) {
		n := space(ctx)
		grant(ctx, n, accessPolicy("writers", "b", "bob", accessRule("y", "configmaps", "get", "list", "watch", "create", "update", "patch", "delete")))
		configMaps := bob.in(n).CoreV1().ConfigMaps("y")
		watcher, err := configMaps.Watch(ctx, metav1.ListOptions{FieldSelector: "metadata.name=mine"})
		Expect(err).NotTo(HaveOccurred())
		defer watcher.Stop()
		created, err := configMaps.Create(ctx, configMap("mine"), metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		created.Data = map[string]string{"a": "b"}
		_, err = configMaps.Update(ctx, created, metav1.UpdateOptions{})
		Expect(err).NotTo(HaveOccurred())
		_, err = configMaps.Apply(ctx, applycorev1.ConfigMap("mine", "y").WithData(map[string]string{"c": "d"}), metav1.ApplyOptions{FieldManager: "bob"})
		Expect(err).NotTo(HaveOccurred())
		Expect(configMaps.Delete(ctx, "mine", metav1.DeleteOptions{})).To(Succeed())
		for _, want := range []watch.EventType{watch.Added, watch.Modified, watch.Modified, watch.Deleted} {
			var event watch.Event
			Eventually(ctx, watcher.ResultChan()).Should(Receive(&event))
			Expect(event.Type).To(Equal(want))
		}
		Expect(configMaps.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{})).To(beForbidden)
	}, SpecTimeout(specTimeout))

	It("shows a status that nobody writes", func(ctx SpecContext) {
		n := space(ctx)
		grant(ctx, n, accessPolicy("sealed", "b", bob.name, accessRule("x", "pods", "get")))
		const forged = `{"status":{"grantees":[{"tenant":"b","seal":"forged"}]}}`
		for _, config := range []*rest.Config{tenantry.Config(n), tenantry.Config(tenant.System)} {
			status, before := send(ctx, config, http.MethodGet, "/tenants/"+n.String()+collection+"/sealed/status", "")
			Expect(status).To(Equal(http.StatusOK), before)
			Expect(before).To(ContainSubstring(`"seal"`))
			for _, method := range []string{http.MethodPatch, http.MethodPut} {
				status, body := send(ctx, config, method, "/tenants/"+n.String()+collection+"/sealed/status", forged)
				Expect(status).To(Equal(http.StatusMethodNotAllowed), body)
			}
			status, body := send(ctx, config, http.MethodPatch, "/tenants/"+n.String()+collection+"/sealed", forged)
			Expect(status).To(Equal(http.StatusOK), body)
			Expect(body).NotTo(ContainSubstring("forged"))
		}
	}, SpecTimeout(specTimeout))

	It("lets clients find their way and ask", func(ctx SpecContext) {
		n := space(ctx)
		client := bob.in(n)
		_, resources, err := client.Discovery().ServerGroupsAndResources()
		Expect(err).NotTo(HaveOccurred())
		Expect(resources).NotTo(BeEmpty())
		_, err = client.Discovery().OpenAPIV3().Paths()
		Expect(err).NotTo(HaveOccurred())
		Expect(can(ctx, client, authorizationv1.ResourceAttributes{Verb: "list", Resource: "pods", Namespace: "x"})).To(BeTrue())
		Expect(can(ctx, client, authorizationv1.ResourceAttributes{Verb: "get", Resource: "secrets", Namespace: "x", Name: "shared"})).To(BeTrue())
		Expect(can(ctx, client, authorizationv1.ResourceAttributes{Verb: "get", Resource: "secrets", Namespace: "x", Name: "private"})).To(BeFalse())
		Expect(can(ctx, client, authorizationv1.ResourceAttributes{Verb: "list", Resource: "pods", Namespace: "y"})).To(BeFalse())
		Expect(can(ctx, client, authorizationv1.ResourceAttributes{Verb: "delete", Resource: "pods", Namespace: "x"})).To(BeFalse())
		review, err := client.AuthorizationV1().SelfSubjectRulesReviews().Create(ctx, &authorizationv1.SelfSubjectRulesReview{
			Spec: authorizationv1.SelfSubjectRulesReviewSpec{Namespace: "x"}}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(review.Status.ResourceRules).To(ContainElements(
			authorizationv1.ResourceRule{Verbs: []string{"get", "list"}, APIGroups: []string{""}, Resources: []string{"pods"}},
			authorizationv1.ResourceRule{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"secrets"}, ResourceNames: []string{"shared"}},
		))
	}, SpecTimeout(specTimeout))

	It("ends with the next request when it is revoked, and refuses as if there were no such tenant", func(ctx SpecContext) {
		n := space(ctx)
		config, path := bob.config(), "/api/v1/namespaces/x/pods"
		admin := tenantry.Config(n)
		status, body := send(ctx, admin, http.MethodPatch, collection+"/bobs", encode(map[string]any{"spec": map[string]any{
			"rules": []v1alpha1.AccessRule{accessRule("y", "pods", "list")}}}))
		Expect(status).To(Equal(http.StatusOK), body)
		Expect(statusOf(ctx, config, "/tenants/"+n.String()+path)()).To(Equal(http.StatusForbidden))
		Expect(statusOf(ctx, config, "/tenants/"+n.String()+"/api/v1/namespaces/y/pods")()).To(Equal(http.StatusOK))
		status, body = send(ctx, admin, http.MethodDelete, collection+"/bobs", "")
		Expect(status).To(Equal(http.StatusOK), body)
		for _, path := range []string{path, "/api", "/apis/apps/v1", "/version", "/openapi/v3"} {
			_, revoked := send(ctx, config, http.MethodGet, "/tenants/"+n.String()+path, "")
			status, unknown := send(ctx, config, http.MethodGet, "/tenants/nobody"+path, "")
			Expect(status).To(Equal(http.StatusForbidden))
			Expect(revoked).To(Equal(unknown))
		}
	}, SpecTimeout(specTimeout))

	It("is written by those who have what it grants", func(ctx SpecContext) {
		give(ctx, tenantry.Client("a"), clusterRole("grantors", nil, rule("tenantaccesspolicies", "create", "update", "patch", "get"), rule("pods", "list")), "grantor")
		grantor := who{tenant: "a", name: "grantor"}.config()
		create := func(config *rest.Config, p *v1alpha1.TenantAccessPolicy) (int, string) {
			GinkgoHelper()
			status, body := send(ctx, config, http.MethodPost, collection, encode(p))
			if status == http.StatusCreated {
				DeferCleanup(func(ctx SpecContext) {
					send(ctx, tenantry.Config("a"), http.MethodDelete, collection+"/"+p.Name, "")
				})
			}
			return status, body
		}
		status, body := create(grantor, accessPolicy("held", "b", "bob", accessRule("*", "pods", "list")))
		Expect(status).To(Equal(http.StatusCreated), body)
		status, body = create(grantor, accessPolicy("not-held", "b", "bob", accessRule("default", "secrets", "list")))
		Expect(status).To(Equal(http.StatusForbidden))
		Expect(body).To(ContainSubstring("not currently held"))
		status, body = send(ctx, grantor, http.MethodPatch, collection+"/held", encode(map[string]any{"spec": map[string]any{
			"rules": []v1alpha1.AccessRule{accessRule("default", "pods", "list", "delete")}}}))
		Expect(status).To(Equal(http.StatusForbidden), body)

		for name, p := range map[string]*v1alpha1.TenantAccessPolicy{
			"impersonate": accessPolicy("p", "b", "bob", accessRule("*", "users", "impersonate")),
			"every verb":  accessPolicy("p", "b", "bob", accessRule("*", "pods", "*")),
			"itself":      accessPolicy("p", "a", "bob", accessRule("*", "pods", "get")),
			"the system":  accessPolicy("p", tenant.System, "bob", accessRule("*", "pods", "get")),
		} {
			status, body := create(tenantry.Config("a"), p)
			Expect(status).To(Equal(http.StatusUnprocessableEntity), "%s: %s", name, body)
		}
		status, body = send(ctx, tenantry.Config(tenant.System), http.MethodPost, collection, encode(accessPolicy("p", "b", "bob", accessRule("*", "pods", "get"))))
		Expect(status).To(Equal(http.StatusUnprocessableEntity), body)
		Expect(body).To(ContainSubstring("belongs into the space"))
	}, SpecTimeout(specTimeout))

	It("does not outlive either tenant", func(ctx SpecContext) {
		grantee := tenant.Name("g-" + string(uuid.NewUUID())[:8])
		tenantry.CreateTenants(ctx, grantee)
		granting := tenant.Name("g-" + string(uuid.NewUUID())[:8])
		tenantry.CreateTenants(ctx, granting)
		both := accessPolicy("both", grantee, "jane", accessRule("default", "pods", "list"))
		both.Spec.Subjects = append(both.Spec.Subjects, v1alpha1.ForeignSubject{Tenant: "b", Kind: v1alpha1.SubjectUser, Name: "bob"})
		status, body := send(ctx, tenantry.Config(granting), http.MethodPost, collection, encode(both))
		Expect(status).To(Equal(http.StatusCreated), body)
		path := "/tenants/" + granting.String() + "/api/v1/namespaces/default/pods"
		Expect(statusOf(ctx, who{tenant: grantee, name: "jane"}.config(), path)()).To(Equal(http.StatusOK))

		recreate(ctx, grantee)
		jane := renewed(ctx, who{tenant: grantee, name: "jane"})
		Expect(statusOf(ctx, jane, path)()).To(Equal(http.StatusForbidden))
		Expect(statusOf(ctx, bob.config(), path)()).To(Equal(http.StatusOK))
		// Whether a tenant is gone, there again or has never been, its policy looks
		// the same to the tenant that granted.
		_, body = send(ctx, tenantry.Config(granting), http.MethodGet, collection+"/both", "")
		var stored v1alpha1.TenantAccessPolicy
		Expect(json.Unmarshal([]byte(body), &stored)).To(Succeed())
		Expect(stored.Status.Conditions).To(ContainElement(HaveField("Status", metav1.ConditionTrue)))

		recreate(ctx, granting)
		Expect(statusOf(ctx, bob.config(), path)()).To(Equal(http.StatusForbidden))
	}, SpecTimeout(2*specTimeout))
})

// recreate deletes a tenant and creates one of the same name.
func recreate(ctx context.Context, n tenant.Name) {
	GinkgoHelper()
	config := tenantry.Config(tenant.System)
	status, body := send(ctx, config, http.MethodDelete, "/api/v1/tenants/"+n.String(), "")
	Expect(status).To(Equal(http.StatusOK), body)
	Eventually(statusOf(ctx, config, "/api/v1/tenants/"+n.String())).WithTimeout(time.Minute).Should(Equal(http.StatusNotFound))
	tenantry.CreateTenants(ctx, n)
}

// renewed returns a config with credentials of u that are made for the tenant as
// it is now.
func renewed(ctx context.Context, u who) *rest.Config {
	GinkgoHelper()
	var config *rest.Config
	Eventually(func() int {
		config = u.config()
		return statusOf(ctx, config, "/version")()
	}).Should(Equal(http.StatusOK))
	return config
}
