package workloads

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tenantry/tenantry/internal/tenant"
	"github.com/tenantry/tenantry/internal/workloads/names"
	"github.com/tenantry/tenantry/test/env/suite"
)

// By another salt, a namespace would have another home on the host, and nobody would look after what is in the one
// before.
var _ = Describe("A namespace's name on the host", func() {
	It("is not the choice of its tenant, by a policy that changes what the platform writes", func(ctx SpecContext) {
		n := tenantry.NewTenant(ctx, "salted")
		own := suite.Client(tenantry.Config(n))
		meta := metav1.ObjectMeta{Name: "salt"}
		_, err := own.AdmissionregistrationV1().MutatingAdmissionPolicies().Create(ctx, &admissionregistrationv1.MutatingAdmissionPolicy{
			ObjectMeta: meta,
			Spec: admissionregistrationv1.MutatingAdmissionPolicySpec{
				ReinvocationPolicy: admissionregistrationv1.NeverReinvocationPolicy,
				MatchConstraints: &admissionregistrationv1.MatchResources{ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{{
					RuleWithOperations: admissionregistrationv1.RuleWithOperations{
						Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Update},
						Rule:       admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"namespaces"}},
					},
				}}},
				Mutations: []admissionregistrationv1.Mutation{{
					PatchType: admissionregistrationv1.PatchTypeApplyConfiguration,
					ApplyConfiguration: &admissionregistrationv1.ApplyConfiguration{
						Expression: `Object{metadata: Object.metadata{annotations: {"` + names.SaltAnnotation + `": "mine"}}}`,
					},
				}},
			},
		}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		_, err = own.AdmissionregistrationV1().MutatingAdmissionPolicyBindings().Create(ctx, &admissionregistrationv1.MutatingAdmissionPolicyBinding{
			ObjectMeta: meta, Spec: admissionregistrationv1.MutatingAdmissionPolicyBindingSpec{PolicyName: meta.Name},
		}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		platform := suite.Client(tenantry.In(n, tenantry.Config(tenant.System))).CoreV1().Namespaces()
		Eventually(func() error { // the policy has an effect after a moment
			_, err := platform.Patch(ctx, "default", types.MergePatchType, []byte(`{"metadata": {"labels": {"seen": "yes"}}}`), metav1.PatchOptions{})
			return err
		}).Should(And(MatchError(apierrors.IsForbidden, "forbidden"), MatchError(ContainSubstring("by a mutating webhook or policy of the space"))))
		namespace, err := platform.Get(ctx, "default", metav1.GetOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(namespace.Annotations).NotTo(HaveKey(names.SaltAnnotation))
	})
})
