package published

import (
	"fmt"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tenantry/tenantry/internal/tenant"
	"github.com/tenantry/tenantry/test/env/suite"
)

var _ = Describe("A copy of any publishable kind", Ordered, func() {
	const name = "attacked"
	victim := func() tenant.Name { return tenants[6] }

	BeforeAll(func(ctx SpecContext) {
		createNamespace(ctx, name)
		manifests := strings.NewReplacer("name: kind,", "name: "+name+",", "name: kind}", "name: "+name+"}",
			"policyName: kind", "policyName: "+name, "namespace: kinds", "namespace: "+name).Replace(kinds)
		parsed := parse(manifests)
		for i, resource := range resourcesOf(parsed) {
			parsed[i].SetAnnotations(isPublished)
			parsed[i].SetLabels(map[string]string{"test": name})
			client := objects(tenant.System, resource, parsed[i].GetNamespace())
			_, err := client.Create(ctx, parsed[i], metav1.CreateOptions{})
			Expect(err).NotTo(HaveOccurred())
			DeferCleanup(func(ctx SpecContext) {
				Expect(client.Delete(ctx, name, metav1.DeleteOptions{})).To(Succeed())
			}, NodeTimeout(specTimeout))
			Eventually(copiesOf(ctx, resource, name)).Should(Equal(countTenants(ctx)), resource.Resource)
		}
	}, NodeTimeout(specTimeout))

	It("is changed and deleted by nobody in the space", func(ctx SpecContext) {
		parsed := parse(strings.ReplaceAll(kinds, "namespace: kinds", "namespace: "+name))
		for i, resource := range resourcesOf(parsed) {
			client := objects(victim(), resource, parsed[i].GetNamespace())
			before, err := client.Get(ctx, name, metav1.GetOptions{})
			Expect(err).NotTo(HaveOccurred())
			apply := &unstructured.Unstructured{}
			apply.SetGroupVersionKind(parsed[i].GroupVersionKind())
			apply.SetName(name)
			apply.SetLabels(map[string]string{"test": "other"})
			patch := func(body string, subresources ...string) error {
				_, err := client.Patch(ctx, name, mergePatch, []byte(body), metav1.PatchOptions{}, subresources...)
				return err
			}
			second := func(_ any, err error) error { return err }
			for what, err := range map[string]error{
				"label":           patch(`{"metadata": {"labels": {"test": "other"}}}`),
				"finalizer":       patch(`{"metadata": {"finalizers": ["example.com/stay"]}}`),
				"owner":           patch(`{"metadata": {"ownerReferences": [{"apiVersion": "v1", "kind": "Namespace", "name": "default", "uid": "u", "blockOwnerDeletion": true}]}}`),
				"managed fields":  patch(`{"metadata": {"managedFields": [{}]}}`),
				"nothing":         patch(`{}`),
				"apply":           second(client.Apply(ctx, name, apply, metav1.ApplyOptions{FieldManager: "test", Force: true})),
				"delete":          client.Delete(ctx, name, metav1.DeleteOptions{}),
				"in foreground":   client.Delete(ctx, name, metav1.DeleteOptions{PropagationPolicy: new(metav1.DeletePropagationForeground)}),
				"orphaning":       client.Delete(ctx, name, metav1.DeleteOptions{PropagationPolicy: new(metav1.DeletePropagationOrphan)}),
				"dry run":         client.Delete(ctx, name, metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}}),
				"in a collection": client.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: "test=" + name}),
			} {
				Expect(err).To(beRefused, "%s: %s", resource.Resource, what)
			}
			if err := patch(`{"status": {"x": "y"}, "metadata": {"finalizers": ["example.com/stay"]}}`, "status"); !apierrors.IsNotFound(err) {
				Expect(err).To(beRefused, "%s: status", resource.Resource)
			}
			after, err := client.Get(ctx, name, metav1.GetOptions{})
			Expect(err).NotTo(HaveOccurred())
			Expect(after).To(Equal(before), resource.Resource)
		}
	}, SpecTimeout(specTimeout))

	It("binds the tenant, if it is a policy", func(ctx SpecContext) {
		Eventually(func() error {
			_, err := tenantry.Client(victim()).CoreV1().Services("default").Create(ctx, &corev1.Service{
				ObjectMeta: metav1.ObjectMeta{GenerateName: "outside-"},
				Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}, ExternalIPs: []string{"192.0.2.1"}},
			}, metav1.CreateOptions{})
			return err
		}).Should(MatchError(ContainSubstring("ValidatingAdmissionPolicy '" + name + "'")))
		Eventually(func() (map[string]string, error) {
			made, err := tenantry.Client(victim()).CoreV1().Endpoints("default").Create(ctx,
				&corev1.Endpoints{ObjectMeta: metav1.ObjectMeta{GenerateName: "mutated-"}}, metav1.CreateOptions{})
			if err != nil {
				return nil, err
			}
			return made.Labels, nil
		}).Should(HaveKeyWithValue("mutated", "yes"))
	}, SpecTimeout(specTimeout))
})

