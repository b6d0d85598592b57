package published

import (
	"context"
	"fmt"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/tenantry/tenantry/internal/spaces"
	"github.com/tenantry/tenantry/internal/tenant"
	"github.com/tenantry/tenantry/test/env/suite"
)

var crds = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}

var bePublished = And(
	MatchError(apierrors.IsForbidden, "forbidden"),
	MatchError(ContainSubstring("the platform publishes this definition to every space")),
)

// definitionOf returns a definition of the kind Part in a group of its own, with a
// field whose default says who has made it.
func definitionOf(group, version, from string) *unstructured.Unstructured {
	GinkgoHelper()
	return parse(strings.NewReplacer("GROUP", group, "VERSION", version, "FROM", from).Replace(`
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: parts.GROUP}
spec:
  group: GROUP
  scope: Namespaced
  names: {plural: parts, singular: part, kind: Part, shortNames: [pt]}
  versions:
  - name: VERSION
    served: true
    storage: true
    subresources: {status: {}}
    schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, default: {}, properties: {FROM: {type: string, default: FROM}}}}}}
`))[0]
}

// publishDefinition publishes a definition until the end of the spec.
func publishDefinition(ctx context.Context, definition *unstructured.Unstructured) {
	GinkgoHelper()
	definition.SetAnnotations(isPublished)
	_, err := objects(tenant.System, crds, "").Create(ctx, definition, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func(ctx SpecContext) {
		err := objects(tenant.System, crds, "").Delete(ctx, definition.GetName(), metav1.DeleteOptions{})
		Expect(err).To(Or(BeNil(), MatchError(apierrors.IsNotFound, "not found")))
	}, NodeTimeout(specTimeout))
}

func parts(group, version string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: group, Version: version, Resource: "parts"}
}

func part(group, version, name string, owners ...metav1.OwnerReference) *unstructured.Unstructured {
	object := &unstructured.Unstructured{}
	object.SetAPIVersion(group + "/" + version)
	object.SetKind("Part")
	object.SetName(name)
	object.SetOwnerReferences(owners)
	return object
}

// createPart creates an object as soon as its definition is served.
func createPart(ctx context.Context, n tenant.Name, object *unstructured.Unstructured) (created *unstructured.Unstructured) {
	GinkgoHelper()
	gv, err := schema.ParseGroupVersion(object.GetAPIVersion())
	Expect(err).NotTo(HaveOccurred())
	Eventually(func() (err error) {
		created, err = objects(n, parts(gv.Group, gv.Version), "default").Create(ctx, object, metav1.CreateOptions{})
		return err
	}).Should(Succeed())
	return created
}

// madeBy returns by whose definition an object has been made.
func madeBy(object *unstructured.Unstructured) []string {
	spec, _, _ := unstructured.NestedMap(object.Object, "spec")
	var fields []string
	for field := range spec {
		fields = append(fields, field)
	}
	return fields
}

// versionsIn returns in which versions a space serves parts of a group, by what clients
// ask for: both kinds of discovery, and OpenAPI.
func versionsIn(ctx context.Context, n tenant.Name, group string) func() (map[string]string, error) {
	client := tenantry.Client(n)
	return func() (map[string]string, error) {
		found := map[string]string{}
		list, err := client.Discovery().ServerGroups() // aggregated
		if err != nil {
			return nil, err
		}
		for _, g := range list.Groups {
			if g.Name == group {
				found["groups"] = g.PreferredVersion.Version
			}
		}
		one := &metav1.APIGroup{}
		if err := client.RESTClient().Get().AbsPath("/apis/" + group).Do(ctx).Into(one); err == nil {
			found["group"] = one.PreferredVersion.Version
			resources, err := client.Discovery().ServerResourcesForGroupVersion(one.PreferredVersion.GroupVersion)
			if err != nil {
				return nil, err
			}
			found["resource"] = resources.APIResources[0].Name
		} else if !apierrors.IsNotFound(err) {
			return nil, err
		}
		paths, err := client.Discovery().OpenAPIV3().Paths()
		if err != nil {
			return nil, err
		}
		for path := range paths {
			if version, ok := strings.CutPrefix(path, "apis/"+group+"/"); ok {
				document, err := paths[path].Schema("application/json")
				if err != nil {
					return nil, err
				}
				if strings.Contains(string(document), `"/apis/`+group+"/"+version+`/namespaces/{namespace}/parts"`) {
					found["v3"] = version
				}
			}
		}
		v2, err := client.RESTClient().Get().AbsPath("/openapi/v2").SetHeader("Accept", "application/json").Do(ctx).Raw()
		if err != nil {
			return nil, err
		}
		for _, version := range []string{"v1", "v2"} {
			if strings.Contains(string(v2), `"/apis/`+group+"/"+version+`/namespaces/{namespace}/parts"`) {
				found["v2"] += version
			}
		}
		return found, nil
	}
}

