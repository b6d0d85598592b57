package admission

import (
	"k8s.io/client-go/kubernetes"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	applyappsv1 "k8s.io/client-go/applyconfigurations/apps/v1"
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"
	applymetav1 "k8s.io/client-go/applyconfigurations/meta/v1"

	"github.com/tenantry/tenantry/internal/tenant"
)

func daemonSet() *appsv1.DaemonSet {
	labels := map[string]string{"app": "d"}
	return &appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Name: "d"},
		Spec: appsv1.DaemonSetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}},
			},
		},
	}
}

var _ = Describe("What belongs to nodes", func() {
	It("is refused in a space, naming the policy, and allowed in the system space", func(ctx SpecContext) {
		a := newTenant(ctx, "nodes")
		for what, create := range map[string]func(kubernetes.Interface) error{
			`daemonsets.apps "d"`: func(client kubernetes.Interface) error {
				_, err := client.AppsV1().DaemonSets("default").Create(ctx, daemonSet(), metav1.CreateOptions{})
				return err
			},
			`daemonsets.apps "applied"`: func(client kubernetes.Interface) error {
				applied := applyappsv1.DaemonSet("applied", "default").WithSpec(applyappsv1.DaemonSetSpec().
					WithSelector(applymetav1.LabelSelector().WithMatchLabels(map[string]string{"app": "d"})).
					WithTemplate(applycorev1.PodTemplateSpec().WithLabels(map[string]string{"app": "d"}).
						WithSpec(applycorev1.PodSpec().WithContainers(applycorev1.Container().WithName("c").WithImage("i")))))
				_, err := client.AppsV1().DaemonSets("default").Apply(ctx, applied, metav1.ApplyOptions{FieldManager: "test", Force: true})
				return err
			},
			`nodes "n"`: func(client kubernetes.Interface) error {
				_, err := client.CoreV1().Nodes().Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}, metav1.CreateOptions{})
				return err
			},
			`csinodes.storage.k8s.io "n"`: func(client kubernetes.Interface) error {
				_, err := client.StorageV1().CSINodes().Create(ctx, &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: "n"}}, metav1.CreateOptions{})
				return err
			},
		} {
			err := create(a)
			Expect(err).To(beForbidden(), what)
			Expect(err).To(MatchError(ContainSubstring(what + " is forbidden: SpacePolicy: ")))
			Expect(create(tenantry.Client(tenant.System))).To(Succeed(), what)
		}
	})
})

var _ = Describe("Admission of two tenants", func() {
	var a, b *kubernetes.Clientset

	BeforeEach(func(ctx SpecContext) {
		a, b = newTenant(ctx, "a"), newTenant(ctx, "b")
	})

	It("limits pods by the space's own limit ranges", func(ctx SpecContext) {
		_, err := a.CoreV1().LimitRanges("default").Create(ctx, &corev1.LimitRange{
			ObjectMeta: metav1.ObjectMeta{Name: "l"},
			Spec: corev1.LimitRangeSpec{Limits: []corev1.LimitRangeItem{{
				Type:           corev1.LimitTypeContainer,
				DefaultRequest: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("123m")},
			}}},
		}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		Eventually(func() (string, error) {
			pod, err := newPod(ctx, a, "default")
			if err != nil {
				return "", err
			}
			return pod.Spec.Containers[0].Resources.Requests.Cpu().String(), nil
		}).Should(Equal("123m"))
		pod, err := newPod(ctx, b, "default")
		Expect(err).NotTo(HaveOccurred())
		Expect(pod.Spec.Containers[0].Resources.Requests).To(BeEmpty())
	})

	It("enforces the labels of the space's own namespaces", func(ctx SpecContext) {
		newNamespace(ctx, a, "team", map[string]string{"pod-security.kubernetes.io/enforce": "restricted"})
		newNamespace(ctx, b, "team", nil)
		_, err := newPod(ctx, a, "team")
		Expect(err).To(beForbidden())
		Expect(err).To(MatchError(ContainSubstring(`violates PodSecurity "restricted:latest"`)))
		_, err = newPod(ctx, b, "team")
		Expect(err).NotTo(HaveOccurred())
	})

	It("knows the space's own namespaces, at once", func(ctx SpecContext) {
		newNamespace(ctx, a, "only", nil)
		_, err := newPod(ctx, b, "only")
		Expect(err).To(MatchError(`namespaces "only" not found`))
		Expect(apierrors.IsNotFound(err)).To(BeTrue())
		for _, name := range []string{"default", "kube-system", "kube-public"} {
			Expect(a.CoreV1().Namespaces().Delete(ctx, name, metav1.DeleteOptions{})).To(beForbidden())
		}
	})

	It("refuses new objects in a namespace that is being deleted", func(ctx SpecContext) {
		for _, client := range []*kubernetes.Clientset{a, b} {
			newNamespace(ctx, client, "team", nil)
		}
		_, err := newPod(ctx, a, "team", func(p *corev1.Pod) { p.Finalizers = []string{"example.com/keep"} })
		Expect(err).NotTo(HaveOccurred())
		Expect(a.CoreV1().Namespaces().Delete(ctx, "team", metav1.DeleteOptions{})).To(Succeed())
		_, err = newPod(ctx, a, "team")
		Expect(err).To(beForbidden())
		Expect(err).To(MatchError(ContainSubstring("unable to create new content in namespace team because it is being terminated")))
		_, err = newPod(ctx, b, "team")
		Expect(err).NotTo(HaveOccurred())
	})

	It("finds the space's own service accounts", func(ctx SpecContext) {
		_, err := a.CoreV1().ServiceAccounts("default").Create(ctx,
			&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "builder"}}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		asBuilder := func(p *corev1.Pod) { p.Spec.ServiceAccountName = "builder" }
		pod, err := newPod(ctx, a, "default", asBuilder)
		Expect(err).NotTo(HaveOccurred())
		Expect(pod.Spec.Volumes).To(HaveLen(1))
		_, err = newPod(ctx, b, "default", asBuilder)
		Expect(err).To(MatchError(ContainSubstring("error looking up service account default/builder")))
	})

	It("resolves priorities by the space's own classes", func(ctx SpecContext) {
		for client, value := range map[*kubernetes.Clientset]int32{a: 10, b: 20} {
			_, err := client.SchedulingV1().PriorityClasses().Create(ctx, &schedulingv1.PriorityClass{
				ObjectMeta: metav1.ObjectMeta{Name: "high"}, Value: value, GlobalDefault: true,
			}, metav1.CreateOptions{})
			Expect(err).NotTo(HaveOccurred())
			Eventually(func() (int32, error) {
				pod, err := newPod(ctx, client, "default")
				if err != nil {
					return 0, err
				}
				return *pod.Spec.Priority, nil
			}).Should(Equal(value))
		}
		pod, err := newPod(ctx, a, "default", func(p *corev1.Pod) { p.Spec.PriorityClassName = "system-node-critical" })
		Expect(err).NotTo(HaveOccurred())
		Expect(*pod.Spec.Priority).To(BeEquivalentTo(2000001000))
	})
})
