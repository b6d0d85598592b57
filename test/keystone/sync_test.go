//go:build keystone

package keystone

import (
	"context"
	"fmt"
	"net/http"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tenantry/tenantry/api/v1alpha1"
	"github.com/tenantry/tenantry/internal/tenant"
	"github.com/tenantry/tenantry/test/env/suite"
	"github.com/tenantry/tenantry/test/harness"
)

// interval is that of the KeystoneSyncs of these tests, and the time after which what has
// changed is seen: a run takes about a second.
const (
	interval = 10 * time.Second
	synced   = interval + 20*time.Second
)

// objects returns a client of Tenants and KeystoneSyncs.
func objects() harness.Tenants {
	GinkgoHelper()
	c, err := harness.NewTenants(tenantry.Config(tenant.System))
	Expect(err).NotTo(HaveOccurred())
	return c
}

// newSync creates a KeystoneSync that maps member in projects to edit and in domains to view,
// for as long as the spec runs.
func newSync(ctx context.Context, change func(*v1alpha1.KeystoneSyncSpec)) *v1alpha1.KeystoneSync {
	GinkgoHelper()
	s := &v1alpha1.KeystoneSync{ObjectMeta: metav1.ObjectMeta{Name: ks.name("sync")}, Spec: v1alpha1.KeystoneSyncSpec{
		Mode: v1alpha1.KeystoneSyncSync, Interval: &metav1.Duration{Duration: interval},
		RoleMappings: []v1alpha1.KeystoneRoleMapping{
			{RoleID: member, Description: "member", Scope: v1alpha1.KeystoneScopeProject, ClusterRole: "edit"},
			{RoleID: member, Scope: v1alpha1.KeystoneScopeDomain, ClusterRole: "view"},
		},
	}}
	change(&s.Spec)
	Expect(objects().WithWatch.Create(ctx, s)).To(Succeed())
	DeferCleanup(func(ctx SpecContext) {
		Expect(objects().WithWatch.Delete(ctx, s)).To(Succeed())
	})
	return s
}

func ofDomains(ids ...string) func(*v1alpha1.KeystoneSyncSpec) {
	return func(spec *v1alpha1.KeystoneSyncSpec) { spec.Domains.IDs = ids }
}

// tenantOf waits for the Tenant of a domain.
func tenantOf(ctx context.Context, domain string) tenant.Name {
	GinkgoHelper()
	var found tenant.Name
	Eventually(func(g Gomega) {
		list := &v1alpha1.TenantList{}
		g.Expect(objects().List(ctx, list)).To(Succeed())
		found = ""
		for _, t := range list.Items {
			if t.Status.Keystone != nil && t.Status.Keystone.DomainID == domain {
				found = tenant.Name(t.Name)
			}
		}
		g.Expect(found).NotTo(BeEmpty())
	}).WithTimeout(synced).Should(Succeed())
	return found
}

// namespaceOf waits for the namespace of a project.
func namespaceOf(ctx context.Context, n tenant.Name, project string) string {
	GinkgoHelper()
	var found string
	Eventually(func(g Gomega) {
		list, err := system(n).CoreV1().Namespaces().List(ctx, metav1.ListOptions{LabelSelector: tenant.KeystoneLabel})
		g.Expect(err).NotTo(HaveOccurred())
		found = ""
		for _, ns := range list.Items {
			if ns.Annotations[tenant.KeystoneIDAnnotation] == project {
				found = ns.Name
			}
		}
		g.Expect(found).NotTo(BeEmpty())
	}).WithTimeout(synced).Should(Succeed())
	return found
}

// system returns a client of the platform's administrator in the space of n.
func system(n tenant.Name) *kubernetes.Clientset {
	GinkgoHelper()
	return suite.Client(tenantry.In(n, tenantry.Config(tenant.System)))
}

