package operator

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tenantry/tenantry/api/v1alpha1"
	"github.com/tenantry/tenantry/internal/standalone"
	"github.com/tenantry/tenantry/test/harness"
)

// served is a ControlPlane with a server that really runs.
type served struct {
	cp *v1alpha1.ControlPlane
	// admin is that of its system space.
	admin   *rest.Config
	tenants harness.Tenants
	port    int32
}

// createServed creates a ControlPlane whose server is this process, at the port of the nodes
// that the host has given to it.
func createServed(ctx context.Context, name string) *served {
	GinkgoHelper()
	cp := newControlPlane(name)
	cp.Spec.Expose = v1alpha1.ControlPlaneExpose{Type: v1alpha1.ExposeNodePort, Names: []string{"127.0.0.1", "localhost"}}
	create(ctx, cp)
	s := &served{cp: cp, admin: adminConfig(ctx, name), port: get(ctx, &corev1.Service{}, name).Spec.Ports[0].NodePort}
	s.serve(ctx)
	setReady(ctx, name)
	return s
}

func (s *served) serve(ctx context.Context) {
	GinkgoHelper()
	serve(ctx, s.cp.Name, func(o *standalone.Options) { o.Port = int(s.port) })
	var err error
	s.admin.QPS = -1
	s.tenants, err = harness.NewTenants(s.admin)
	Expect(err).NotTo(HaveOccurred())
}

func (s *served) ref() *v1alpha1.ControlPlaneReference {
	return &v1alpha1.ControlPlaneReference{Namespace: s.cp.Namespace, Name: s.cp.Name}
}

// mirror returns a Tenant of the control plane.
func (s *served) mirror(ctx context.Context, name string) *v1alpha1.Tenant {
	GinkgoHelper()
	t := &v1alpha1.Tenant{}
	Expect(s.tenants.Get(ctx, client.ObjectKey{Name: name}, t)).To(Succeed())
	return t
}

// createTenant creates a Tenant on the host, and deletes it at the end of the spec.
func createTenant(ctx context.Context, t *v1alpha1.Tenant) {
	GinkgoHelper()
	Expect(admin.Create(ctx, t)).To(Succeed())
	DeferCleanup(func(ctx SpecContext) { deleteTenant(ctx, t.Name) })
}

func deleteTenant(ctx context.Context, name string) {
	GinkgoHelper()
	Expect(client.IgnoreNotFound(admin.Delete(ctx, newTenant(name)))).To(Succeed())
	expectGone(ctx, newTenant(name))
}

func expectGone(ctx context.Context, object client.Object) {
	GinkgoHelper()
	Eventually(func() error {
		err := admin.Get(ctx, client.ObjectKeyFromObject(object), object)
		if err == nil {
			GinkgoWriter.Printf("%T %s is there: %+v\n", object, object.GetName(), object)
		}
		return err
	}).Should(MatchError(ContainSubstring("not found")))
}

func newTenant(name string) *v1alpha1.Tenant {
	return &v1alpha1.Tenant{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

// expectOfTenant waits for a condition of a Tenant on the host.
func expectOfTenant(ctx context.Context, name, kind string, status metav1.ConditionStatus, reason string) metav1.Condition {
	GinkgoHelper()
	var found *metav1.Condition
	Eventually(func(g Gomega) {
		t := newTenant(name)
		g.Expect(admin.Get(ctx, client.ObjectKeyFromObject(t), t)).To(Succeed())
		found = meta.FindStatusCondition(t.Status.Conditions, kind)
		g.Expect(found).NotTo(BeNil())
		g.Expect(*found).To(SatisfyAll(HaveField("Status", status), HaveField("Reason", reason), HaveField("ObservedGeneration", t.Generation)))
	}).Should(Succeed())
	return *found
}

func expectReady(ctx context.Context, name string) {
	GinkgoHelper()
	expectOfTenant(ctx, name, v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonReady)
}

// config returns that of a Secret with a kubeconfig.
func kubeconfigOf(ctx context.Context, name string) *rest.Config {
	GinkgoHelper()
	config, err := clientcmd.RESTConfigFromKubeConfig(secret(ctx, name+"-kubeconfig").Data["kubeconfig"])
	Expect(err).NotTo(HaveOccurred())
	return config
}

var _ = Describe("A Tenant on the host", Ordered, func() {
	var home *served

	BeforeAll(func(ctx SpecContext) { home = createServed(ctx, "home") }, NodeTimeout(startTimeout))

	It("has a space in the only ControlPlane, and a kubeconfig for it", func(ctx SpecContext) {
		t := newTenant("first")
		t.Spec.KubeconfigSecret = &v1alpha1.KubeconfigSecret{}
		createTenant(ctx, t)
		expectReady(ctx, "first")
		expectOfTenant(ctx, "first", v1alpha1.ConditionMirrored, metav1.ConditionTrue, v1alpha1.ReasonMirrored)
		expectOfTenant(ctx, "first", v1alpha1.ConditionKubeconfig, metav1.ConditionTrue, v1alpha1.ReasonIssued)
		Expect(admin.Get(ctx, client.ObjectKeyFromObject(t), t)).To(Succeed())
		Expect(t.Status.ControlPlaneRef).To(Equal(home.ref()))
		Expect(home.mirror(ctx, "first").Annotations).To(HaveKeyWithValue(v1alpha1.HostTenantAnnotation, string(t.UID)))
		Expect(namespaces(ctx, kubeconfigOf(ctx, "first"))).To(ContainElement("default"))

		deleteTenant(ctx, "first")
		Expect(client.IgnoreNotFound(home.tenants.Get(ctx, client.ObjectKey{Name: "first"}, newTenant("first")))).To(Succeed())
		expectGone(ctx, named(&corev1.Secret{}, "first-kubeconfig"))
	})
})