func inVersion(version string) map[string]string {
	return map[string]string{"groups": version, "group": version, "resource": "parts", "v3": version, "v2": version}
}

var nowhere = map[string]string{}

var _ = Describe("A published definition", func() {
	It("is in every space without being stored there, and cannot be changed", func(ctx SpecContext) {
		const group = "everywhere.example.com"
		publishDefinition(ctx, definitionOf(group, "v1", "platform"))
		name := "parts." + group
		Eventually(reportOf(ctx, crds, "", name)).Should(Equal(inAll(countTenants(ctx))))
		Expect(copiesOf(ctx, crds, name)()).To(BeZero())
		for _, n := range tenants[:2] {
			Expect(madeBy(createPart(ctx, n, part(group, "v1", "one")))).To(ConsistOf("platform"))
			Eventually(versionsIn(ctx, n, group)).Should(Equal(inVersion("v1")))
			own := objects(n, crds, "")
			shown, err := own.Get(ctx, name, metav1.GetOptions{})
			Expect(err).NotTo(HaveOccurred())
			Expect(shown.GetAnnotations()).To(HaveKeyWithValue(tenant.Annotation, n.String()))
			Expect(shown.GetAnnotations()).NotTo(HaveKey(tenant.PublishedAnnotation))
			Expect(own.Delete(ctx, name, metav1.DeleteOptions{})).To(bePublished)
			for _, subresource := range []string{"", "status"} {
				_, err = own.Patch(ctx, name, mergePatch, []byte(`{"metadata": {"labels": {"x": "y"}}}`), metav1.PatchOptions{}, subresource)
				Expect(err).To(bePublished)
				_, err = own.Patch(ctx, name, types.JSONPatchType, []byte(`[{"op": "remove", "path": "/metadata/labels"}]`), metav1.PatchOptions{}, subresource)
				Expect(err).To(bePublished)
				_, err = own.Update(ctx, shown, metav1.UpdateOptions{}, subresource)
				Expect(err).To(bePublished)
			}
			Expect(own.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{})).To(Succeed())
			_, err = own.Get(ctx, name, metav1.GetOptions{})
			Expect(err).NotTo(HaveOccurred())
		}
		By("keeping the objects of two spaces apart")
		Expect(objects(tenants[0], parts(group, "v1"), "default").Delete(ctx, "one", metav1.DeleteOptions{})).To(Succeed())
		left, err := objects(tenants[1], parts(group, "v1"), "").List(ctx, metav1.ListOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(left.Items).To(HaveLen(1))
		everybodys, err := objects(suite.All, parts(group, "v1"), "").List(ctx, metav1.ListOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(everybodys.Items).To(HaveLen(1))
		systems, err := objects(tenant.System, parts(group, "v1"), "").List(ctx, metav1.ListOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(systems.Items).To(BeEmpty())
	}, SpecTimeout(specTimeout))

	It("ends watches of everything that began before it was published", func(ctx SpecContext) {
		const group = "later.example.com"
		definition := objects(tenant.System, crds, "")
		_, err := definition.Create(ctx, definitionOf(group, "v1", "platform"), metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(func(ctx SpecContext) {
			Expect(definition.Delete(ctx, "parts."+group, metav1.DeleteOptions{})).To(Succeed())
		}, NodeTimeout(specTimeout))
		all := suite.Dynamic(spaces.ConfigIn(tenantry.Config(tenant.System), tenant.Everything)).Resource(parts(group, "v1"))
		var watched watch.Interface
		Eventually(func() (err error) {
			watched, err = all.Watch(ctx, metav1.ListOptions{})
			return err
		}).Should(Succeed())
		defer watched.Stop()
		annotation := fmt.Sprintf(`{"metadata": {"annotations": {%q: "true"}}}`, tenant.PublishedAnnotation)
		_, err = definition.Patch(ctx, "parts."+group, mergePatch, []byte(annotation), metav1.PatchOptions{})
		Expect(err).NotTo(HaveOccurred())
		Eventually(watched.ResultChan()).Should(BeClosed())
		createPart(ctx, tenants[0], part(group, "v1", "one"))
		Eventually(func() (*unstructured.UnstructuredList, error) { return all.List(ctx, metav1.ListOptions{}) }).Should(HaveField("Items", HaveLen(1)))
	}, SpecTimeout(specTimeout))

	It("gives way to a space's own of the same name, and is back when that goes", func(ctx SpecContext) {
		const group = "own.example.com"
		keeper, other := tenants[3], tenants[4]
		publishDefinition(ctx, definitionOf(group, "v1", "platform"))
		createPart(ctx, keeper, part(group, "v1", "first"))
		createPart(ctx, other, part(group, "v1", "first"))

		By("refusing one that could not read what the space has")
		own := objects(keeper, crds, "")
		_, err := own.Create(ctx, definitionOf(group, "v2", "tenant"), metav1.CreateOptions{})
		Expect(err).To(MatchError(ContainSubstring("lacks the version v1 in which they are stored")))
		Expect(objects(keeper, parts(group, "v1"), "default").Delete(ctx, "first", metav1.DeleteOptions{})).To(Succeed())

		_, err = own.Create(ctx, definitionOf(group, "v2", "tenant"), metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(madeBy(createPart(ctx, keeper, part(group, "v2", "second")))).To(ConsistOf("tenant"))
		Eventually(versionsIn(ctx, keeper, group)).Should(Equal(inVersion("v2")))
		_, err = objects(keeper, parts(group, "v1"), "default").List(ctx, metav1.ListOptions{})
		Expect(err).To(MatchError(apierrors.IsNotFound, "not found"))
		Eventually(reportOf(ctx, crds, "", "parts."+group)).Should(ContainSubstring("which is kept (" + keeper.String() + ")"))

		By("changing nothing for others")
		Expect(versionsIn(ctx, other, group)()).To(Equal(inVersion("v1")))
		everybodys, err := objects(suite.All, parts(group, "v1"), "").List(ctx, metav1.ListOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(everybodys.Items).To(ConsistOf(HaveField("GetName()", "first")))

		By("deleting the space's own, and its objects alone")
		Expect(own.Delete(ctx, "parts."+group, metav1.DeleteOptions{})).To(Succeed())
		Eventually(versionsIn(ctx, keeper, group)).Should(Equal(inVersion("v1")))
		Eventually(func() (*unstructured.UnstructuredList, error) {
			return objects(keeper, parts(group, "v1"), "default").List(ctx, metav1.ListOptions{})
		}).Should(HaveField("Items", BeEmpty()))
		Expect(objects(other, parts(group, "v1"), "default").Get(ctx, "first", metav1.GetOptions{})).NotTo(BeNil())
		Eventually(reportOf(ctx, crds, "", "parts."+group)).Should(Equal(inAll(countTenants(ctx))))
	}, SpecTimeout(specTimeout))

	It("gives way to what is applied whole or says so, and to nothing else", func(ctx SpecContext) {
		const group = "applied.example.com"
		n := tenants[9]
		platforms := definitionOf(group, "v1", "platform")
		platforms.SetLabels(map[string]string{"from": "platform"})
		publishDefinition(ctx, platforms)
		own, name := objects(n, crds, ""), "parts."+group
		createPart(ctx, tenants[8], part(group, "v1", "others"))
		shown, err := own.Get(ctx, name, metav1.GetOptions{})
		Expect(err).NotTo(HaveOccurred())
		applied := definitionOf(group, "v2", "tenant")
		annotated := func(key string) *unstructured.Unstructured {
			definition := applied.DeepCopy()
			definition.SetAnnotations(map[string]string{key: "true"})
			return definition
		}
		ways := map[string]func() error{
			"server-side apply": func() error {
				_, err := own.Apply(ctx, name, applied, metav1.ApplyOptions{FieldManager: "test"})
				return err
			},
			"kubectl apply": func() error {
				body, err := annotated("kubectl.kubernetes.io/last-applied-configuration").MarshalJSON()
				Expect(err).NotTo(HaveOccurred())
				_, err = own.Patch(ctx, name, mergePatch, body, metav1.PatchOptions{})
				return err
			},
			"replace": func() error {
				definition := annotated(tenant.OwnDefinitionAnnotation)
				shown, err := own.Get(ctx, name, metav1.GetOptions{})
				Expect(err).NotTo(HaveOccurred())
				definition.SetResourceVersion(shown.GetResourceVersion())
				definition.SetUID(shown.GetUID())
				definition.SetLabels(shown.GetLabels())
				_, err = own.Update(ctx, definition, metav1.UpdateOptions{})
				return err
			},
		}
		for way, takeOver := range ways {
			By(way + ", refused while it could not read what the space has")
			createPart(ctx, n, part(group, "v1", "first"))
			Expect(takeOver()).To(MatchError(ContainSubstring("lacks the version v1 in which they are stored")))
			Expect(objects(n, parts(group, "v1"), "default").Delete(ctx, "first", metav1.DeleteOptions{})).To(Succeed())
			By(way)
			Expect(takeOver()).To(Succeed())
			stored, err := own.Get(ctx, name, metav1.GetOptions{})
			Expect(err).NotTo(HaveOccurred())
			Expect(stored.GetUID()).NotTo(BeElementOf(shown.GetUID(), platforms.GetUID()))
			Expect(stored.GetGeneration()).To(BeEquivalentTo(1))
			Expect(stored.GetLabels()).NotTo(HaveKey(tenant.PublishedCopyLabel))
			Expect(stored.GetFinalizers()).NotTo(ContainElement(tenant.PublishedDefinitionFinalizer))
			versions, _, err := unstructured.NestedStringSlice(stored.Object, "status", "storedVersions")
			Expect(err).NotTo(HaveOccurred())
			Expect(versions).To(ConsistOf("v2"))
			Expect(madeBy(createPart(ctx, n, part(group, "v2", "second")))).To(ConsistOf("tenant"))
			Expect(versionsIn(ctx, tenants[8], group)()).To(Equal(inVersion("v1")))
			Expect(own.Delete(ctx, name, metav1.DeleteOptions{})).To(Succeed())
			Eventually(versionsIn(ctx, n, group)).Should(Equal(inVersion("v1")))
		}

		By("refusing what edits the published one")
		partly := &unstructured.Unstructured{}
		partly.SetGroupVersionKind(applied.GroupVersionKind())
		partly.SetName(name)
		partly.SetLabels(map[string]string{"x": "y"})
		_, err = own.Apply(ctx, name, partly, metav1.ApplyOptions{FieldManager: "test", Force: true})
		Expect(err).To(bePublished)
		_, err = own.ApplyStatus(ctx, name, applied, metav1.ApplyOptions{FieldManager: "test", Force: true})
		Expect(err).To(bePublished)
		_, err = own.Patch(ctx, name, mergePatch, []byte(`{"spec": {"conversion": {"strategy": "Webhook", "webhook": {"conversionReviewVersions": ["v1"],
			"clientConfig": {"url": "https://example.com"}}}}}`), metav1.PatchOptions{})
		Expect(err).To(bePublished)
		declared := []byte(`{"metadata": {"annotations": {"` + tenant.OwnDefinitionAnnotation + `": "true"}}}`)
		_, err = own.Patch(ctx, name, mergePatch, declared, metav1.PatchOptions{}, "status")
		Expect(err).To(bePublished)
		Expect(own.Delete(ctx, name, metav1.DeleteOptions{})).To(bePublished)
		left, err := own.Get(ctx, name, metav1.GetOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(left.GetUID()).To(Equal(shown.GetUID()))

		By("asking whether it may be created")
		rbac := tenantry.Client(n).RbacV1()
		editor := metav1.ObjectMeta{Name: "definition-editor"}
		_, err = rbac.ClusterRoles().Create(ctx, &rbacv1.ClusterRole{ObjectMeta: editor, Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{crds.Group}, Resources: []string{crds.Resource}, Verbs: []string{"get", "patch", "update"}},
		}}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		_, err = rbac.ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{
			ObjectMeta: editor, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: editor.Name},
			Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: "editor"}},
		}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		_, err = suite.Dynamic(tenantry.User(n, "editor")).Resource(crds).Patch(ctx, name, mergePatch, declared, metav1.PatchOptions{})
		Expect(err).To(MatchError(ContainSubstring("cannot create one in this space")))
		webhooks := tenantry.Client(n).AdmissionregistrationV1().ValidatingWebhookConfigurations()
		unreachable, fail, none := "https://127.0.0.1:1/", admissionregistrationv1.Fail, admissionregistrationv1.SideEffectClassNone
		_, err = webhooks.Create(ctx, &admissionregistrationv1.ValidatingWebhookConfiguration{
			ObjectMeta: metav1.ObjectMeta{Name: "no-own-definitions"},
			Webhooks: []admissionregistrationv1.ValidatingWebhook{{
				Name: "definitions.example.com", ClientConfig: admissionregistrationv1.WebhookClientConfig{URL: &unreachable},
				FailurePolicy: &fail, SideEffects: &none, AdmissionReviewVersions: []string{"v1"},
				Rules: []admissionregistrationv1.RuleWithOperations{{
					Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
					Rule:       admissionregistrationv1.Rule{APIGroups: []string{crds.Group}, APIVersions: []string{"v1"}, Resources: []string{crds.Resource}},
				}},
			}},
		}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		denied := MatchError(ContainSubstring("definitions.example.com"))
		Eventually(func() error {
			_, err := own.Create(ctx, definitionOf("other.example.com", "v1", "tenant"), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
			return err
		}).Should(denied)
		_, err = own.Patch(ctx, name, mergePatch, declared, metav1.PatchOptions{})
		Expect(err).To(denied)
		Expect(webhooks.Delete(ctx, "no-own-definitions", metav1.DeleteOptions{})).To(Succeed())

		By("beginning as the published one, with its objects")
		createPart(ctx, n, part(group, "v1", "kept"))
		DeferCleanup(func(ctx SpecContext) { // a namespace of a space with definitions of its own stays
			Expect(own.Delete(ctx, name, metav1.DeleteOptions{})).To(Succeed())
			Eventually(func() (map[string]string, error) {
				shown, err := own.Get(ctx, name, metav1.GetOptions{})
				if err != nil {
					return nil, err
				}
				return shown.GetLabels(), nil
			}).Should(HaveKey(tenant.PublishedCopyLabel))
		}, NodeTimeout(specTimeout))
		Eventually(func() error { // the webhook goes
			_, err := own.Patch(ctx, name, mergePatch, declared, metav1.PatchOptions{})
			return err
		}).Should(Succeed())
		Eventually(reportOf(ctx, crds, "", name)).Should(ContainSubstring("which is kept (" + n.String() + ")"))
		Eventually(func() error {
			_, err := objects(n, parts(group, "v1"), "default").Get(ctx, "kept", metav1.GetOptions{})
			return err
		}).Should(Succeed())
		others, err := objects(tenants[8], crds, "").Get(ctx, name, metav1.GetOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(others.GetAnnotations()).NotTo(HaveKey(tenant.OwnDefinitionAnnotation))
		system, err := objects(tenant.System, crds, "").Get(ctx, name, metav1.GetOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(system.GetAnnotations()).To(Equal(isPublished))
		Expect(system.GetGeneration()).To(BeEquivalentTo(1))
		Expect(objects(tenants[8], parts(group, "v1"), "default").Get(ctx, "others", metav1.GetOptions{})).NotTo(BeNil())
	}, SpecTimeout(specTimeout))

	It("is hidden while it is published no longer, and nothing is lost", func(ctx SpecContext) {
		const group = "hidden.example.com"
		n := tenant.Name("hides")
		tenantry.CreateTenants(ctx, n)
		DeferCleanup(func(ctx SpecContext) { tenantry.DeleteTenant(ctx, n) }, NodeTimeout(specTimeout))
		publishDefinition(ctx, definitionOf(group, "v1", "platform"))
		createPart(ctx, n, part(group, "v1", "one"))
		publishing := func(value string) {
			GinkgoHelper()
			_, err := objects(tenant.System, crds, "").Patch(ctx, "parts."+group, mergePatch,
				[]byte(`{"metadata": {"annotations": {"`+tenant.PublishedAnnotation+`": `+value+`}}}`), metav1.PatchOptions{})
			Expect(err).NotTo(HaveOccurred())
		}
		watch, err := objects(n, crds, "").Watch(ctx, metav1.ListOptions{})
		Expect(err).NotTo(HaveOccurred())
		publishing("null")
		Eventually(versionsIn(ctx, n, group)).Should(Equal(nowhere))
		_, err = objects(n, parts(group, "v1"), "default").Get(ctx, "one", metav1.GetOptions{})
		Expect(err).To(MatchError(apierrors.IsNotFound, "not found"))
		_, err = objects(n, crds, "").Get(ctx, "parts."+group, metav1.GetOptions{})
		Expect(err).To(MatchError(apierrors.IsNotFound, "not found"))
		By("telling watchers of definitions to list again")
		Eventually(watch.ResultChan()).Should(BeClosed())
		By("publishing it again")
		publishing(`"true"`)
		Eventually(versionsIn(ctx, n, group)).Should(Equal(inVersion("v1")))
		_, err = objects(n, parts(group, "v1"), "default").Get(ctx, "one", metav1.GetOptions{})
		Expect(err).NotTo(HaveOccurred())
		By("emptying the space although it is hidden")
		publishing("null")
		Eventually(versionsIn(ctx, n, group)).Should(Equal(nowhere))
	}, SpecTimeout(specTimeout))

	It("goes with what all spaces have of it, finalizers honoured", func(ctx SpecContext) {
		const group = "deleted.example.com"
		publishDefinition(ctx, definitionOf(group, "v1", "platform"))
		held := part(group, "v1", "held")
		held.SetFinalizers([]string{"example.com/held"})
		createPart(ctx, tenants[5], held)
		createPart(ctx, tenants[6], part(group, "v1", "free"))
		Expect(objects(tenant.System, crds, "").Delete(ctx, "parts."+group, metav1.DeleteOptions{})).To(Succeed())
		Eventually(func() (*unstructured.UnstructuredList, error) {
			return objects(suite.All, parts(group, "v1"), "").List(ctx, metav1.ListOptions{})
		}).Should(HaveField("Items", ConsistOf(HaveField("GetName()", "held"))))
		_, err := objects(tenants[6], parts(group, "v1"), "default").Create(ctx, part(group, "v1", "late"), metav1.CreateOptions{})
		Expect(err).To(MatchError(ContainSubstring("create not allowed while custom resource definition is terminating")))
		_, err = objects(tenants[5], parts(group, "v1"), "default").Patch(ctx, "held", mergePatch, []byte(`{"metadata": {"finalizers": null}}`), metav1.PatchOptions{})
		Expect(err).NotTo(HaveOccurred())
		Eventually(func() error {
			_, err := objects(tenant.System, crds, "").Get(ctx, "parts."+group, metav1.GetOptions{})
			return err
		}).Should(MatchError(apierrors.IsNotFound, "not found"))
		Eventually(versionsIn(ctx, tenants[5], group)).Should(Equal(nowhere))
	}, SpecTimeout(specTimeout))

	It("makes objects that own, are owned, are counted, and go with their namespace", func(ctx SpecContext) {
		const group = "collected.example.com"
		n := tenants[7]
		publishDefinition(ctx, definitionOf(group, "v1", "platform"))
		owner := createPart(ctx, n, part(group, "v1", "owner"))
		reference := metav1.OwnerReference{APIVersion: owner.GetAPIVersion(), Kind: "Part", Name: "owner", UID: owner.GetUID()}
		createPart(ctx, n, part(group, "v1", "child", reference))
		stays := createPart(ctx, n, part(group, "v1", "stays"))
		core := tenantry.Client(n).CoreV1()
		_, err := core.ConfigMaps("default").Create(ctx, &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Name: "owned-by-part", OwnerReferences: []metav1.OwnerReference{reference}},
		}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		// Another tenant's object of the same UID is no owner.
		createPart(ctx, tenants[8], part(group, "v1", "foreign", metav1.OwnerReference{APIVersion: stays.GetAPIVersion(), Kind: "Part", Name: "stays", UID: stays.GetUID()}))
		Expect(objects(n, parts(group, "v1"), "default").Delete(ctx, "owner", metav1.DeleteOptions{})).To(Succeed())
		Eventually(func(g Gomega) {
			list, err := objects(n, parts(group, "v1"), "").List(ctx, metav1.ListOptions{})
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(list.Items).To(ConsistOf(HaveField("GetName()", "stays")))
			_, err = core.ConfigMaps("default").Get(ctx, "owned-by-part", metav1.GetOptions{})
			g.Expect(err).To(MatchError(apierrors.IsNotFound, "not found"))
			list, err = objects(tenants[8], parts(group, "v1"), "").List(ctx, metav1.ListOptions{})
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(list.Items).To(BeEmpty())
		}).Should(Succeed())

		By("counting them against the tenant's quota")
		Expect(tenantry.SetSpec(ctx, n, "quota", `{"count/parts.`+group+`": "2"}`)).To(Succeed())
		Eventually(func() (string, error) {
			quota, err := core.ResourceQuotas("default").Get(ctx, "tenant-quota", metav1.GetOptions{})
			if err != nil {
				return "", err
			}
			used := quota.Status.Used[corev1.ResourceName("count/parts."+group)]
			return used.String(), nil
		}).Should(Equal(resource.NewQuantity(1, resource.DecimalSI).String()))
		createPart(ctx, n, part(group, "v1", "second"))
		_, err = objects(n, parts(group, "v1"), "default").Create(ctx, part(group, "v1", "third"), metav1.CreateOptions{})
		Expect(err).To(MatchError(ContainSubstring("exceeded quota: tenant-quota")))

		By("deleting a namespace with one in it")
		_, err = core.Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "of-parts"}}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(objects(n, parts(group, "v1"), "default").Delete(ctx, "second", metav1.DeleteOptions{})).To(Succeed())
		_, err = objects(n, parts(group, "v1"), "of-parts").Create(ctx, part(group, "v1", "inside"), metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(core.Namespaces().Delete(ctx, "of-parts", metav1.DeleteOptions{})).To(Succeed())
		Eventually(func() error {
			_, err := core.Namespaces().Get(ctx, "of-parts", metav1.GetOptions{})
			return err
		}).Should(MatchError(apierrors.IsNotFound, "not found"))
		_, err = objects(n, parts(group, "v1"), "of-parts").Get(ctx, "inside", metav1.GetOptions{})
		Expect(err).To(MatchError(apierrors.IsNotFound, "not found"))
	}, SpecTimeout(specTimeout))
})
