package published

import (
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/restmapper"
	"sigs.k8s.io/yaml"

	"github.com/tenantry/tenantry/internal/tenant"
	"github.com/tenantry/tenantry/test/env/suite"
)

// kinds are one object of each kind that is publishable by default.
const kinds = `
apiVersion: v1
kind: ConfigMap
metadata: {name: kind, namespace: kinds}
data: {k: v}
---
apiVersion: v1
kind: Secret
metadata: {name: kind, namespace: kinds}
stringData: {password: secret}
---
apiVersion: v1
kind: LimitRange
metadata: {name: kind, namespace: kinds}
spec: {limits: [{type: Container, default: {memory: 1Mi}}]}
---
apiVersion: v1
kind: ResourceQuota
metadata: {name: kind, namespace: kinds}
spec: {hard: {pods: "3"}}
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: kind, namespace: kinds}
spec: {podSelector: {}, policyTypes: [Ingress]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: kind, namespace: kinds}
rules: [{apiGroups: [""], resources: [pods], verbs: [get]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: kind, namespace: kinds}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: kind}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: Group, name: auditors}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: kind}
rules: [{apiGroups: [""], resources: [pods], verbs: [get]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: kind}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: kind}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: Group, name: auditors}]
---
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: kind}
value: 7
---
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: kind}
provisioner: example.com/none
---
apiVersion: networking.k8s.io/v1
kind: IngressClass
metadata: {name: kind}
spec: {controller: example.com/none}
---
apiVersion: node.k8s.io/v1
kind: RuntimeClass
metadata: {name: kind}
handler: none
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: kind}
webhooks: []
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingWebhookConfiguration
metadata: {name: kind}
webhooks: []
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: kind}
spec:
  matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [services]}]}
  validations: [{expression: "!has(object.spec.externalIPs)"}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: kind}
spec: {policyName: kind, validationActions: [Deny]}
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicy
metadata: {name: kind}
spec:
  matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [endpoints]}]}
  reinvocationPolicy: Never
  mutations: [{patchType: ApplyConfiguration, applyConfiguration: {expression: 'Object{metadata: Object.metadata{labels: {"mutated": "yes"}}}'}}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicyBinding
metadata: {name: kind}
spec: {policyName: kind}
`

func parse(manifests string) (parsed []*unstructured.Unstructured) {
	GinkgoHelper()
	for manifest := range strings.SplitSeq(manifests, "---") {
		object := &unstructured.Unstructured{}
		Expect(yaml.Unmarshal([]byte(manifest), &object.Object)).To(Succeed())
		parsed = append(parsed, object)
	}
	return parsed
}

func resourcesOf(parsed []*unstructured.Unstructured) []schema.GroupVersionResource {
	GinkgoHelper()
	mapper := restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(tenantry.Client(tenant.System).Discovery()))
	resources := make([]schema.GroupVersionResource, len(parsed))
	for i, object := range parsed {
		gvk := object.GroupVersionKind()
		mapping, err := mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
		Expect(err).NotTo(HaveOccurred())
		resources[i] = mapping.Resource
	}
	return resources
}

var _ = Describe("A published object", func() {
	It("of any publishable kind is in every space, with its edits, until it is published no more", func(ctx SpecContext) {
		createNamespace(ctx, "kinds")
		parsed := parse(kinds)
		resources := resourcesOf(parsed)
		By("publishing")
		for i, object := range parsed {
			object.SetAnnotations(isPublished)
			_, err := objects(tenant.System, resources[i], object.GetNamespace()).Create(ctx, object, metav1.CreateOptions{})
			Expect(err).NotTo(HaveOccurred())
		}
		DeferCleanup(func(ctx SpecContext) {
			for i, object := range parsed {
				_ = objects(tenant.System, resources[i], object.GetNamespace()).Delete(ctx, object.GetName(), metav1.DeleteOptions{})
			}
		}, NodeTimeout(specTimeout))
		all := countTenants(ctx)
		for i := range parsed {
			Eventually(copiesOf(ctx, resources[i], "kind")).Should(Equal(all), resources[i].Resource)
			Eventually(reportOf(ctx, resources[i], parsed[i].GetNamespace(), "kind")).Should(Equal(inAll(all)))
			expectSameContent(ctx, resources[i], parsed[i])
		}
		By("editing")
		for i, object := range parsed {
			patch := []byte(`{"metadata": {"labels": {"edited": "yes"}}}`)
			_, err := objects(tenant.System, resources[i], object.GetNamespace()).Patch(ctx, "kind", mergePatch, patch, metav1.PatchOptions{})
			Expect(err).NotTo(HaveOccurred())
		}
		for i := range parsed {
			Eventually(func() (int, error) {
				list, err := objects(suite.All, resources[i], "").List(ctx, metav1.ListOptions{LabelSelector: "edited=yes"})
				if err != nil {
					return 0, err
				}
				return len(list.Items), nil
			}).Should(Equal(all), resources[i].Resource)
		}
		By("removing the annotation from half of them and deleting the others")
		for i, object := range parsed {
			client := objects(tenant.System, resources[i], object.GetNamespace())
			if i%2 == 0 {
				Expect(client.Delete(ctx, "kind", metav1.DeleteOptions{})).To(Succeed())
				continue
			}
			patch := []byte(`{"metadata": {"annotations": {"` + tenant.PublishedAnnotation + `": null}}}`)
			_, err := client.Patch(ctx, "kind", mergePatch, patch, metav1.PatchOptions{})
			Expect(err).NotTo(HaveOccurred())
		}
		for i, object := range parsed {
			Eventually(copiesOf(ctx, resources[i], "kind")).Should(BeZero(), resources[i].Resource)
			Eventually(reportOf(ctx, resources[i], object.GetNamespace(), "kind")).Should(BeEmpty())
		}
	}, SpecTimeout(specTimeout))
})

// expectSameContent compares the copy in one space with the published object.
func expectSameContent(ctx SpecContext, r schema.GroupVersionResource, object *unstructured.Unstructured) {
	GinkgoHelper()
	content := func(n tenant.Name) map[string]any {
		found, err := objects(n, r, object.GetNamespace()).Get(ctx, object.GetName(), metav1.GetOptions{})
		Expect(err).NotTo(HaveOccurred())
		accessor, err := meta.Accessor(found)
		Expect(err).NotTo(HaveOccurred())
		Expect(accessor.GetOwnerReferences()).To(BeEmpty())
		delete(found.Object, "metadata")
		delete(found.Object, "status")
		return found.Object
	}
	Expect(content(tenants[spaceCount-1])).To(Equal(content(tenant.System)))
}