var _ = Describe("A tenant", func() {
	It("publishes nothing", func(ctx SpecContext) {
		const name = "of-a-tenant"
		_, err := tenantry.Client(tenants[7]).CoreV1().ConfigMaps("default").Create(ctx, &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: isPublished},
		}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		createNamespace(ctx, name)
		publish(ctx, name, "after", "true") // comes after the manager could have seen the first
		Eventually(copiesOf(ctx, configMaps, "after")).Should(Equal(countTenants(ctx)))
		list, err := objects(suite.All, configMaps, "").List(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + name})
		Expect(err).NotTo(HaveOccurred())
		Expect(list.Items).To(HaveLen(1))
		Expect(reportOf(ctx, configMaps, "default", name)()).To(BeEmpty())
	}, SpecTimeout(specTimeout))

	It("prevents nothing by policies that refuse or change what is copied", func(ctx SpecContext) {
		const name = "stubborn"
		policies := tenantry.Client(tenants[8]).AdmissionregistrationV1()
		everything := &admissionregistrationv1.MatchResources{ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{{
			RuleWithOperations: admissionregistrationv1.RuleWithOperations{
				Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create, admissionregistrationv1.Update, admissionregistrationv1.Delete},
				Rule:       admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"configmaps", "namespaces"}},
			},
		}}}
		_, err := policies.ValidatingAdmissionPolicies().Create(ctx, &admissionregistrationv1.ValidatingAdmissionPolicy{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: admissionregistrationv1.ValidatingAdmissionPolicySpec{
				MatchConstraints: everything, Validations: []admissionregistrationv1.Validation{{Expression: "request.name == 'none'"}},
			},
		}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		_, err = policies.ValidatingAdmissionPolicyBindings().Create(ctx, &admissionregistrationv1.ValidatingAdmissionPolicyBinding{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{
				PolicyName: name, ValidationActions: []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny},
			},
		}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(func(ctx SpecContext) {
			Expect(policies.ValidatingAdmissionPolicyBindings().Delete(ctx, name, metav1.DeleteOptions{})).To(Succeed())
		}, NodeTimeout(specTimeout))
		mutation := *everything.DeepCopy()
		mutation.ResourceRules[0].Operations = []admissionregistrationv1.OperationType{admissionregistrationv1.Create}
		_, err = policies.MutatingAdmissionPolicies().Create(ctx, &admissionregistrationv1.MutatingAdmissionPolicy{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: admissionregistrationv1.MutatingAdmissionPolicySpec{
				MatchConstraints: &mutation, ReinvocationPolicy: admissionregistrationv1.NeverReinvocationPolicy,
				Mutations: []admissionregistrationv1.Mutation{{
					PatchType: admissionregistrationv1.PatchTypeJSONPatch,
					JSONPatch: &admissionregistrationv1.JSONPatch{Expression: `[JSONPatch{op: "add", path: "/metadata/labels/mutated", value: "yes"}]`},
				}},
			},
		}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		_, err = policies.MutatingAdmissionPolicyBindings().Create(ctx, &admissionregistrationv1.MutatingAdmissionPolicyBinding{
			ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: admissionregistrationv1.MutatingAdmissionPolicyBindingSpec{PolicyName: name},
		}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(func(ctx SpecContext) {
			Expect(policies.MutatingAdmissionPolicyBindings().Delete(ctx, name, metav1.DeleteOptions{})).To(Succeed())
		}, NodeTimeout(specTimeout))
		own := tenantry.Client(tenants[8]).CoreV1().ConfigMaps("default")
		Eventually(func() error {
			_, err := own.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "own-", Labels: map[string]string{"a": "b"}}}, metav1.CreateOptions{})
			return err
		}).Should(MatchError(ContainSubstring("ValidatingAdmissionPolicy '" + name + "'")))
		createNamespace(ctx, name)
		publish(ctx, name, "copied", "true")
		Eventually(from(ctx, tenants[8], name, "copied")).Should(Equal("platform"))
		found, err := tenantry.Client(tenants[8]).CoreV1().ConfigMaps(name).Get(ctx, "copied", metav1.GetOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(found.Labels).NotTo(HaveKey("mutated"))
		_, err = tenantry.Client(tenant.System).CoreV1().ConfigMaps(name).Patch(ctx, "copied", types.MergePatchType, []byte(`{"data": {"from": "platform again"}}`), metav1.PatchOptions{})
		Expect(err).NotTo(HaveOccurred())
		Eventually(from(ctx, tenants[8], name, "copied")).Should(Equal("platform again"))
		Expect(tenantry.Client(tenant.System).CoreV1().ConfigMaps(name).Delete(ctx, "copied", metav1.DeleteOptions{})).To(Succeed())
		Eventually(func() (string, error) {
			_, err := tenantry.Client(tenants[8]).CoreV1().Namespaces().Get(ctx, name, metav1.GetOptions{})
			return fmt.Sprint(err), nil
		}).Should(ContainSubstring("not found"))
	}, SpecTimeout(specTimeout))
})