var _ = Describe("A KeystoneSync", func() {
	It("makes a domain a Tenant, where a token in kubectl lists the pods of its project until it is revoked", func(ctx SpecContext) {
		kubectl, err := exec.LookPath("kubectl")
		if err != nil {
			Skip("kubectl is not installed")
		}
		domain := ks.create("domain", ks.name("initech"), nil)
		project := ks.create("project", "We/b", object{"domain_id": domain})
		elsewhere := ks.create("project", "web", object{"domain_id": domain})
		u := ks.user(domain, ks.name("user"))
		grant("/projects/"+project, "/users/"+u.id, member)
		newSync(ctx, ofDomains(domain))
		n := tenantOf(ctx, domain)
		Eventually(func() error {
			_, err := system(n).CoreV1().ServiceAccounts("default").Get(ctx, "default", metav1.GetOptions{})
			return err
		}).Should(Succeed())
		namespace, other := namespaceOf(ctx, n, project), namespaceOf(ctx, n, elsewhere)
		Expect(namespace).To(Equal("we-b-" + project[:12]))
		_, err = system(n).CoreV1().Pods(namespace).Create(ctx, &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: "web"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "nginx"}}},
		}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		token := ks.tokenOf(u, inProject(project))
		config := tenantry.In(n, rest.AnonymousClientConfig(tenantry.Config(tenant.System)))
		config.BearerToken = token
		path := writeKubeconfig(config)
		get := func(namespace string) (string, error) {
			out, err := exec.CommandContext(ctx, kubectl, "--kubeconfig", path, "--namespace", namespace, "get", "pods").CombinedOutput()
			return string(out), err
		}
		Eventually(func() string { out, _ := get(namespace); return out }).WithTimeout(synced).Should(MatchRegexp(`(?m)^web +0/1 +Pending`))
		out, err := get(other)
		Expect(err).To(HaveOccurred())
		Expect(out).To(ContainSubstring("Forbidden"))
		status, _, _ := ks.call(ks.token, http.MethodDelete, "/auth/tokens", nil, "X-Subject-Token", token)
		Expect(status).To(Equal(http.StatusNoContent))
		Eventually(func() string { out, _ := get(namespace); return out }).WithTimeout(ttl + 3*time.Second).Should(ContainSubstring("must be logged in"))
	})

	It("follows what becomes of domains and projects", func(ctx SpecContext) {
		domain := ks.create("domain", "Umbrella & Söhne "+ks.name(""), nil)
		project, other := ks.create("project", strings.Repeat("ü", 64), object{"domain_id": domain}), ks.create("project", "web", object{"domain_id": domain})
		nested := ks.create("project", "Web", object{"domain_id": domain, "parent_id": other})
		s := newSync(ctx, func(spec *v1alpha1.KeystoneSyncSpec) {
			spec.Domains.IDs = []string{domain}
			spec.Guard.MaxRemovedPercent = new(int32(100))
			spec.Deletion.Tenants = v1alpha1.KeystoneTenantDeletion{Policy: v1alpha1.KeystoneDelete, GracePeriod: &metav1.Duration{Duration: 5 * time.Second}}
			spec.Deletion.Namespaces = v1alpha1.KeystoneNamespaceDeletion{Policy: v1alpha1.KeystoneDelete, GracePeriod: &metav1.Duration{}}
		})
		n := tenantOf(ctx, domain)
		found := func() *v1alpha1.Tenant {
			GinkgoHelper()
			t := &v1alpha1.Tenant{}
			Expect(objects().Get(ctx, client.ObjectKey{Name: n.String()}, t)).To(Succeed())
			return t
		}
		uid := found().UID
		Expect(n.String()).To(HavePrefix("umbrella-s-hne-"))
		names := map[string]bool{}
		for _, id := range []string{project, other, nested} {
			names[namespaceOf(ctx, n, id)] = true
		}
		Expect(names).To(HaveLen(3))

		By("renaming the domain")
		ks.set("domain", domain, object{"name": ks.name("renamed")})
		Eventually(func() string { return found().Annotations["tenantry.io/keystone-name"] }).WithTimeout(synced).Should(HavePrefix("renamed"))
		Expect(found().UID).To(Equal(uid))

		By("disabling and enabling the domain")
		ks.set("domain", domain, object{"enabled": false})
		Eventually(func() bool { return found().Spec.Suspended }).WithTimeout(synced).Should(BeTrue())
		ks.set("domain", domain, object{"enabled": true})
		Eventually(func() bool { return found().Spec.Suspended }).WithTimeout(synced).Should(BeFalse())

		By("disabling and deleting a project")
		gone := namespaceOf(ctx, n, project)
		bound := func(namespace string) int {
			list, err := system(n).RbacV1().RoleBindings(namespace).List(ctx, metav1.ListOptions{LabelSelector: tenant.KeystoneLabel})
			Expect(err).NotTo(HaveOccurred())
			return len(list.Items)
		}
		Eventually(func() int { return bound(gone) }).WithTimeout(synced).Should(Equal(1))
		ks.set("project", project, object{"enabled": false})
		Eventually(func() int { return bound(gone) }).WithTimeout(synced).Should(BeZero())
		ks.do(http.MethodDelete, "/projects/"+project, nil)
		Eventually(func() error {
			_, err := system(n).CoreV1().Namespaces().Get(ctx, gone, metav1.GetOptions{})
			return err
		}).WithTimeout(2 * synced).Should(Satisfy(apierrors.IsNotFound))

		By("deleting the domain")
		ks.set("domain", domain, object{"enabled": false})
		ks.do(http.MethodDelete, "/domains/"+domain, nil)
		Eventually(func() error {
			return objects().Get(ctx, client.ObjectKey{Name: n.String()}, &v1alpha1.Tenant{})
		}).WithTimeout(3 * synced).Should(Satisfy(apierrors.IsNotFound))
		Expect(statusOf(ctx, s).Conditions).To(ContainElement(And(HaveField("Type", "Ready"), HaveField("Status", metav1.ConditionTrue))))
	}, SpecTimeout(5*time.Minute))

	It("repairs its bindings, whose marks are the platform's, and leaves others alone", func(ctx SpecContext) {
		domain := ks.create("domain", ks.name("hooli"), nil)
		project := ks.create("project", "web", object{"domain_id": domain})
		boss := ks.create("role", ks.name("boss"), nil)
		u := ks.user(domain, ks.name("user"))
		grant("/domains/"+domain, "/users/"+u.id, boss)
		newSync(ctx, func(spec *v1alpha1.KeystoneSyncSpec) {
			spec.Domains.IDs, spec.TenantAdminRoleID = []string{domain}, boss
		})
		n := tenantOf(ctx, domain)
		namespace := namespaceOf(ctx, n, project)
		token := ks.tokenOf(u, inDomain(domain))
		admin := as(n, token)
		Eventually(func() error { _, err := admin.CoreV1().Secrets("").List(ctx, metav1.ListOptions{}); return err }).WithTimeout(synced).Should(Succeed())
		name := "keystone:project:" + project + ":" + member
		Eventually(func() error {
			_, err := admin.RbacV1().RoleBindings(namespace).Get(ctx, name, metav1.GetOptions{})
			return err
		}).WithTimeout(synced).Should(Succeed())

		By("forging marks")
		_, err := admin.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
			Name: "forged", Labels: map[string]string{tenant.KeystoneLabel: tenant.KeystoneProject}, Annotations: map[string]string{tenant.KeystoneIDAnnotation: project},
		}}, metav1.CreateOptions{})
		Expect(apierrors.IsForbidden(err)).To(BeTrue(), "%v", err)
		for _, patch := range []string{`{"metadata":{"labels":{"tenantry.io/keystone":null}}}`, `{"metadata":{"annotations":{"tenantry.io/keystone-id":"x"}}}`,
			`{"metadata":{"annotations":{"tenantry.io/keystone-gone-since":"2026-01-01T00:00:00Z"}}}`} {
			_, err = admin.CoreV1().Namespaces().Patch(ctx, namespace, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
			Expect(apierrors.IsForbidden(err)).To(BeTrue(), "%s: %v", patch, err)
		}

		By("editing a binding, and making one by hand")
		_, err = admin.RbacV1().RoleBindings(namespace).Patch(ctx, name, types.MergePatchType, []byte(`{"subjects":[{"kind":"User","name":"jane","apiGroup":"rbac.authorization.k8s.io"}]}`), metav1.PatchOptions{})
		Expect(err).NotTo(HaveOccurred())
		own := binding("keystone:project:" + project + ":" + reader)
		_, err = admin.RbacV1().RoleBindings(namespace).Create(ctx, own, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		subject := func() string {
			b, err := admin.RbacV1().RoleBindings(namespace).Get(ctx, name, metav1.GetOptions{})
			if err != nil || len(b.Subjects) != 1 {
				return ""
			}
			return b.RoleRef.Name + " " + b.Subjects[0].Name
		}
		Eventually(subject).WithTimeout(synced).Should(Equal("edit " + name))

		By("putting another in its place")
		Expect(admin.RbacV1().RoleBindings(namespace).Delete(ctx, name, metav1.DeleteOptions{})).To(Succeed())
		other := binding("keystone:project:" + project + ":" + reader)
		other.Name, other.RoleRef.Name = name, "cluster-admin"
		_, err = admin.RbacV1().RoleBindings(namespace).Create(ctx, other, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		Eventually(subject).WithTimeout(synced).Should(Equal("edit " + name))
		_, err = admin.RbacV1().RoleBindings(namespace).Get(ctx, own.Name, metav1.GetOptions{})
		Expect(err).NotTo(HaveOccurred())
	}, SpecTimeout(4*time.Minute))

	It("shows what it would do, does nothing about domains of another, and needs the right to bind", func(ctx SpecContext) {
		domain := ks.create("domain", ks.name("piedpiper"), nil)
		ks.create("project", "web", object{"domain_id": domain})
		u := ks.user(domain, ks.name("user"))
		grant("/domains/"+domain, "/users/"+u.id, other)
		first := newSync(ctx, func(spec *v1alpha1.KeystoneSyncSpec) { spec.Domains.IDs, spec.Mode = []string{domain}, "" })
		Eventually(func() []string { return statusOf(ctx, first).Planned }).WithTimeout(synced).Should(HaveLen(4))
		Expect(statusOf(ctx, first).UnmappedRoles).To(ConsistOf(And(HaveField("ID", other), HaveField("Assignments", int32(1)))))
		list := &v1alpha1.TenantList{}
		Expect(objects().List(ctx, list)).To(Succeed())
		Expect(list.Items).NotTo(ContainElement(HaveField("Name", HavePrefix("piedpiper"))))

		second := newSync(ctx, ofDomains(domain))
		Eventually(func() []metav1.Condition { return statusOf(ctx, second).Conditions }).WithTimeout(synced).Should(ContainElement(HaveField("Reason", v1alpha1.ReasonOverlaps)))

		By("writing it without the right to bind in tenants' spaces")
		platform := suite.Client(tenantry.Config(tenant.System))
		for role, annotations := range map[string]map[string]string{"syncs": nil, "binds-here": nil, "binds-there": {tenant.ScopeAnnotation: "Tenants"}} {
			rules := []rbacv1.PolicyRule{{APIGroups: []string{"rbac.authorization.k8s.io"}, Resources: []string{"clusterroles"}, Verbs: []string{"bind"}, ResourceNames: []string{"edit", "view"}}}
			if role == "syncs" {
				rules = []rbacv1.PolicyRule{{APIGroups: []string{"tenantry.io"}, Resources: []string{"keystonesyncs"}, Verbs: []string{"*"}}}
			}
			_, err := platform.RbacV1().ClusterRoles().Create(ctx, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: role, Annotations: annotations}, Rules: rules}, metav1.CreateOptions{})
			Expect(err).NotTo(HaveOccurred())
		}
		bind := func(role string) {
			_, err := platform.RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: role},
				RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role}, Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "olga"}}}, metav1.CreateOptions{})
			Expect(err).NotTo(HaveOccurred())
		}
		olga, err := harness.NewTenants(tenantry.User(tenant.System, "olga"))
		Expect(err).NotTo(HaveOccurred())
		patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"a":"b"}}}`))
		for _, role := range []string{"syncs", "binds-here"} {
			bind(role)
			err := olga.Patch(ctx, first.DeepCopy(), patch)
			Expect(apierrors.IsForbidden(err)).To(BeTrue(), "%s: %v", role, err)
		}
		bind("binds-there")
		Expect(olga.Patch(ctx, first.DeepCopy(), patch)).To(Succeed())
		err = olga.Patch(ctx, first.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(`{"spec":{"tenantAdminRoleID":"r"}}`)))
		Expect(err).To(MatchError(ContainSubstring(`binds ClusterRole "cluster-admin"`)))
	}, SpecTimeout(3*time.Minute))

	It("changes nothing by lists that are not whole, and takes little away", Serial, func(ctx SpecContext) {
		domain := ks.create("domain", ks.name("cyberdyne"), nil)
		project := ks.create("project", "web", object{"domain_id": domain})
		s := newSync(ctx, ofDomains(domain))
		n := tenantOf(ctx, domain)
		namespace := namespaceOf(ctx, n, project)
		DeferCleanup(func() { front.tamper(nil) })
		condition := func(kind string) func() metav1.ConditionStatus {
			return func() metav1.ConditionStatus {
				if c := meta.FindStatusCondition(statusOf(ctx, s).Conditions, kind); c != nil {
					return c.Status
				}
				return ""
			}
		}
		without := func(body object, collection, id string) {
			all, ok := body[collection].([]any)
			if !ok {
				return
			}
			body[collection] = slices.DeleteFunc(all, func(o any) bool { return o.(object)["id"] == id })
		}
		for name, tamper := range map[string]func(*http.Response, object){
			"truncated": func(_ *http.Response, body object) { without(body, "projects", project); body["truncated"] = true },
			"an error": func(answer *http.Response, body object) {
				if body["projects"] != nil {
					answer.StatusCode = http.StatusBadGateway
				}
			},
			"half": func(answer *http.Response, body object) {
				without(body, "projects", project)
				answer.ContentLength = -1
			},
			"a repeated link": func(_ *http.Response, body object) {
				without(body, "domains", domain)
				body["links"] = object{"next": ks.url + "/domains?marker=x"}
			},
			"forbidden": func(answer *http.Response, body object) {
				if body["domains"] != nil {
					answer.StatusCode = http.StatusForbidden
				}
			},
		} {
			By(name)
			front.tamper(tamper)
			Eventually(condition(v1alpha1.ConditionIncomplete)).WithTimeout(synced).Should(Equal(metav1.ConditionTrue))
			front.tamper(nil)
			Eventually(condition(v1alpha1.ConditionIncomplete)).WithTimeout(2 * synced).Should(Equal(metav1.ConditionFalse))
		}
		By("seeing less than there is")
		front.tamper(func(_ *http.Response, body object) { without(body, "projects", project) })
		Eventually(condition(v1alpha1.ConditionGuardTripped)).WithTimeout(synced).Should(Equal(metav1.ConditionTrue))
		front.tamper(func(_ *http.Response, body object) { without(body, "domains", domain) })
		Eventually(func() int32 {
			if removed := statusOf(ctx, s).Removed; removed != nil {
				return removed.Domains
			}
			return 0
		}).WithTimeout(synced).Should(Equal(int32(1)))
		front.tamper(nil)
		Eventually(condition(v1alpha1.ConditionGuardTripped)).WithTimeout(synced).Should(Equal(metav1.ConditionFalse))
		found, err := system(n).CoreV1().Namespaces().Get(ctx, namespace, metav1.GetOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(found.Annotations).NotTo(HaveKey(tenant.KeystoneGoneAnnotation))
		t := &v1alpha1.Tenant{}
		Expect(objects().Get(ctx, client.ObjectKey{Name: n.String()}, t)).To(Succeed())
		Expect(t.Generation).To(Equal(int64(1)), "the spec was never changed")
	}, SpecTimeout(8*time.Minute))

	It("says which roles no token has, and brings its template", func(ctx SpecContext) {
		domain := ks.create("domain", ks.name("umbrella"), nil)
		local := ks.create("role", ks.name("local"), object{"domain_id": domain})
		s := newSync(ctx, func(spec *v1alpha1.KeystoneSyncSpec) {
			spec.Domains.IDs = []string{domain}
			spec.RoleMappings = append(spec.RoleMappings, v1alpha1.KeystoneRoleMapping{RoleID: local, Scope: v1alpha1.KeystoneScopeProject, ClusterRole: "view"})
			spec.TenantTemplate = &v1alpha1.KeystoneTenantTemplate{RateLimit: &v1alpha1.RateLimit{InFlight: new(int32(50))}}
		})
		t := &v1alpha1.Tenant{}
		Expect(objects().Get(ctx, client.ObjectKey{Name: tenantOf(ctx, domain).String()}, t)).To(Succeed())
		Expect(t.Spec.RateLimit.InFlight).To(HaveValue(BeEquivalentTo(50)))
		Eventually(func() []string { return statusOf(ctx, s).Conflicts }).WithTimeout(synced).Should(ConsistOf(And(ContainSubstring(local), ContainSubstring("alone, and no token has such roles"))))
	})

	It("leaves a Tenant that exists alone until it is annotated", func(ctx SpecContext) {
		domain := ks.create("domain", ks.name("wayne"), nil)
		n := tenantry.NewTenant(ctx, "wayne")
		mark(ctx, n, domain)
		s := newSync(ctx, ofDomains(domain))
		Eventually(func() []string { return statusOf(ctx, s).Conflicts }).WithTimeout(synced).Should(ConsistOf(ContainSubstring(n.String())))
		patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, v1alpha1.AdoptKeystoneDomainAnnotation, "default/"+domain)
		_, err := tenantry.Tenants().Patch(ctx, n.String(), types.MergePatchType, patch, metav1.PatchOptions{})
		Expect(err).NotTo(HaveOccurred())
		Eventually(func() []string { return statusOf(ctx, s).Conflicts }).WithTimeout(synced).Should(BeEmpty())
		project := ks.create("project", "web", object{"domain_id": domain})
		namespaceOf(ctx, n, project)
	}, SpecTimeout(2*time.Minute))
})

// statusOf returns the status of a KeystoneSync.
func statusOf(ctx context.Context, s *v1alpha1.KeystoneSync) v1alpha1.KeystoneSyncStatus {
	GinkgoHelper()
	found := &v1alpha1.KeystoneSync{}
	Expect(objects().Get(ctx, client.ObjectKeyFromObject(s), found)).To(Succeed())
	return found.Status
}

// writeKubeconfig writes one with a config, and returns its path.
func writeKubeconfig(config *rest.Config) string {
	GinkgoHelper()
	path := filepath.Join(GinkgoT().TempDir(), "kubeconfig")
	Expect(clientcmd.WriteToFile(clientcmdapi.Config{
		Clusters: map[string]*clientcmdapi.Cluster{"c": {Server: config.Host, CertificateAuthority: config.CAFile, CertificateAuthorityData: config.CAData}},
		AuthInfos: map[string]*clientcmdapi.AuthInfo{"u": {Token: config.BearerToken, ClientCertificate: config.CertFile, ClientCertificateData: config.CertData,
			ClientKey: config.KeyFile, ClientKeyData: config.KeyData}},
		Contexts:       map[string]*clientcmdapi.Context{"x": {Cluster: "c", AuthInfo: "u"}},
		CurrentContext: "x",
	}, path)).To(Succeed())
	return path
}
