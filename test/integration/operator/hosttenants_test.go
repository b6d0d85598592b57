package operator

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes"
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
	t := newTenant(name)
	return expectConditionOf(ctx, t, &t.Status.Conditions, kind, status, reason)
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

// changeTenant changes a Tenant on the host or in a control plane, which others change, too.
func changeTenant(ctx context.Context, c client.Client, name string, how func(*v1alpha1.Tenant)) {
	GinkgoHelper()
	Eventually(func() error {
		t := newTenant(name)
		Expect(c.Get(ctx, client.ObjectKeyFromObject(t), t)).To(Succeed())
		before := t.DeepCopy()
		how(t)
		return c.Patch(ctx, t, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	}).Should(Succeed())
}

func pods(limit string) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourcePods: resource.MustParse(limit)}
}

// uidOfTenant returns that of a Tenant on the host.
func uidOfTenant(ctx context.Context, name string) string {
	GinkgoHelper()
	t := newTenant(name)
	Expect(admin.Get(ctx, client.ObjectKeyFromObject(t), t)).To(Succeed())
	return string(t.UID)
}

// forward passes on what comes to another port: that of a Service made again.
func forward(from, to int32) {
	GinkgoHelper()
	listener, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(int(from))))
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(listener.Close)
	go func() {
		for {
			in, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer in.Close()
				out, err := net.Dial("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(int(to))))
				if err != nil {
					return
				}
				defer out.Close()
				go func() { _, _ = io.Copy(out, in); _ = out.Close() }()
				_, _ = io.Copy(in, out)
			}()
		}
	}()
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
		expectEvent(ctx, metav1.NamespaceDefault, "first", v1alpha1.ReasonReady)
		Expect(admin.Get(ctx, client.ObjectKeyFromObject(t), t)).To(Succeed())
		Expect(t.Status.ControlPlaneRef).To(Equal(home.ref()))
		Expect(home.mirror(ctx, "first").Annotations).To(HaveKeyWithValue(v1alpha1.HostTenantAnnotation, string(t.UID)))
		Expect(namespaces(ctx, kubeconfigOf(ctx, "first"))).To(ContainElement("default"))

		By("making the Secret again")
		uid := uidOf(ctx, named(&corev1.Secret{}, "first-kubeconfig"))
		Expect(admin.Delete(ctx, named(&corev1.Secret{}, "first-kubeconfig"))).To(Succeed())
		Eventually(func() any { return uidOf(ctx, named(&corev1.Secret{}, "first-kubeconfig")) }).ShouldNot(Equal(uid))

		deleteTenant(ctx, "first")
		Expect(apierrors.IsNotFound(home.tenants.Get(ctx, client.ObjectKey{Name: "first"}, newTenant("first")))).To(BeTrue())
		// This host has no garbage collector, which would delete it now.
		Expect(metav1.IsControlledBy(secret(ctx, "first-kubeconfig"), t)).To(BeTrue())
		expectEvent(ctx, metav1.NamespaceDefault, "first", "SpaceDeleted")

		By("having another space, and another certificate, when there is one of its name again")
		again := newTenant("first")
		again.Spec.KubeconfigSecret = &v1alpha1.KubeconfigSecret{}
		createTenant(ctx, again)
		expectOfTenant(ctx, "first", v1alpha1.ConditionKubeconfig, metav1.ConditionTrue, v1alpha1.ReasonIssued)
		expectReady(ctx, "first")
		Expect(metav1.IsControlledBy(secret(ctx, "first-kubeconfig"), again)).To(BeTrue())
		Expect(namespaces(ctx, kubeconfigOf(ctx, "first"))).To(ContainElement("default"))

		By("asking for it no longer")
		changeTenant(ctx, admin, "first", func(t *v1alpha1.Tenant) { t.Spec.KubeconfigSecret = nil })
		Eventually(func() []byte { return secret(ctx, "first-kubeconfig").Data["kubeconfig"] }).Should(BeEmpty())
		Expect(metav1.IsControlledBy(secret(ctx, "first-kubeconfig"), again)).To(BeTrue())
	})

	It("is in the control plane as it is on the host", func(ctx SpecContext) {
		t := newTenant("edited")
		t.Labels = map[string]string{"team": "a", "tenantry.io/keystone": "forged"}
		t.Spec = v1alpha1.TenantSpec{Quota: pods("7"), ControlPlaneRef: home.ref(), Admins: []v1alpha1.Subject{{Kind: "User", Name: "alice"}}}
		createTenant(ctx, t)
		expectReady(ctx, "edited")
		Expect(home.mirror(ctx, "edited").Labels).To(Equal(map[string]string{"team": "a"}))
		Expect(home.mirror(ctx, "edited").Spec).To(SatisfyAll(HaveField("ControlPlaneRef", BeNil()), HaveField("Admins", Equal(t.Spec.Admins))))

		By("being edited on the host, twice")
		changeTenant(ctx, admin, "edited", func(t *v1alpha1.Tenant) { t.Spec.Suspended, t.Labels = true, map[string]string{"tier": "b"} })
		expectOfTenant(ctx, "edited", v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonSuspended)
		Expect(home.mirror(ctx, "edited").Labels).To(Equal(map[string]string{"tier": "b"}))
		changeTenant(ctx, admin, "edited", func(t *v1alpha1.Tenant) { t.Spec.Suspended, t.Spec.Admins = false, nil })
		expectReady(ctx, "edited")
		Expect(home.mirror(ctx, "edited").Spec).To(SatisfyAll(HaveField("Suspended", BeFalse()), HaveField("Admins", BeEmpty())))
		Eventually(func() *v1alpha1.TenantQuotaStatus { // the host is told half a minute later
			Expect(admin.Get(ctx, client.ObjectKeyFromObject(t), t)).To(Succeed())
			return t.Status.Quota
		}).WithTimeout(2*timeout).Should(HaveValue(HaveField("Hard", HaveKey(corev1.ResourcePods))), "the status of the quota")

		By("being edited in the control plane, where what the host does not say stays")
		changeTenant(ctx, home.tenants.WithWatch, "edited", func(t *v1alpha1.Tenant) {
			t.Spec.Quota, t.Spec.RateLimit = pods("9"), &v1alpha1.RateLimit{Watches: new(int32(7))}
		})
		Eventually(func() v1alpha1.TenantSpec { return home.mirror(ctx, "edited").Spec }).Should(SatisfyAll(
			HaveField("Quota", HaveKeyWithValue(corev1.ResourcePods, resource.MustParse("7"))), HaveField("RateLimit", Not(BeNil()))))

		By("being deleted in the control plane")
		uid := home.mirror(ctx, "edited").UID
		Expect(home.tenants.Delete(ctx, "edited")).To(Succeed())
		Eventually(func() any {
			t := newTenant("edited")
			return []any{home.tenants.Get(ctx, client.ObjectKeyFromObject(t), t), t.UID}
		}).Should(SatisfyAll(ContainElement(BeNil()), Not(ContainElement(Equal(uid)))))
		expectReady(ctx, "edited")
	})

	It("does not become what somebody has made in the control plane, until that is handed over there", func(ctx SpecContext) {
		Expect(home.tenants.Create(ctx, "theirs", v1alpha1.TenantSpec{Quota: pods("3")})).To(Succeed())
		Expect(home.tenants.Await(ctx, "theirs", poll, timeout)).To(Succeed())
		before := home.mirror(ctx, "theirs")
		t := newTenant("theirs")
		t.Annotations = map[string]string{v1alpha1.HostTenantAnnotation: string(before.UID)}
		t.Spec = v1alpha1.TenantSpec{Admins: []v1alpha1.Subject{{Kind: "User", Name: "mallory"}}, KubeconfigSecret: &v1alpha1.KubeconfigSecret{User: "mallory"}}
		createTenant(ctx, t)
		condition := expectOfTenant(ctx, "theirs", v1alpha1.ConditionMirrored, metav1.ConditionFalse, v1alpha1.ReasonNotAdopted)
		Expect(condition.Message).To(ContainSubstring("kubectl annotate --overwrite tenant theirs " + v1alpha1.HostTenantAnnotation + "=" + string(t.UID)))
		expectOfTenant(ctx, "theirs", v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonNotAdopted)
		expectEvent(ctx, metav1.NamespaceDefault, "theirs", v1alpha1.ReasonNotAdopted)
		Expect(home.mirror(ctx, "theirs").Spec).To(Equal(before.Spec))
		Expect(admin.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "theirs-kubeconfig"}, &corev1.Secret{})).NotTo(Succeed())

		By("staying when the one of the host goes")
		deleteTenant(ctx, "theirs")
		after := home.mirror(ctx, "theirs")
		Expect(after.Spec).To(Equal(before.Spec))
		Expect(after.DeletionTimestamp).To(BeNil())

		By("being handed over")
		t = newTenant("theirs")
		t.Spec.Quota = pods("4")
		createTenant(ctx, t)
		expectOfTenant(ctx, "theirs", v1alpha1.ConditionMirrored, metav1.ConditionFalse, v1alpha1.ReasonNotAdopted)
		changeTenant(ctx, home.tenants.WithWatch, "theirs", func(mirror *v1alpha1.Tenant) {
			mirror.Annotations = map[string]string{v1alpha1.HostTenantAnnotation: string(t.UID)}
		})
		expectReady(ctx, "theirs")
		Expect(home.mirror(ctx, "theirs").UID).To(Equal(before.UID))
		Expect(home.mirror(ctx, "theirs").Spec.Quota).To(HaveKeyWithValue(corev1.ResourcePods, resource.MustParse("4")))
	})

	It("goes when nothing is left of its space", func(ctx SpecContext) {
		createTenant(ctx, newTenant("stuck"))
		expectReady(ctx, "stuck")
		space, err := client.New(harness.InSpace(home.admin, "stuck"), client.Options{})
		Expect(err).NotTo(HaveOccurred())
		held := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "held", Finalizers: []string{"example.com/held"}}}
		Expect(space.Create(ctx, held)).To(Succeed())
		Expect(admin.Delete(ctx, newTenant("stuck"))).To(Succeed())
		condition := expectOfTenant(ctx, "stuck", v1alpha1.ConditionDeleting, metav1.ConditionTrue, v1alpha1.ReasonTerminating)
		Expect(condition.Message).NotTo(BeEmpty())
		Expect(admin.Get(ctx, client.ObjectKeyFromObject(newTenant("stuck")), newTenant("stuck"))).To(Succeed())

		Eventually(func() error {
			return space.Patch(ctx, held, client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`)))
		}).Should(Succeed())
		expectGone(ctx, newTenant("stuck"))
		Expect(apierrors.IsNotFound(home.tenants.Get(ctx, client.ObjectKey{Name: "stuck"}, newTenant("stuck")))).To(BeTrue())
	})

	It("has no kubeconfig in the place of somebody else's Secret", func(ctx SpecContext) {
		foreign := named(&corev1.Secret{Data: map[string][]byte{"kubeconfig": []byte("mine")}}, "taken-kubeconfig")
		Expect(admin.Create(ctx, foreign)).To(Succeed())
		DeferCleanup(func(ctx SpecContext) { Expect(admin.Delete(ctx, foreign)).To(Succeed()) })
		t := newTenant("taken")
		t.Spec.KubeconfigSecret = &v1alpha1.KubeconfigSecret{}
		createTenant(ctx, t)
		condition := expectOfTenant(ctx, "taken", v1alpha1.ConditionKubeconfig, metav1.ConditionFalse, v1alpha1.ReasonNameTaken)
		Expect(condition.Message).To(ContainSubstring(`Secret "tenantry-system/taken-kubeconfig" is there and is not of this Tenant`))
		expectReady(ctx, "taken")
		deleteTenant(ctx, "taken")
		Expect(secret(ctx, "taken-kubeconfig").Data).To(Equal(foreign.Data))
	})

	It("is never the system", func(ctx SpecContext) {
		before := home.mirror(ctx, "system")
		createTenant(ctx, newTenant("system"))
		expectOfTenant(ctx, "system", v1alpha1.ConditionMirrored, metav1.ConditionFalse, v1alpha1.ReasonNameReserved)
		Expect(home.mirror(ctx, "system").Annotations).To(Equal(before.Annotations))
	})

	It("is followed when the keys of the ControlPlane have come back", func(ctx SpecContext) {
		createTenant(ctx, newTenant("renewed"))
		expectReady(ctx, "renewed")
		backup := secret(ctx, "home-authorities")
		Expect(admin.Delete(ctx, backup)).To(Succeed())
		changeTenant(ctx, admin, "renewed", func(t *v1alpha1.Tenant) { t.Spec.Quota = pods("1") })
		expectOfTenant(ctx, "renewed", v1alpha1.ConditionMirrored, metav1.ConditionFalse, v1alpha1.ReasonControlPlaneUnreachable)
		Expect(admin.Create(ctx, named(&corev1.Secret{Data: backup.Data, Immutable: backup.Immutable, ObjectMeta: metav1.ObjectMeta{Labels: backup.Labels}}, backup.Name))).To(Succeed())
		changeTenant(ctx, admin, "renewed", func(t *v1alpha1.Tenant) { t.Spec.Quota = pods("2") })
		expectReady(ctx, "renewed")
		Expect(home.mirror(ctx, "renewed").Spec.Quota).To(HaveKeyWithValue(corev1.ResourcePods, resource.MustParse("2")))
	})

	It("is in one of two ControlPlanes, and says so if that is gone", func(ctx SpecContext) {
		away := createServed(ctx, "away")
		createTenant(ctx, newTenant("undecided"))
		condition := expectOfTenant(ctx, "undecided", v1alpha1.ConditionMirrored, metav1.ConditionFalse, v1alpha1.ReasonNoControlPlane)
		Expect(condition.Message).To(ContainSubstring("there are 2 ControlPlanes"))

		By("having the name of one that was made in the other one")
		Expect(away.tenants.Create(ctx, "both", v1alpha1.TenantSpec{})).To(Succeed())
		both := newTenant("both")
		both.Spec.ControlPlaneRef = home.ref()
		createTenant(ctx, both)
		expectReady(ctx, "both")
		deleteTenant(ctx, "both")
		Expect(away.tenants.Await(ctx, "both", poll, timeout)).To(Succeed())
		Expect(away.mirror(ctx, "both").DeletionTimestamp).To(BeNil())

		wanderer, other := newTenant("wanderer"), newTenant("other")
		wanderer.Spec = v1alpha1.TenantSpec{ControlPlaneRef: away.ref(), KubeconfigSecret: &v1alpha1.KubeconfigSecret{}}
		other.Spec.ControlPlaneRef = home.ref()
		createTenant(ctx, wanderer)
		createTenant(ctx, other)
		expectReady(ctx, "wanderer")
		expectReady(ctx, "other")
		uid := away.mirror(ctx, "wanderer").UID

		By("losing its ControlPlane")
		remove := func() {
			Expect(admin.Delete(ctx, newControlPlane("away"))).To(Succeed())
			for _, object := range owned(away.cp) { // the host's garbage collector does
				Expect(client.IgnoreNotFound(admin.Delete(ctx, object))).To(Succeed())
			}
		}
		remove()
		for _, kind := range []string{v1alpha1.ConditionMirrored, v1alpha1.ConditionReady} {
			expectOfTenant(ctx, "wanderer", kind, metav1.ConditionFalse, v1alpha1.ReasonControlPlaneMissing)
		}
		expectReady(ctx, "undecided") // there is one ControlPlane again
		Expect(home.mirror(ctx, "undecided").Annotations).To(HaveKeyWithValue(v1alpha1.HostTenantAnnotation, uidOfTenant(ctx, "undecided")))

		By("having it back, at another address")
		create(ctx, newControlPlane("away"))
		adopt(ctx, "away")
		change(ctx, newControlPlane("away"), "away", func(cp *v1alpha1.ControlPlane) { cp.Spec.Expose = away.cp.Spec.Expose })
		var port int32
		Eventually(func() int32 {
			port = get(ctx, &corev1.Service{}, "away").Spec.Ports[0].NodePort
			return port
		}).ShouldNot(BeZero())
		if port != away.port {
			forward(port, away.port)
		}
		expectReady(ctx, "wanderer")
		Expect(away.mirror(ctx, "wanderer").UID).To(Equal(uid))
		Eventually(func() string { return kubeconfigOf(ctx, "wanderer").Host }).Should(
			Equal("https://127.0.0.1:" + strconv.Itoa(int(port)) + "/tenants/wanderer"))

		By("losing it for good")
		remove()
		Expect(admin.Delete(ctx, newTenant("wanderer"))).To(Succeed())
		condition = expectOfTenant(ctx, "wanderer", v1alpha1.ConditionMirrored, metav1.ConditionFalse, v1alpha1.ReasonControlPlaneMissing)
		Eventually(func() string {
			return expectOfTenant(ctx, "wanderer", v1alpha1.ConditionMirrored, metav1.ConditionFalse, v1alpha1.ReasonControlPlaneMissing).Message
		}).Should(ContainSubstring("kubectl annotate --overwrite tenant wanderer " + v1alpha1.AbandonAnnotation + "=true"))
		changeTenant(ctx, admin, "wanderer", func(t *v1alpha1.Tenant) { t.Annotations = map[string]string{v1alpha1.AbandonAnnotation: "true"} })
		expectGone(ctx, newTenant("wanderer"))
		expectEvent(ctx, metav1.NamespaceDefault, "wanderer", "SpaceAbandoned")
		Expect(away.mirror(ctx, "wanderer").DeletionTimestamp).To(BeNil())
		expectReady(ctx, "other")
	}, NodeTimeout(2*startTimeout))

	It("costs nothing while nothing happens, also after a restart of the operator", func(ctx SpecContext) {
		count, err := strconv.Atoi(cmp.Or(os.Getenv("TENANTS"), "20"))
		Expect(err).NotTo(HaveOccurred())
		name := func(i int) string { return "many-" + strconv.Itoa(i) }
		began := time.Now()
		for i := range count {
			t := newTenant(name(i))
			t.Spec.KubeconfigSecret = &v1alpha1.KubeconfigSecret{}
			createTenant(ctx, t)
		}
		for i := range count {
			Eventually(func(g Gomega) {
				t := newTenant(name(i))
				g.Expect(admin.Get(ctx, client.ObjectKeyFromObject(t), t)).To(Succeed())
				g.Expect(meta.IsStatusConditionTrue(t.Status.Conditions, v1alpha1.ConditionReady)).To(BeTrue())
			}).WithTimeout(manyTimeout).Should(Succeed())
		}
		AddReportEntry("Tenants", fmt.Sprintf("%d Tenants were Ready after %s", count, time.Since(began)))
		for i := range count { // the control plane counts what there is, at its leisure
			Eventually(func(g Gomega) {
				t := newTenant(name(i))
				g.Expect(admin.Get(ctx, client.ObjectKeyFromObject(t), t)).To(Succeed())
				there := home.mirror(ctx, t.Name)
				g.Expect(t.Status.Usage).NotTo(BeNil())
				g.Expect(apiequality.Semantic.DeepEqual([]any{t.Status.Usage, t.Status.Quota}, []any{there.Status.Usage, there.Status.Quota})).To(BeTrue(), "there is more to tell the host")
			}).WithTimeout(manyTimeout).Should(Succeed())
		}
		Eventually(quiet).WithTimeout(manyTimeout).WithPolling(quietPeriod).Should(BeTrue(), "the operator goes on writing")

		endOperator()
		before := len(written.list())
		endOperator = startOperator()
		last := newTenant("last")
		createTenant(ctx, last)
		expectReady(ctx, "last")
		Eventually(quiet).WithTimeout(manyTimeout).WithPolling(quietPeriod).Should(BeTrue())
		Expect(written.list()[before:]).To(HaveEach(Or(
			HaveSuffix("/tenants/last"), HaveSuffix("/tenants/last/status"), HaveSuffix("/events"), ContainSubstring("/controlplanes/"),
			SatisfyAll(HavePrefix("PATCH "), ContainSubstring(namespace), ContainSubstring("/home")))), "what was as it should be")
	}, NodeTimeout(manyTimeout+startTimeout))
})

// quiet reports whether the operator has written nothing since it was asked before.
func quiet() bool {
	now := len(written.list())
	was := lastWritten
	lastWritten = now
	return was == now
}

var lastWritten = -1

const (
	quietPeriod = 3 * time.Second
	manyTimeout = 10 * time.Minute
)

var _ = Describe("The definition of Tenants on a host", func() {
	tenant := func(spec string) *unstructured.Unstructured {
		t := parse("x", spec)
		t.SetKind("Tenant")
		t.SetNamespace("")
		return t
	}

	DescribeTable("refuses", func(ctx SpecContext, spec, field, message string) {
		err := admin.Create(ctx, tenant(spec), client.DryRunAll)
		Expect(apierrors.IsInvalid(err)).To(BeTrue(), "%v", err)
		Expect(err.Error()).To(SatisfyAll(ContainSubstring(field), ContainSubstring(message)))
	},
		Entry("half a reference", `{controlPlaneRef: {name: a}}`, "spec.controlPlaneRef.namespace", "Required value"),
		Entry("no name", `{controlPlaneRef: {namespace: a, name: ""}}`, "spec.controlPlaneRef.name", "should match"),
		Entry("a path", `{controlPlaneRef: {namespace: a, name: b/c}}`, "spec.controlPlaneRef.name", "should match"),
		Entry("another path", `{controlPlaneRef: {namespace: ../a, name: b}}`, "spec.controlPlaneRef.namespace", "should match"),
		Entry("a user of Kubernetes", `{kubeconfigSecret: {user: "system:admin"}}`, "spec.kubeconfigSecret.user", "are the platform's"),
		Entry("a user without a name", `{kubeconfigSecret: {user: ""}}`, "spec.kubeconfigSecret.user", "should be at least 1"),
		Entry("a group of Kubernetes", `{kubeconfigSecret: {groups: [a, "system:masters"]}}`, "spec.kubeconfigSecret.groups", "are the platform's"),
		Entry("a group that is a tenant", `{kubeconfigSecret: {groups: ["tenant:other"]}}`, "spec.kubeconfigSecret.groups", "are the platform's"),
		Entry("a short validity", `{kubeconfigSecret: {validity: 59m}}`, "spec.kubeconfigSecret.validity", "from 1h to 1440h"),
		Entry("a long validity", `{kubeconfigSecret: {validity: 1441h}}`, "spec.kubeconfigSecret.validity", "from 1h to 1440h"),
		Entry("no validity", `{kubeconfigSecret: {validity: soon}}`, "spec.kubeconfigSecret.validity", "validity"),
	)

	It("fills in the defaults", func(ctx SpecContext) {
		t := tenant(`{kubeconfigSecret: {}}`)
		Expect(admin.Create(ctx, t, client.DryRunAll)).To(Succeed())
		Expect(t.Object["spec"]).To(HaveKeyWithValue("kubeconfigSecret", map[string]any{"user": "admin", "validity": "1440h"}))
	})

	DescribeTable("keeps a Tenant where it is", func(ctx SpecContext, before, after, message string) {
		t := tenant(before)
		Expect(admin.Create(ctx, t)).To(Succeed())
		DeferCleanup(func(ctx SpecContext) { deleteTenant(ctx, "x") })
		patch := client.RawPatch("application/merge-patch+json", []byte(after))
		err := admin.Patch(ctx, t, patch)
		Expect(apierrors.IsInvalid(err)).To(BeTrue(), "%v", err)
		Expect(err.Error()).To(ContainSubstring(message))
	},
		Entry("another name", `{controlPlaneRef: {namespace: a, name: b}}`, `{"spec": {"controlPlaneRef": {"name": "c"}}}`, "spec.controlPlaneRef cannot be changed"),
		Entry("another namespace", `{controlPlaneRef: {namespace: a, name: b}}`, `{"spec": {"controlPlaneRef": {"namespace": "c"}}}`, "spec.controlPlaneRef cannot be changed"),
		Entry("none", `{controlPlaneRef: {namespace: a, name: b}}`, `{"spec": {"controlPlaneRef": null}}`, "spec.controlPlaneRef cannot be changed"),
		Entry("no spec", `{controlPlaneRef: {namespace: a, name: b}}`, `{"spec": null}`, "spec.controlPlaneRef cannot be changed"),
	)

	It("keeps the default that was recorded", func(ctx SpecContext) {
		t := tenant(`{}`)
		Expect(admin.Create(ctx, t)).To(Succeed())
		DeferCleanup(func(ctx SpecContext) { deleteTenant(ctx, "x") })
		patch := func(status, content string) error {
			raw := client.RawPatch("application/merge-patch+json", []byte(content))
			if status == "" {
				return admin.Patch(ctx, t, raw)
			}
			return admin.Status().Patch(ctx, t, raw)
		}
		Expect(patch("status", `{"status": {"controlPlaneRef": {"namespace": "a", "name": "b"}}}`)).To(Succeed())
		Expect(patch("status", `{"status": {"controlPlaneRef": {"namespace": "a", "name": "c"}}}`)).To(MatchError(ContainSubstring("status.controlPlaneRef cannot be changed")))
		Expect(patch("status", `{"status": {"controlPlaneRef": null}}`)).To(MatchError(ContainSubstring("status.controlPlaneRef cannot be changed")))
		Expect(patch("", `{"spec": {"controlPlaneRef": {"namespace": "a", "name": "c"}}}`)).To(MatchError(ContainSubstring("spec.controlPlaneRef must be status.controlPlaneRef")))
		Expect(patch("", `{"spec": {"controlPlaneRef": {"namespace": "a", "name": "b"}}}`)).To(Succeed())
	})
})

var _ = Describe("The operator's rights", func() {
	DescribeTable("are those that it needs", func(ctx SpecContext, verb, resource, in string, allowed bool) {
		operator, err := kubernetes.NewForConfig(cluster.As(token))
		Expect(err).NotTo(HaveOccurred())
		resource, subresource, _ := strings.Cut(resource, "/")
		resource, group, _ := strings.Cut(resource, ".")
		review, err := operator.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, &authorizationv1.SelfSubjectAccessReview{
			Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{
				Verb: verb, Group: group, Resource: resource, Subresource: subresource, Namespace: in,
			}},
		}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(review.Status.Allowed).To(Equal(allowed))
	},
		Entry(nil, "watch", "tenants.tenantry.io", "", true),
		Entry(nil, "patch", "tenants.tenantry.io", "", true),
		Entry(nil, "patch", "tenants.tenantry.io/status", "", true),
		Entry(nil, "create", "tenants.tenantry.io", "", false),
		Entry(nil, "delete", "tenants.tenantry.io", "", false),
		Entry(nil, "list", "secrets", "", false),
		Entry(nil, "get", "secrets", "default", false),
		Entry(nil, "delete", "secrets", namespace, false),
		Entry(nil, "create", "events.events.k8s.io", "default", true),
		Entry(nil, "list", "events.events.k8s.io", namespace, true),
		Entry(nil, "watch", "events.events.k8s.io", namespace, false),
		Entry(nil, "list", "events.events.k8s.io", "default", false),
		Entry(nil, "create", "events.events.k8s.io", "kube-system", false),
		Entry(nil, "list", "controlplanes.tenantry.io", "", false),
		Entry(nil, "list", "nodes", "", false),
		Entry(nil, "impersonate", "users", "", false),
	)
})
