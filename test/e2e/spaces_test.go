//go:build e2e

package e2e

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/tenantry/tenantry/api/v1alpha1"
)

var _ = Describe("Two tenants", Ordered, func() {
	const namespace = "shop"
	var (
		a, b             *v1alpha1.Tenant
		adminA           *rest.Config
		clientA, clientB *kubernetes.Clientset
	)

	BeforeAll(func(ctx SpecContext) {
		a, b = createTenant(ctx), createTenant(ctx)
		adminA = administrator(ctx, a)
		clientA, clientB = clientFor(adminA), clientFor(administrator(ctx, b))
		for _, client := range []*kubernetes.Clientset{clientA, clientB} {
			_, err := client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{})
			Expect(err).NotTo(HaveOccurred())
		}
	}, NodeTimeout(timeout))

	It("run workloads of the same name", func(ctx SpecContext) {
		for client, replicas := range map[*kubernetes.Clientset]int{clientA: 1, clientB: 2} {
			_, err := client.AppsV1().Deployments(namespace).Create(ctx, web(int32(replicas)), metav1.CreateOptions{})
			Expect(err).NotTo(HaveOccurred())
			Eventually(func() ([]corev1.Pod, error) {
				pods, err := client.CoreV1().Pods("").List(ctx, metav1.ListOptions{LabelSelector: "app=web"})
				return pods.Items, err
			}).WithContext(ctx).Should(HaveLen(replicas))
		}
	}, NodeTimeout(timeout))

	It("cannot reach each other", func(ctx SpecContext) {
		config := rest.CopyConfig(adminA)
		config.Host += "/tenants/" + b.Name
		_, err := clientFor(config).CoreV1().Namespaces().List(ctx, metav1.ListOptions{})
		Expect(apierrors.IsForbidden(err)).To(BeTrue(), "%v", err)
	}, NodeTimeout(timeout))

	It("go without leaving anything or touching the other", func(ctx SpecContext) {
		deleteTenant(ctx, a)
		_, err := clientA.CoreV1().Namespaces().List(ctx, metav1.ListOptions{})
		Expect(err).To(HaveOccurred())
		_, err = clientB.AppsV1().Deployments(namespace).Get(ctx, "web", metav1.GetOptions{})
		Expect(err).NotTo(HaveOccurred())
	}, NodeTimeout(timeout))
})

func web(replicas int32) *appsv1.Deployment {
	labels := map[string]string{"app": "web"}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas,
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "nginx"}}},
			},
		},
	}
}
