package operator

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/kubernetes/pkg/controller/statefulset"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tenantry/tenantry/api/v1alpha1"
)

var _ = Describe("A problem of a ControlPlane", func() {
	for _, name := range []string{"-authorities", "-keys"} {
		It("is that the keys of "+name+" are gone, until they are back", func(ctx SpecContext) {
			cp := newControlPlane("gone")
			createAvailable(ctx, cp)
			backup := secret(ctx, cp.Name+name)
			before := secret(ctx, cp.Name+"-serving").Data
			Expect(admin.Delete(ctx, backup)).To(Succeed())
			condition := expectCondition(ctx, cp.Name, v1alpha1.ConditionDegraded, metav1.ConditionTrue, v1alpha1.ReasonKeysMissing)
			Expect(condition.Message).To(ContainSubstring(`Secret "gone` + name + `" is missing: restore it from a backup`))
			expectCondition(ctx, cp.Name, v1alpha1.ConditionAvailable, metav1.ConditionTrue, v1alpha1.ReasonServersReady)

			Expect(admin.Create(ctx, named(&corev1.Secret{Data: backup.Data, ObjectMeta: metav1.ObjectMeta{Labels: backup.Labels}}, backup.Name))).To(Succeed())
			expectCondition(ctx, cp.Name, v1alpha1.ConditionDegraded, metav1.ConditionFalse, v1alpha1.ReasonAsExpected)
			Expect(secret(ctx, cp.Name+"-serving").Data).To(Equal(before))
		})

		It("is that the keys of "+name+" are none, and servers go on with theirs", func(ctx SpecContext) {
			cp := newControlPlane("broken")
			createAvailable(ctx, cp)
			whole := secret(ctx, cp.Name+name)
			spoilt := map[string][]byte{}
			for key := range whole.Data {
				spoilt[key] = []byte("spoilt")
			}
			generation := get(ctx, &appsv1.StatefulSet{}, cp.Name).Generation
			for _, data := range []map[string][]byte{spoilt, {}} {
				Expect(admin.Delete(ctx, named(&corev1.Secret{}, whole.Name))).To(Succeed())
				Expect(admin.Create(ctx, named(&corev1.Secret{Data: data, ObjectMeta: metav1.ObjectMeta{Labels: whole.Labels}}, whole.Name))).To(Succeed())
				condition := expectCondition(ctx, cp.Name, v1alpha1.ConditionDegraded, metav1.ConditionTrue, v1alpha1.ReasonKeysInvalid)
				Expect(condition.Message).To(SatisfyAll(ContainSubstring(whole.Name), ContainSubstring("restore it")))
			}
			Expect(get(ctx, &appsv1.StatefulSet{}, cp.Name).Generation).To(Equal(generation))
			expectCondition(ctx, cp.Name, v1alpha1.ConditionAvailable, metav1.ConditionTrue, v1alpha1.ReasonServersReady)
		})
	}

	It("is that the authorities are others, and servers go on with theirs", func(ctx SpecContext) {
		cp, other := newControlPlane("replaced"), newControlPlane("other")
		createAvailable(ctx, cp)
		createAvailable(ctx, other)
		own, before := secret(ctx, "replaced-authorities"), secret(ctx, "replaced-serving").Data
		replaceBy := func(data map[string][]byte) {
			Expect(admin.Delete(ctx, named(&corev1.Secret{}, own.Name))).To(Succeed())
			Expect(admin.Create(ctx, named(&corev1.Secret{Data: data, ObjectMeta: metav1.ObjectMeta{Labels: own.Labels}}, own.Name))).To(Succeed())
		}
		replaceBy(secret(ctx, "other-authorities").Data)
		condition := expectCondition(ctx, cp.Name, v1alpha1.ConditionDegraded, metav1.ConditionTrue, v1alpha1.ReasonKeysInvalid)
		Expect(condition.Message).To(ContainSubstring(`Secret "replaced-authorities" has other keys than this ControlPlane was made with`))

		replaceBy(own.Data)
		expectCondition(ctx, cp.Name, v1alpha1.ConditionDegraded, metav1.ConditionFalse, v1alpha1.ReasonAsExpected)
		Expect(secret(ctx, "replaced-serving").Data).To(Equal(before))
	})

	It("is that somebody has made its keys before", func(ctx SpecContext) {
		cp, other := newControlPlane("planted"), newControlPlane("known")
		createAvailable(ctx, other)
		for _, name := range []string{"-authorities", "-keys"} {
			known := secret(ctx, other.Name+name)
			known.Labels["tenantry.io/control-plane"] = cp.Name
			planted := named(&corev1.Secret{Data: known.Data, ObjectMeta: metav1.ObjectMeta{Labels: known.Labels}}, cp.Name+name)
			Expect(admin.Create(ctx, planted)).To(Succeed())
			DeferCleanup(func(ctx SpecContext) { Expect(client.IgnoreNotFound(admin.Delete(ctx, planted))).To(Succeed()) })
		}
		create(ctx, cp)
		condition := expectCondition(ctx, cp.Name, v1alpha1.ConditionDegraded, metav1.ConditionTrue, v1alpha1.ReasonKeysNotAdopted)
		Expect(condition.Message).To(ContainSubstring(`Secret "planted-authorities" was there before this ControlPlane`))
		for _, missing := range []client.Object{named(&corev1.Secret{}, "planted-serving"), named(&corev1.Secret{}, "planted-admin"), named(&appsv1.StatefulSet{}, "planted")} {
			Expect(apierrors.IsNotFound(admin.Get(ctx, client.ObjectKeyFromObject(missing), missing))).To(BeTrue(), missing.GetName())
		}
		Expect(get(ctx, cp, cp.Name).Status.CertificateAuthority).To(BeEmpty())
	})

	It("is a version that the operator does not run", func(ctx SpecContext) {
		cp := newControlPlane("pinned")
		createAvailable(ctx, cp)
		generation := get(ctx, &appsv1.StatefulSet{}, cp.Name).Generation
		change(ctx, cp, cp.Name, func(cp *v1alpha1.ControlPlane) {
			cp.Spec.Version, cp.Spec.Pod.Image = "v9.0.0", "registry.example/tenantry:v9.0.0"
		})
		condition := expectCondition(ctx, cp.Name, v1alpha1.ConditionDegraded, metav1.ConditionTrue, v1alpha1.ReasonUnsupportedVersion)
		Expect(condition.Message).To(ContainSubstring("leave spec.version out"))
		expectCondition(ctx, cp.Name, v1alpha1.ConditionAvailable, metav1.ConditionTrue, v1alpha1.ReasonServersReady)
		Expect(get(ctx, &appsv1.StatefulSet{}, cp.Name).Generation).To(Equal(generation))
	})

	It("is what a server says at its end", func(ctx SpecContext) {
		cp := newControlPlane("failing")
		createAvailable(ctx, cp)
		pod := failedPod(ctx, "failing-0", get(ctx, &appsv1.StatefulSet{}, cp.Name).Spec.Template, "I1123 a line\ntenantry: the disk is full\n")
		condition := expectCondition(ctx, cp.Name, v1alpha1.ConditionDegraded, metav1.ConditionTrue, v1alpha1.ReasonPodFailing)
		Expect(condition.Message).To(Equal("pod failing-0: CrashLoopBackOff: tenantry: the disk is full"))
		expectEvent(ctx, namespace, cp.Name, v1alpha1.ReasonPodFailing)
		container := &pod.Status.ContainerStatuses[0]
		container.State = corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.Now()}}
		Expect(admin.Status().Update(ctx, pod)).To(Succeed())
		Eventually(func() string { return degraded(ctx, cp).Message }).Should(Equal("pod failing-0: Error: tenantry: the disk is full"))
		Expect(degraded(ctx, cp).Status).To(Equal(metav1.ConditionTrue), "it may end again")
		container = &pod.Status.ContainerStatuses[0] // what the host has answered
		container.Started, container.Ready = new(true), true
		Expect(admin.Status().Update(ctx, pod)).To(Succeed())
		expectCondition(ctx, cp.Name, v1alpha1.ConditionDegraded, metav1.ConditionFalse, v1alpha1.ReasonAsExpected)
	})

	It("is that the host makes no pod, as its event says", func(ctx SpecContext) {
		cp := newControlPlane("refused")
		cp.Spec.Pod.PriorityClassName = "nobody-made-it"
		create(ctx, cp)
		runStatefulSets(ctx)
		DeferCleanup(func(ctx SpecContext) {
			for _, left := range []client.Object{named(&corev1.Pod{}, "refused-0"), named(&corev1.PersistentVolumeClaim{}, "state-refused-0")} {
				Expect(client.IgnoreNotFound(admin.Delete(ctx, left, client.GracePeriodSeconds(0)))).To(Succeed())
			}
		})
		condition := expectCondition(ctx, cp.Name, v1alpha1.ConditionDegraded, metav1.ConditionTrue, v1alpha1.ReasonPodFailing)
		Expect(condition.Message).To(SatisfyAll(HavePrefix("StatefulSet refused has no pods: "), ContainSubstring("no PriorityClass with name nobody-made-it was found")))

		change(ctx, cp, cp.Name, func(cp *v1alpha1.ControlPlane) { cp.Spec.Pod.PriorityClassName = "" })
		get(ctx, &corev1.Pod{}, "refused-0")
		expectCondition(ctx, cp.Name, v1alpha1.ConditionDegraded, metav1.ConditionFalse, v1alpha1.ReasonAsExpected)
	}, NodeTimeout(startTimeout))
})

// degraded returns the condition Degraded of a ControlPlane.
func degraded(ctx context.Context, cp *v1alpha1.ControlPlane) metav1.Condition {
	GinkgoHelper()
	return *meta.FindStatusCondition(get(ctx, cp, cp.Name).Status.Conditions, v1alpha1.ConditionDegraded)
}

// runStatefulSets runs the host's own controller of StatefulSets until the end of the spec.
func runStatefulSets(ctx context.Context) {
	GinkgoHelper()
	clients, err := kubernetes.NewForConfig(cluster.Config)
	Expect(err).NotTo(HaveOccurred())
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	informers := informers.NewSharedInformerFactory(clients, 0)
	controller := statefulset.NewStatefulSetController(running, informers.Core().V1().Pods(), informers.Apps().V1().StatefulSets(),
		informers.Core().V1().PersistentVolumeClaims(), informers.Apps().V1().ControllerRevisions(), clients)
	informers.Start(running.Done())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		controller.Run(running, 1)
	}()
	DeferCleanup(func() {
		stop()
		Eventually(ended).Should(BeClosed())
	})
}
