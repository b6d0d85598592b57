package workloads

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/tenantry/tenantry/internal/tenant"
	"github.com/tenantry/tenantry/test/env/suite"
)

// refuseAll has a space refuse every write of the status, and every binding, of a pod.
func refuseAll(ctx SpecContext, client kubernetes.Interface) {
	GinkgoHelper()
	policies := client.AdmissionregistrationV1()
	_, err := policies.ValidatingAdmissionPolicies().Create(ctx, &admissionregistrationv1.ValidatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: "refuse"},
		Spec: admissionregistrationv1.ValidatingAdmissionPolicySpec{
			MatchConstraints: &admissionregistrationv1.MatchResources{ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{{RuleWithOperations: admissionregistrationv1.RuleWithOperations{
				Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.OperationAll},
				Rule:       admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods/status", "pods/binding"}},
			}}}},
			Validations: []admissionregistrationv1.Validation{{Expression: "false", Message: "by the space"}},
		},
	}, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	_, err = policies.ValidatingAdmissionPolicyBindings().Create(ctx, &admissionregistrationv1.ValidatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "refuse"},
		Spec:       admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{PolicyName: "refuse", ValidationActions: []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny}},
	}, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
}

var _ = Describe("Pods that no quota counts", func() {
	// setCondition changes of a pod's status what users may change.
	setCondition := func(ctx SpecContext, client kubernetes.Interface, name string) error {
		_, err := client.CoreV1().Pods("default").Patch(ctx, name, types.StrategicMergePatchType,
			[]byte(`{"status":{"conditions":[{"type":"example.com/gate","status":"True"}]}}`), metav1.PatchOptions{}, "status")
		return err
	}

	It("are none by what a space refuses, or says of its pods", func(ctx SpecContext) {
		n := tenantry.NewTenant(ctx, "refusing")
		client := tenantry.Client(n)
		pods := client.CoreV1().Pods("default")
		create := func(name string) {
			GinkgoHelper()
			Eventually(func() error {
				_, err := pods.Create(ctx, plainPod(name), metav1.CreateOptions{})
				return err
			}).Should(Succeed())
		}
		create("free")
		Expect(setCondition(ctx, client, "free")).To(Succeed())
		_, err := pods.Patch(ctx, "free", types.MergePatchType, []byte(`{"status":{"phase":"Succeeded"}}`), metav1.PatchOptions{}, "status")
		Expect(err).To(And(Satisfy(apierrors.IsForbidden), MatchError(ContainSubstring("status is what the host cluster says of the pod"))))

		refuseAll(ctx, client)
		Eventually(func() error { return setCondition(ctx, client, "free") }).Should(MatchError(ContainSubstring("by the space")))
		create("refused")
		start(ctx, onHost(ctx, n, "refused"))
		Eventually(func(g Gomega) {
			now, err := pods.Get(ctx, "refused", metav1.GetOptions{})
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(now.Spec.NodeName).To(Equal("node"))
			g.Expect(now.Status.Phase).To(Equal(corev1.PodRunning))
		}).Should(Succeed())
	})

	It("end on the host at once, whatever it has been told before", func(ctx SpecContext) {
		pods := tenantry.Client(acme).CoreV1().Pods("default")
		_, err := pods.Create(ctx, plainPod("years"), metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		there := onHost(ctx, acme, "years")
		start(ctx, there)
		// From the watch cache: as long as that does not know of the node, upstream's store takes the deletion for that of a
		// pod without a node, and keeps the grace period of zero when it tries again with the newer one.
		Eventually(func() (string, error) {
			now, err := pods.Get(ctx, "years", metav1.GetOptions{ResourceVersion: "0"})
			return now.Spec.NodeName, err
		}).Should(Equal("node"))
		grace := func() (int64, error) {
			now, err := host.CoreV1().Pods(there.Namespace).Get(ctx, there.Name, metav1.GetOptions{})
			if err != nil || now.DeletionGracePeriodSeconds == nil {
				return 0, err
			}
			return *now.DeletionGracePeriodSeconds, nil
		}
		Expect(pods.Delete(ctx, "years", *metav1.NewDeleteOptions(315360000))).To(Succeed())
		Eventually(grace).Should(Equal(int64(3600)), "no grace period on the host is longer")
		Expect(pods.Delete(ctx, "years", *metav1.NewDeleteOptions(0))).To(Succeed())
		Eventually(grace).Should(Equal(int64(1)))
	})

	It("end on the host when the platform says that they are over", func(ctx SpecContext) {
		pods := suite.Client(tenantry.In(acme, tenantry.Config(tenant.System))).CoreV1().Pods("default")
		_, err := pods.Create(ctx, plainPod("over"), metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		there := onHost(ctx, acme, "over")
		start(ctx, there)
		Eventually(func() (corev1.PodPhase, error) {
			now, err := pods.Get(ctx, "over", metav1.GetOptions{})
			return now.Status.Phase, err
		}).Should(Equal(corev1.PodRunning))
		_, err = pods.Patch(ctx, "over", types.MergePatchType, []byte(`{"status":{"phase":"Failed"}}`), metav1.PatchOptions{}, "status")
		Expect(err).NotTo(HaveOccurred())
		Eventually(func(g Gomega) {
			now, err := host.CoreV1().Pods(there.Namespace).Get(ctx, there.Name, metav1.GetOptions{})
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(now.DeletionGracePeriodSeconds).To(HaveValue(Equal(int64(1))))
		}).Should(Succeed())
	})
})

var _ = Describe("Readiness gates", func() {
	It("are the host's as their space says, and stay", func(ctx SpecContext) {
		pods := tenantry.Client(acme).CoreV1().Pods("default")
		pod := plainPod("gated")
		pod.Spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: "example.com/gate"}}
		_, err := pods.Create(ctx, pod, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		there := onHost(ctx, acme, "gated")
		start(ctx, there)
		statusOf := func(all []corev1.PodCondition, t corev1.PodConditionType) corev1.ConditionStatus {
			for _, c := range all {
				if c.Type == t {
					return c.Status
				}
			}
			return ""
		}
		for _, is := range []corev1.ConditionStatus{corev1.ConditionTrue, corev1.ConditionFalse} {
			_, err := pods.Patch(ctx, "gated", types.StrategicMergePatchType,
				[]byte(`{"status":{"conditions":[{"type":"example.com/gate","status":"`+string(is)+`"}]}}`), metav1.PatchOptions{}, "status")
			Expect(err).NotTo(HaveOccurred())
			Eventually(func() (corev1.ConditionStatus, error) {
				now, err := host.CoreV1().Pods(there.Namespace).Get(ctx, there.Name, metav1.GetOptions{})
				return statusOf(now.Status.Conditions, "example.com/gate"), err
			}).Should(Equal(is))
		}
		// What comes from the host afterwards leaves it as it is.
		now, err := host.CoreV1().Pods(there.Namespace).Get(ctx, there.Name, metav1.GetOptions{})
		Expect(err).NotTo(HaveOccurred())
		now.Status.PodIP, now.Status.PodIPs = "10.0.0.8", []corev1.PodIP{{IP: "10.0.0.8"}}
		_, err = host.CoreV1().Pods(there.Namespace).UpdateStatus(ctx, now, metav1.UpdateOptions{})
		Expect(err).NotTo(HaveOccurred())
		Eventually(func(g Gomega) {
			now, err := pods.Get(ctx, "gated", metav1.GetOptions{})
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(now.Status.PodIP).To(Equal("10.0.0.8"))
			g.Expect(statusOf(now.Status.Conditions, "example.com/gate")).To(Equal(corev1.ConditionFalse))
			g.Expect(statusOf(now.Status.Conditions, corev1.PodReady)).To(Equal(corev1.ConditionTrue))
		}).Should(Succeed())
	})
})
