package admission

import (
	"context"
	"fmt"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
)

// setPlacement changes spec.nodePlacement of the tenant of a client.
func setPlacement(ctx context.Context, of *kubernetes.Clientset, placement string) {
	GinkgoHelper()
	_, name, _ := strings.Cut(of.RESTClient().Get().URL().Path, "/tenants/")
	name, _, _ = strings.Cut(name, "/")
	patch := fmt.Sprintf(`{"spec":{"nodePlacement":%s}}`, placement)
	Expect(system().CoreV1().RESTClient().Patch(types.MergePatchType).AbsPath("/apis/tenantry.io/v1alpha1/tenants", name).
		Body([]byte(patch)).Do(ctx).Error()).To(Succeed())
}

var _ = Describe("Pods that choose their nodes", func() {
	selecting := func(label string) func(*corev1.Pod) {
		return func(pod *corev1.Pod) { pod.Spec.NodeSelector = map[string]string{label: "x"} }
	}
	deploying := func(ctx context.Context, client kubernetes.Interface, label string) error {
		labels := map[string]string{"app": "d"}
		_, err := client.AppsV1().Deployments("default").Create(ctx, &appsv1.Deployment{
			ObjectMeta: metav1.ObjectMeta{GenerateName: "d-"},
			Spec: appsv1.DeploymentSpec{
				Selector: &metav1.LabelSelector{MatchLabels: labels},
				Template: corev1.PodTemplateSpec{
					ObjectMeta: metav1.ObjectMeta{Labels: labels},
					Spec:       corev1.PodSpec{NodeSelector: map[string]string{label: "x"}, Containers: []corev1.Container{{Name: "c", Image: "i"}}},
				},
			},
		}, metav1.CreateOptions{})
		return err
	}

	It("are refused, limited or allowed as their tenant says", func(ctx SpecContext) {
		a := newTenant(ctx, "placed")
		ensureServiceAccount(ctx, a, "default")
		refused := func(err error, what string) {
			GinkgoHelper()
			Expect(err).To(beForbidden())
			Expect(err).To(MatchError(And(ContainSubstring("SpacePolicy: node placement is "), ContainSubstring(what))))
		}
		_, err := newPod(ctx, a, "default", selecting("disk"))
		refused(err, `Disabled in this tenant, which does not allow spec.nodeSelector "disk"`)
		_, err = newPod(ctx, a, "default", func(pod *corev1.Pod) { pod.Spec.NodeName = "n" })
		refused(err, `spec.nodeName "n"`)
		refused(deploying(ctx, a, "disk"), `spec.template.spec.nodeSelector "disk"`)
		Expect(deploying(ctx, a, "kubernetes.io/os")).To(Succeed())
		pod, err := newPod(ctx, a, "default")
		Expect(err).NotTo(HaveOccurred(), "a pod that chooses nothing")
		refused(a.CoreV1().Pods("default").Bind(ctx, &corev1.Binding{
			ObjectMeta: metav1.ObjectMeta{Name: pod.Name}, Target: corev1.ObjectReference{Kind: "Node", Name: "n"},
		}, metav1.CreateOptions{}), `target "n"`)

		setPlacement(ctx, a, `{"mode":"Limited","allowedLabels":["zone"]}`)
		Eventually(func() error {
			_, err := newPod(ctx, a, "default", selecting("zone"))
			return err
		}).Should(Succeed())
		Expect(deploying(ctx, a, "zone")).To(Succeed())
		_, err = newPod(ctx, a, "default", selecting("disk"))
		refused(err, `Limited to labels [zone] and taints []`)
		refused(deploying(ctx, a, "disk"), `spec.template.spec.nodeSelector "disk"`)

		setPlacement(ctx, a, `{"mode":"Enabled","allowedLabels":null}`)
		Eventually(func() error {
			_, err := newPod(ctx, a, "default", selecting("disk"))
			return err
		}).Should(Succeed())
		Expect(deploying(ctx, a, "disk")).To(Succeed())

		_, err = newPod(ctx, system(), "default", func(pod *corev1.Pod) { pod.Spec.NodeName = "n" })
		Expect(err).NotTo(HaveOccurred(), "in the system space")
	})
})
