//go:build keystone

package keystone

import (
	"context"
	"net/http"
	"os/exec"
	"path/filepath"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

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
		path := writeKubeconfig(n, token)
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
})

// writeKubeconfig writes one with a token for the space of n, and returns its path.
func writeKubeconfig(n tenant.Name, token string) string {
	GinkgoHelper()
	config := tenantry.In(n, rest.AnonymousClientConfig(tenantry.Config(tenant.System)))
	path := filepath.Join(GinkgoT().TempDir(), "kubeconfig")
	Expect(clientcmd.WriteToFile(clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{"c": {Server: config.Host, CertificateAuthority: config.CAFile, CertificateAuthorityData: config.CAData}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{"u": {Token: token}},
		Contexts:       map[string]*clientcmdapi.Context{"x": {Cluster: "c", AuthInfo: "u"}},
		CurrentContext: "x",
	}, path)).To(Succeed())
	return path
}
