package usage

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

var _ = Describe("What the policies of a tenant read", func() {
	It("counts in what it takes of the server's memory", func(ctx SpecContext) {
		s := newSpace(ctx)
		registration := s.AdmissionregistrationV1()
		_, err := registration.ValidatingAdmissionPolicies().Create(ctx, &admissionregistrationv1.ValidatingAdmissionPolicy{
			ObjectMeta: metav1.ObjectMeta{Name: "reads"},
			Spec: admissionregistrationv1.ValidatingAdmissionPolicySpec{
				ParamKind: &admissionregistrationv1.ParamKind{APIVersion: "v1", Kind: "ConfigMap"},
				MatchConstraints: &admissionregistrationv1.MatchResources{ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{{
					RuleWithOperations: admissionregistrationv1.RuleWithOperations{
						Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
						Rule:       admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"secrets"}},
					},
				}}},
				Validations: []admissionregistrationv1.Validation{{Expression: "true"}},
			},
		}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		bytes := func() int64 { return sum(metrics(ctx, "tenantry_tenant_cache_bytes")) } // some tenants have one together
		Eventually(bytes).Should(BeNumerically(">", 0))
		before := bytes()

		s.fill(ctx, 3, 100_000)
		_, err = registration.ValidatingAdmissionPolicyBindings().Create(ctx, &admissionregistrationv1.ValidatingAdmissionPolicyBinding{
			ObjectMeta: metav1.ObjectMeta{Name: "reads"},
			Spec: admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{
				PolicyName: "reads", ValidationActions: []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny},
				ParamRef: &admissionregistrationv1.ParamRef{Name: "filled-0", Namespace: metav1.NamespaceDefault, ParameterNotFoundAction: ptr.To(admissionregistrationv1.DenyAction)},
			},
		}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		Eventually(func(g Gomega) {
			_, err := s.CoreV1().Secrets(metav1.NamespaceDefault).Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{GenerateName: "s-"}}, metav1.CreateOptions{})
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(bytes()).To(BeNumerically(">", before+300_000))
		}).Should(Succeed())

		Expect(registration.ValidatingAdmissionPolicyBindings().Delete(ctx, "reads", metav1.DeleteOptions{})).To(Succeed())
		Eventually(bytes).Should(BeNumerically("<=", before))
	}, SpecTimeout(specTimeout))
})
