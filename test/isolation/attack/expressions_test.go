package attack

import (
	"context"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"

	"github.com/tenantry/tenantry/test/env/suite"
)

// Each expression would take hundreds of gigabytes, and end the server of all tenants.
var _ = Describe("Expressions that make gigabytes of a small object", func() {
	const bytes = 500_000
	large := "a value of this expression has more than"

	It("fail as rules of a definition", func(ctx SpecContext) {
		bombs := schema.GroupVersionResource{Group: "expressions.example.com", Version: "v1", Resource: "bombs"}
		definition := suite.NewDefinition(bombs, "Bomb", apiextensionsv1.NamespaceScoped)
		definition.Spec.Versions[0].Schema.OpenAPIV3Schema = &apiextensionsv1.JSONSchemaProps{
			Type: "object",
			Properties: map[string]apiextensionsv1.JSONSchemaProps{
				"s": {Type: "string", MaxLength: ptr.To[int64](1_000_000)},
			},
			XValidations: apiextensionsv1.ValidationRules{{Rule: "size(self.s.replace('a', self.s)) > 0"}},
		}
		_, err := suite.Definitions(tenantry.Config("a")).Create(ctx, definition, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		bomb := &unstructured.Unstructured{Object: map[string]any{"s": strings.Repeat("a", bytes)}}
		bomb.SetAPIVersion(bombs.GroupVersion().String())
		bomb.SetKind("Bomb")
		bomb.SetName("bomb")
		Eventually(func() error {
			_, err := suite.Dynamic(tenantry.Config("a")).Resource(bombs).Namespace("default").Create(ctx, bomb, metav1.CreateOptions{})
			return err
		}, "30s").Should(MatchError(ContainSubstring(large)))
	})

	// match is what the policy of a name matches: ConfigMaps of that name.
	match := func(name string) *admissionregistrationv1.MatchResources {
		return &admissionregistrationv1.MatchResources{ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{{
			ResourceNames: []string{name},
			RuleWithOperations: admissionregistrationv1.RuleWithOperations{
				Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
				Rule:       admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"configmaps"}},
			},
		}}}
	}
	create := func(ctx context.Context, name string) func() error {
		object := &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{}},
			Data:       map[string]string{"s": strings.Repeat("a", bytes)},
		}
		return func() error {
			_, err := suite.Client(tenantry.Config("a")).CoreV1().ConfigMaps("default").Create(ctx, object, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
			return err
		}
	}

	It("fail in policies that validate", func(ctx SpecContext) {
		registration, meta := suite.Client(tenantry.Config("a")).AdmissionregistrationV1(), metav1.ObjectMeta{Name: "validated"}
		_, err := registration.ValidatingAdmissionPolicies().Create(ctx, &admissionregistrationv1.ValidatingAdmissionPolicy{
			ObjectMeta: meta,
			Spec: admissionregistrationv1.ValidatingAdmissionPolicySpec{
				MatchConstraints: match(meta.Name),
				Validations:      []admissionregistrationv1.Validation{{Expression: "object.data.s.replace('a', object.data.s) != ''"}},
			},
		}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		_, err = registration.ValidatingAdmissionPolicyBindings().Create(ctx, &admissionregistrationv1.ValidatingAdmissionPolicyBinding{
			ObjectMeta: meta,
			Spec: admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{
				PolicyName: meta.Name, ValidationActions: []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny},
			},
		}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		Eventually(create(ctx, meta.Name), "30s").Should(MatchError(ContainSubstring(large)))
	})

	It("fail in policies that mutate", func(ctx SpecContext) {
		registration, meta := suite.Client(tenantry.Config("a")).AdmissionregistrationV1(), metav1.ObjectMeta{Name: "mutated"}
		_, err := registration.MutatingAdmissionPolicies().Create(ctx, &admissionregistrationv1.MutatingAdmissionPolicy{
			ObjectMeta: meta,
			Spec: admissionregistrationv1.MutatingAdmissionPolicySpec{
				ReinvocationPolicy: admissionregistrationv1.NeverReinvocationPolicy,
				MatchConstraints:   match(meta.Name),
				Mutations: []admissionregistrationv1.Mutation{{
					PatchType: admissionregistrationv1.PatchTypeJSONPatch,
					JSONPatch: &admissionregistrationv1.JSONPatch{Expression: "object.data.s.split('', 20000).map(x, JSONPatch{op: 'add', path: '/metadata/annotations/x', value: object.data.s})"},
				}},
			},
		}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		_, err = registration.MutatingAdmissionPolicyBindings().Create(ctx, &admissionregistrationv1.MutatingAdmissionPolicyBinding{
			ObjectMeta: meta,
			Spec:       admissionregistrationv1.MutatingAdmissionPolicyBindingSpec{PolicyName: meta.Name},
		}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		Eventually(create(ctx, meta.Name), "30s").Should(MatchError(ContainSubstring("cost limit exceeded")))
	})
})

// Each expression takes memory as long as its policy exists.
var _ = Describe("Expressions of all policies of a space", func() {
	It("are bounded", func(ctx SpecContext) {
		policies := tenantry.Client(tenantry.NewTenant(ctx, "expressions")).AdmissionregistrationV1().ValidatingAdmissionPolicies()
		policy := &admissionregistrationv1.ValidatingAdmissionPolicy{
			ObjectMeta: metav1.ObjectMeta{GenerateName: "many-", Labels: map[string]string{"many": ""}},
			Spec: admissionregistrationv1.ValidatingAdmissionPolicySpec{
				MatchConstraints: &admissionregistrationv1.MatchResources{ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{{
					RuleWithOperations: admissionregistrationv1.RuleWithOperations{
						Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
						Rule:       admissionregistrationv1.Rule{APIGroups: []string{"expressions.example.com"}, APIVersions: []string{"v1"}, Resources: []string{"none"}},
					},
				}}},
				Validations: slices.Repeat([]admissionregistrationv1.Validation{{Expression: "true"}}, 500),
			},
		}
		Eventually(func() error { // the last writes may not be counted yet
			_, err := policies.Create(ctx, policy, metav1.CreateOptions{})
			return err
		}).Should(MatchError(ContainSubstring("with it the policies and webhooks of the space have ")))
		list, err := policies.List(ctx, metav1.ListOptions{LabelSelector: "many"})
		Expect(err).NotTo(HaveOccurred())
		Expect(len(list.Items)).To(And(BeNumerically(">", 1), BeNumerically("<", 8)))
	})
})
