package workloads

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// injecting is a policy of a host that adds a container and a toleration to pods of a name.
func injecting(pod string) (*admissionregistrationv1.MutatingAdmissionPolicy, *admissionregistrationv1.MutatingAdmissionPolicyBinding) {
	meta := metav1.ObjectMeta{Name: pod}
	return &admissionregistrationv1.MutatingAdmissionPolicy{ObjectMeta: meta, Spec: admissionregistrationv1.MutatingAdmissionPolicySpec{
			MatchConstraints: &admissionregistrationv1.MatchResources{ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{{RuleWithOperations: admissionregistrationv1.RuleWithOperations{
				Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
				Rule:       admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods"}},
			}}}},
			MatchConditions:    []admissionregistrationv1.MatchCondition{{Name: "name", Expression: "object.metadata.name == '" + pod + "'"}},
			ReinvocationPolicy: admissionregistrationv1.NeverReinvocationPolicy,
			Mutations: []admissionregistrationv1.Mutation{{PatchType: admissionregistrationv1.PatchTypeJSONPatch, JSONPatch: &admissionregistrationv1.JSONPatch{Expression: `[
				JSONPatch{op: "add", path: "/spec/containers/-", value: Object.spec.containers{name: "sidecar", image: "localhost/sidecar:1",
					securityContext: Object.spec.containers.securityContext{capabilities: Object.spec.containers.securityContext.capabilities{drop: ["NET_RAW"]}}}},
				JSONPatch{op: "add", path: "/spec/tolerations/-", value: Object.spec.tolerations{key: "example.com/host", operator: "Exists"}}]`}}},
		}}, &admissionregistrationv1.MutatingAdmissionPolicyBinding{ObjectMeta: meta, Spec: admissionregistrationv1.MutatingAdmissionPolicyBindingSpec{
			PolicyName: pod, MatchResources: &admissionregistrationv1.MatchResources{},
		}}
}

var _ = Describe("What the host adds to pods", func() {
	It("stays there, is not shown in the space, and changes nothing of what the syncer does", func(ctx SpecContext) {
		const name = "injected"
		policies := host.AdmissionregistrationV1()
		policy, binding := injecting(name)
		_, err := policies.MutatingAdmissionPolicies().Create(ctx, policy, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(policies.MutatingAdmissionPolicies().Delete, name, metav1.DeleteOptions{})
		_, err = policies.MutatingAdmissionPolicyBindings().Create(ctx, binding, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(policies.MutatingAdmissionPolicyBindings().Delete, name, metav1.DeleteOptions{})
		Eventually(func(g Gomega) { // it holds some time after it has been made
			made, err := host.CoreV1().Pods(metav1.NamespaceDefault).Create(ctx, plainPod(name), dryCreate)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(made.Spec.Containers).To(HaveLen(2))
		}).Should(Succeed())

		pods := tenantry.Client(acme).CoreV1().Pods("default")
		_, err = pods.Create(ctx, plainPod(name), metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		there := onHost(ctx, acme, name)
		isInjected := func(g Gomega, pod *corev1.Pod) {
			g.Expect(pod.Spec.Containers).To(HaveLen(2))
			g.Expect(pod.Spec.Tolerations).To(ContainElement(HaveField("Key", "example.com/host")))
		}
		isInjected(NewWithT(GinkgoT()), there)
		start(ctx, there)
		hostPods := host.CoreV1().Pods(there.Namespace)
		Eventually(func() error { // as a kubelet does
			now, err := hostPods.Get(ctx, name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			for _, container := range []string{"c", "sidecar"} {
				now.Status.ContainerStatuses = append(now.Status.ContainerStatuses, corev1.ContainerStatus{Name: container, Ready: true, Image: "localhost/" + container})
			}
			_, err = hostPods.UpdateStatus(ctx, now, metav1.UpdateOptions{})
			return err
		}).Should(Succeed())
		Eventually(func(g Gomega) {
			now, err := pods.Get(ctx, name, metav1.GetOptions{})
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(now.Status.Phase).To(Equal(corev1.PodRunning))
			g.Expect(now.Status.ContainerStatuses).To(ConsistOf(HaveField("Name", "c")))
			g.Expect(now.Spec.Containers).To(ConsistOf(HaveField("Name", "c")))
			g.Expect(now.Spec.Tolerations).NotTo(ContainElement(HaveField("Key", "example.com/host")))
		}).Should(Succeed())

		_, err = pods.Patch(ctx, name, types.MergePatchType, []byte(`{"metadata":{"labels":{"example.com/edition":"2"}}}`), metav1.PatchOptions{})
		Expect(err).NotTo(HaveOccurred())
		Eventually(func(g Gomega) {
			now, err := hostPods.Get(ctx, name, metav1.GetOptions{})
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(now.UID).To(Equal(there.UID))
			g.Expect(now.Labels).To(HaveKeyWithValue("example.com/edition", "2"))
			isInjected(g, now)
		}).Should(Succeed())
		now, err := pods.Get(ctx, name, metav1.GetOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(now.Spec.Containers).To(HaveLen(1))

		Expect(pods.Delete(ctx, name, metav1.DeleteOptions{})).To(Succeed())
		Eventually(func(g Gomega) {
			now, err := hostPods.Get(ctx, name, metav1.GetOptions{})
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(now.DeletionTimestamp).NotTo(BeNil())
		}).Should(Succeed())
		Expect(hostPods.Delete(ctx, name, *metav1.NewDeleteOptions(0))).To(Succeed())
		Eventually(func() error {
			_, err := pods.Get(ctx, name, metav1.GetOptions{})
			return err
		}).Should(Satisfy(apierrors.IsNotFound))
	})
})
