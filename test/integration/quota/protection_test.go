package quota

import (
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tenantry/tenantry/api/v1alpha1"
)

var _ = Describe("The quota of a tenant", func() {
	It("is there by default, and shown in the space and in the Tenant", func(ctx SpecContext) {
		s := newSpace(ctx, nil)
		Eventually(func(g Gomega) {
			q := s.quota(ctx)
			g.Expect(q.Spec.Hard).NotTo(BeEmpty())
			g.Expect(q.Status.Hard).To(Equal(q.Spec.Hard))
			g.Expect(q.Status.Used).To(HaveLen(len(q.Spec.Hard)))
		}).Should(Succeed())
		Expect(s.createPod(ctx, "default", "p")).To(Succeed())
		Expect(s.used(ctx, "pods")).To(BeEquivalentTo(1))
		Eventually(func(g Gomega) {
			object, err := tenantry.Tenants().Get(ctx, s.name.String(), metav1.GetOptions{})
			g.Expect(err).NotTo(HaveOccurred())
			used, _, _ := unstructured.NestedString(object.Object, "status", "quota", "used", "pods")
			g.Expect(used).To(Equal("1"))
			hard, _, _ := unstructured.NestedString(object.Object, "status", "quota", "hard", "pods")
			g.Expect(hard).NotTo(BeEmpty())
		}).Should(Succeed())
	}, SpecTimeout(time.Minute))

	It("cannot be changed or deleted in the space", func(ctx SpecContext) {
		s := newSpace(ctx, limits{"pods": "1"})
		quotas := s.CoreV1().ResourceQuotas("default")
		raised := s.quota(ctx)
		raised.Spec.Hard = limits{"pods": "100"}.list()
		raised.Status.Hard, raised.Status.Used = raised.Spec.Hard, limits{"pods": "0"}.list()
		raised.ManagedFields = nil
		merge := func(patch string, subresources ...string) error {
			_, err := quotas.Patch(ctx, v1alpha1.TenantQuota, types.MergePatchType, []byte(patch), metav1.PatchOptions{}, subresources...)
			return err
		}
		gvr := corev1.SchemeGroupVersion.WithResource("resourcequotas")
		for what, err := range map[string]error{
			"update":         second(quotas.Update(ctx, raised, metav1.UpdateOptions{})),
			"status":         second(quotas.UpdateStatus(ctx, raised, metav1.UpdateOptions{})),
			"patch":          merge(`{"spec":{"hard":{"pods":"100"}}}`),
			"label":          merge(`{"metadata":{"labels":{"a":"b"}}}`),
			"finalizer":      merge(`{"metadata":{"finalizers":["a.example.com/b"]}}`),
			"owner":          merge(`{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"Pod","name":"p","uid":"u"}]}}`),
			"status patch":   merge(`{"status":{"used":{"pods":"0"}}}`, "status"),
			"apply":          second(s.dynamic.Resource(gvr).Namespace("default").Apply(ctx, v1alpha1.TenantQuota, applied("100"), metav1.ApplyOptions{FieldManager: "t", Force: true})),
			"delete":         quotas.Delete(ctx, v1alpha1.TenantQuota, metav1.DeleteOptions{}),
			"delete at once": quotas.Delete(ctx, v1alpha1.TenantQuota, now),
			"collection":     quotas.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}),
		} {
			Expect(err).To(beForbidden(), what)
			Expect(err.Error()).To(ContainSubstring("quota of the tenant as a whole"), what)
		}
		Expect(s.createPod(ctx, "default", "p")).To(Succeed())
		Expect(s.createPod(ctx, "default", "q")).To(beRefused())
		Expect(s.quota(ctx).Labels).To(BeEmpty())
	}, SpecTimeout(time.Minute))

	It("is out of reach of the space's admission policies", func(ctx SpecContext) {
		s := newSpace(ctx, limits{"pods": "1"})
		fail := admissionregistrationv1.Fail
		_, err := s.AdmissionregistrationV1().ValidatingAdmissionPolicies().Create(ctx, &admissionregistrationv1.ValidatingAdmissionPolicy{
			ObjectMeta: metav1.ObjectMeta{Name: "never"},
			Spec: admissionregistrationv1.ValidatingAdmissionPolicySpec{
				FailurePolicy: &fail,
				MatchConstraints: &admissionregistrationv1.MatchResources{ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{{
					RuleWithOperations: admissionregistrationv1.RuleWithOperations{
						Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.OperationAll},
						Rule:       admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"resourcequotas", "resourcequotas/status"}},
					},
				}}},
				Validations: []admissionregistrationv1.Validation{{Expression: "false"}},
			},
		}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		_, err = s.AdmissionregistrationV1().ValidatingAdmissionPolicyBindings().Create(ctx, &admissionregistrationv1.ValidatingAdmissionPolicyBinding{
			ObjectMeta: metav1.ObjectMeta{Name: "never"},
			Spec: admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{
				PolicyName: "never", ValidationActions: []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny},
			},
		}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		Eventually(func() error {
			_, err := s.CoreV1().ResourceQuotas("kube-system").Create(ctx, &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{GenerateName: "q-"}}, metav1.CreateOptions{})
			return err
		}).Should(MatchError(ContainSubstring("never")), "the policy is in force")
		Expect(s.createPod(ctx, "default", "p")).To(Succeed())
		Expect(s.used(ctx, "pods")).To(BeEquivalentTo(1))
		s.limit(ctx, limits{"pods": "2"})
	}, SpecTimeout(time.Minute))

	It("comes back, counted, when the platform deletes it", func(ctx SpecContext) {
		s := newSpace(ctx, limits{"pods": "2"})
		Expect(s.createPod(ctx, "default", "p")).To(Succeed())
		before := s.quota(ctx)
		Expect(s.admin().CoreV1().ResourceQuotas("default").Delete(ctx, v1alpha1.TenantQuota, metav1.DeleteOptions{})).To(Succeed())
		Eventually(func(g Gomega) {
			q, err := s.CoreV1().ResourceQuotas("default").Get(ctx, v1alpha1.TenantQuota, metav1.GetOptions{})
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(q.UID).NotTo(Equal(before.UID))
			g.Expect(q.Status.Used).To(equalAmounts(limits{"pods": "1"}))
		}).Should(Succeed())
		Expect(s.createPod(ctx, "default", "q")).To(Succeed())
		Expect(s.createPod(ctx, "default", "r")).To(beRefused())
	}, SpecTimeout(time.Minute))

	It("is recounted when it is wrong", func(ctx SpecContext) {
		s := newSpace(ctx, limits{"pods": "3"})
		Expect(s.createPod(ctx, "default", "p")).To(Succeed())
		for _, wrong := range []string{"3", "0"} {
			q := s.quota(ctx)
			q.Status.Used = corev1.ResourceList{"pods": resource.MustParse(wrong)}
			_, err := s.admin().CoreV1().ResourceQuotas("default").UpdateStatus(ctx, q, metav1.UpdateOptions{})
			Expect(err).NotTo(HaveOccurred())
			Eventually(func() int64 { return s.used(ctx, "pods") }).Should(BeEquivalentTo(1), "from "+wrong)
		}
	}, SpecTimeout(time.Minute))

	It("is nothing that another object of its name can be taken for", func(ctx SpecContext) {
		s := newSpace(ctx, limits{"pods": "1"})
		s.newNamespace(ctx, "other")
		_, err := s.CoreV1().ResourceQuotas("other").Create(ctx, &corev1.ResourceQuota{
			ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.TenantQuota}, Spec: corev1.ResourceQuotaSpec{Hard: limits{"pods": "100"}.list()},
		}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(s.createPod(ctx, "default", "p")).To(Succeed())
		Eventually(func() error { return s.createPod(ctx, "other", "p") }).Should(beRefused())
		Expect(s.CoreV1().ResourceQuotas("other").Delete(ctx, v1alpha1.TenantQuota, metav1.DeleteOptions{})).To(Succeed())
	}, SpecTimeout(time.Minute))
})

func applied(pods string) *unstructured.Unstructured {
	object := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"hard": map[string]any{"pods": pods}}}}
	object.SetGroupVersionKind(schema.GroupVersionKind{Version: "v1", Kind: "ResourceQuota"})
	object.SetName(v1alpha1.TenantQuota)
	return object
}

func second[T any](_ T, err error) error { return err }
