package workloads

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
)

var _ = Describe("Budgets of spaces", func() {
	It("are on the host with the number that the space counts", func(ctx SpecContext) {
		client := tenantry.Client(acme)
		pod := plainPod("guarded")
		pod.Labels = map[string]string{"app": "guarded"}
		_, err := client.CoreV1().Pods("default").Create(ctx, pod, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		there := onHost(ctx, acme, "guarded")
		budgets := client.PolicyV1().PodDisruptionBudgets("default")
		_, err = budgets.Create(ctx, &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Name: "guarded"}, Spec: policyv1.PodDisruptionBudgetSpec{
			MinAvailable: new(intstr.FromInt32(2)), Selector: &metav1.LabelSelector{MatchLabels: pod.Labels},
		}}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		minAvailable := func() (string, error) {
			found, err := host.PolicyV1().PodDisruptionBudgets(there.Namespace).Get(ctx, "tn-guarded", metav1.GetOptions{})
			if err != nil {
				return "", err
			}
			return found.Spec.MinAvailable.String(), nil
		}
		Eventually(minAvailable).Should(Equal("2"))
		_, err = budgets.Patch(ctx, "guarded", types.MergePatchType, []byte(`{"spec":{"minAvailable":1}}`), metav1.PatchOptions{})
		Expect(err).NotTo(HaveOccurred())
		Eventually(minAvailable).Should(Equal("1"))
		Expect(host.PolicyV1().PodDisruptionBudgets(there.Namespace).Delete(ctx, "tn-guarded", metav1.DeleteOptions{})).To(Succeed())
		Eventually(minAvailable).Should(Equal("1"), "it comes back")
		Expect(budgets.Delete(ctx, "guarded", metav1.DeleteOptions{})).To(Succeed())
		Eventually(func() error {
			_, err := minAvailable()
			return err
		}).Should(Satisfy(apierrors.IsNotFound))
	})
})
