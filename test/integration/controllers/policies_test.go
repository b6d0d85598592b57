package controllers

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tenantry/tenantry/internal/tenant"
	"github.com/tenantry/tenantry/test/env/suite"
)

// checkedPolicy is about gauges, whose spec.value must be a number for its
// expression to be right.
func checkedPolicy() *admissionregistrationv1.ValidatingAdmissionPolicy {
	return &admissionregistrationv1.ValidatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: "checked"},
		Spec: admissionregistrationv1.ValidatingAdmissionPolicySpec{
			MatchConstraints: &admissionregistrationv1.MatchResources{ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{{
				RuleWithOperations: admissionregistrationv1.RuleWithOperations{
					Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
					Rule:       admissionregistrationv1.Rule{APIGroups: []string{"example.org"}, APIVersions: []string{"v1"}, Resources: []string{"gauges"}},
				},
			}}},
			Validations: []admissionregistrationv1.Validation{{Expression: "object.spec.value > 1"}},
		},
	}
}

func defineGauges(ctx context.Context, n tenant.Name, value string) {
	GinkgoHelper()
	gauges := schema.GroupVersionResource{Group: "example.org", Version: "v1", Resource: "gauges"}
	definition := suite.NewDefinition(gauges, "Gauge", apiextensionsv1.NamespaceScoped)
	definition.Spec.Versions[0].Schema.OpenAPIV3Schema = &apiextensionsv1.JSONSchemaProps{
		Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{
			"spec": {Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{"value": {Type: value}}},
		},
	}
	client := suite.Definitions(configIn(n))
	_, err := client.Create(ctx, definition, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func(ctx context.Context) {
		Expect(client.Delete(ctx, definition.Name, metav1.DeleteOptions{})).To(Succeed())
	})
	Eventually(func(g Gomega) {
		found, err := client.Get(ctx, definition.Name, metav1.GetOptions{})
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(found.Status.Conditions).To(ContainElement(And(
			HaveField("Type", apiextensionsv1.Established), HaveField("Status", apiextensionsv1.ConditionTrue))))
	}).Should(Succeed())
}

var _ = Describe("the types in policies", func() {
	It("are checked by what the policy's own space serves", func(ctx context.Context) {
		defineGauges(ctx, "a", "integer")
		defineGauges(ctx, "b", "string")
		warnings := func(n tenant.Name) func(Gomega) []admissionregistrationv1.ExpressionWarning {
			return func(g Gomega) []admissionregistrationv1.ExpressionWarning {
				policy, err := client(n).AdmissionregistrationV1().ValidatingAdmissionPolicies().Get(ctx, "checked", metav1.GetOptions{})
				g.Expect(err).NotTo(HaveOccurred())
				g.Expect(policy.Status.ObservedGeneration).To(Equal(policy.Generation))
				return policy.Status.TypeChecking.ExpressionWarnings
			}
		}
		for _, n := range []tenant.Name{"a", "b", tenant.System} {
			policies := client(n).AdmissionregistrationV1().ValidatingAdmissionPolicies()
			policy := checkedPolicy()
			if n == tenant.System { // which has no gauges
				policy.Spec.MatchConstraints.ResourceRules[0].Rule = admissionregistrationv1.Rule{APIGroups: []string{"apps"}, APIVersions: []string{"v1"}, Resources: []string{"deployments"}}
				policy.Spec.Validations[0].Expression = "object.spec.none > 1"
			}
			_, err := policies.Create(ctx, policy, metav1.CreateOptions{})
			Expect(err).NotTo(HaveOccurred())
			DeferCleanup(func(ctx context.Context) {
				Expect(policies.Delete(ctx, "checked", metav1.DeleteOptions{})).To(Succeed())
			})
		}
		Eventually(warnings("a")).Should(BeEmpty())
		Eventually(warnings("b")).Should(ConsistOf(And(
			HaveField("FieldRef", "spec.validations[0].expression"), HaveField("Warning", ContainSubstring("no matching overload for '_>_' applied to '(string, int)'")))))
		Eventually(warnings(tenant.System)).Should(ConsistOf(HaveField("Warning", ContainSubstring("undefined field 'none'"))))
	})
})
