package attack

import (
	"context"
	"fmt"
	"path"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	gomegatypes "github.com/onsi/gomega/types"
	clientv3 "go.etcd.io/etcd/client/v3"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/tenantry/tenantry/internal/tenant"
	"github.com/tenantry/tenantry/test/env/suite"
)

var (
	configMaps  = corev1.SchemeGroupVersion.WithResource("configmaps")
	deployments = appsv1.SchemeGroupVersion.WithResource("deployments")
)

// needs matches the refusal of a change for which the user lacks a verb.
func needs(verb string) gomegatypes.GomegaMatcher {
	return MatchError(func(err error) bool {
		return apierrors.IsForbidden(err) && strings.Contains(err.Error(), fmt.Sprintf("needs the verb %q on resource", verb))
	}, "refused without the verb "+verb)
}

func annotated(value string) map[string]string {
	return map[string]string{tenant.PublishedAnnotation: value}
}

// annotation is a merge patch that sets the annotation to a value in JSON.
func annotation(value string) string {
	return fmt.Sprintf(`{"metadata": {"annotations": {%q: %s}}}`, tenant.PublishedAnnotation, value)
}

// grant gives a user of the system space every right in a namespace, and beside that
// verbs on ConfigMaps at the cluster scope.
func grant(ctx context.Context, name, namespace string, verbs []string, names ...string) {
	GinkgoHelper()
	rights := tenantry.Client(tenant.System).RbacV1()
	subjects := []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: name}}
	_, err := rights.RoleBindings(namespace).Create(ctx, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Subjects: subjects,
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
	}, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	if len(verbs) == 0 {
		return
	}
	_, err = rights.ClusterRoles().Create(ctx, &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Rules:      []rbacv1.PolicyRule{{Verbs: verbs, APIGroups: []string{""}, Resources: []string{"configmaps"}, ResourceNames: names}},
	}, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	_, err = rights.ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Subjects: subjects,
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
	}, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
}

func second(_ any, err error) error { return err }

var _ = Describe("A user of the system space with every right in one namespace", Ordered, func() {
	const namespace, user = "team", "dev"
	var (
		config *rest.Config
		dev    *kubernetes.Clientset
		admin  *kubernetes.Clientset
		before map[string]int64
	)
	in := func(r schema.GroupVersionResource) dynamic.ResourceInterface {
		return suite.Dynamic(config).Resource(r).Namespace(namespace)
	}
	// original is an object as a client reads it.
	original := func(ctx context.Context, r schema.GroupVersionResource, name string) *unstructured.Unstructured {
		GinkgoHelper()
		object, err := in(r).Get(ctx, name, metav1.GetOptions{})
		Expect(err).NotTo(HaveOccurred())
		return object
	}

	BeforeAll(func(ctx SpecContext) {
		withoutDefinitions(ctx)
		admin = tenantry.Client(tenant.System)
		_, err := admin.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		grant(ctx, user, namespace, nil)
		config = tenantry.User(tenant.System, user)
		dev = suite.Client(config)
		for name, value := range map[string]string{"rules": "true", "forced": "force"} {
			_, err = admin.CoreV1().ConfigMaps(namespace).Create(ctx, &corev1.ConfigMap{
				ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: annotated(value), Labels: map[string]string{"test": "rules"}},
			}, metav1.CreateOptions{})
			Expect(err).NotTo(HaveOccurred())
			for _, n := range []tenant.Name{"a", "b"} {
				Eventually(func() error {
					return second(tenantry.Client(n).CoreV1().ConfigMaps(namespace).Get(ctx, name, metav1.GetOptions{}))
				}).Should(Succeed())
			}
		}
		labels := map[string]string{"app": "agent"}
		_, err = admin.AppsV1().Deployments(namespace).Create(ctx, &appsv1.Deployment{
			ObjectMeta: metav1.ObjectMeta{Name: "agent", Annotations: annotated("true")},
			Spec: appsv1.DeploymentSpec{Replicas: new(int32(1)), Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}},
			}},
		}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		_, err = dev.CoreV1().ConfigMaps(namespace).Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "own"}}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		before = spaceKeys(ctx)
	}, NodeTimeout(suite.StartTimeout))

	AfterAll(func(ctx SpecContext) {
		Expect(spaceKeys(ctx)).To(Equal(before), "objects of the tenants in etcd")
		deleteEverywhere(ctx, namespace)
	}, NodeTimeout(suite.StartTimeout))

	It("publishes nothing", func(ctx SpecContext) {
		for _, value := range []string{"true", "force", "false", "no", ""} {
			quoted := fmt.Sprintf("%q", value)
			create := func(meta metav1.ObjectMeta, options metav1.CreateOptions) error {
				meta.Annotations = annotated(value)
				return second(dev.CoreV1().ConfigMaps(namespace).Create(ctx, &corev1.ConfigMap{ObjectMeta: meta}, options))
			}
			patch := func(kind types.PatchType, body string) error {
				return second(in(configMaps).Patch(ctx, "own", kind, []byte(body), metav1.PatchOptions{}))
			}
			updated := original(ctx, configMaps, "own")
			updated.SetAnnotations(annotated(value))
			applied := func(name string) *unstructured.Unstructured {
				o := &unstructured.Unstructured{}
				o.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ConfigMap"))
				o.SetName(name)
				o.SetAnnotations(annotated(value))
				return o
			}
			apply := metav1.ApplyOptions{FieldManager: "test", Force: true}
			for what, err := range map[string]error{
				"create":          create(metav1.ObjectMeta{Name: "new"}, metav1.CreateOptions{}),
				"generated name":  create(metav1.ObjectMeta{GenerateName: "new-"}, metav1.CreateOptions{}),
				"dry run":         create(metav1.ObjectMeta{Name: "new"}, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}),
				"update":          second(in(configMaps).Update(ctx, updated, metav1.UpdateOptions{})),
				"merge patch":     patch(types.MergePatchType, annotation(quoted)),
				"strategic patch": patch(types.StrategicMergePatchType, annotation(quoted)),
				"JSON patch":      patch(types.JSONPatchType, fmt.Sprintf(`[{"op": "add", "path": "/metadata/annotations", "value": {%q: %q}}]`, tenant.PublishedAnnotation, value)),
				"apply":           second(in(configMaps).Apply(ctx, "own", applied("own"), apply)),
				"apply as new":    second(in(configMaps).Apply(ctx, "new", applied("new"), apply)),
				"namespace":       second(dev.CoreV1().Namespaces().Patch(ctx, namespace, types.MergePatchType, []byte(annotation(quoted)), metav1.PatchOptions{})),
				"its status":      second(dev.CoreV1().Namespaces().Patch(ctx, namespace, types.MergePatchType, []byte(annotation(quoted)), metav1.PatchOptions{}, "status")),
			} {
				Expect(err).To(needs("publish"), "%s: %q", what, value)
			}
		}
	}, SpecTimeout(suite.StartTimeout))

	It("changes nothing that is published", func(ctx SpecContext) {
		for _, name := range []string{"rules", "forced"} {
			patch := func(kind types.PatchType, body string) error {
				return second(in(configMaps).Patch(ctx, name, kind, []byte(body), metav1.PatchOptions{}))
			}
			updated := original(ctx, configMaps, name)
			Expect(unstructured.SetNestedField(updated.Object, "v", "data", "k")).To(Succeed())
			applied := &unstructured.Unstructured{Object: map[string]any{"data": map[string]any{"k": "v"}}}
			applied.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ConfigMap"))
			applied.SetName(name)
			for what, err := range map[string]error{
				"data":            patch(types.MergePatchType, `{"data": {"k": "v"}}`),
				"label":           patch(types.StrategicMergePatchType, `{"metadata": {"labels": {"k": "v"}}}`),
				"finalizer":       patch(types.MergePatchType, `{"metadata": {"finalizers": ["example.com/stay"]}}`),
				"owner":           patch(types.MergePatchType, `{"metadata": {"ownerReferences": [{"apiVersion": "v1", "kind": "ConfigMap", "name": "own", "uid": "u"}]}}`),
				"JSON patch":      patch(types.JSONPatchType, `[{"op": "add", "path": "/data", "value": {"k": "v"}}]`),
				"update":          second(in(configMaps).Update(ctx, updated, metav1.UpdateOptions{})),
				"apply":           second(in(configMaps).Apply(ctx, name, applied, metav1.ApplyOptions{FieldManager: "test", Force: true})),
				"removal":         patch(types.MergePatchType, annotation("null")),
				"not to publish":  patch(types.MergePatchType, annotation(`"false"`)),
				"another value":   patch(types.MergePatchType, annotation(`"other"`)),
				"delete":          in(configMaps).Delete(ctx, name, metav1.DeleteOptions{}),
				"in foreground":   in(configMaps).Delete(ctx, name, metav1.DeleteOptions{PropagationPolicy: new(metav1.DeletePropagationForeground)}),
				"dry run":         in(configMaps).Delete(ctx, name, metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}}),
				"in a collection": in(configMaps).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: "test=rules"}),
			} {
				Expect(err).To(needs("publish"), "%s: %s", name, what)
			}
		}
		Expect(second(in(configMaps).Patch(ctx, "rules", types.MergePatchType, []byte(`{"metadata": {"labels": {"test": "rules"}}}`), metav1.PatchOptions{}))).
			To(Succeed(), "what changes nothing")
	}, SpecTimeout(suite.StartTimeout))

	It("does not delete the namespace of what is published", func(ctx SpecContext) {
		for what, options := range map[string]metav1.DeleteOptions{"": {}, "dry run": {DryRun: []string{metav1.DryRunAll}}} {
			Expect(dev.CoreV1().Namespaces().Delete(ctx, namespace, options)).To(needs("publish"), what)
		}
	}, SpecTimeout(suite.StartTimeout))

	It("reaches it by no subresource", func(ctx SpecContext) {
		scale, err := dev.AppsV1().Deployments(namespace).GetScale(ctx, "agent", metav1.GetOptions{})
		Expect(err).NotTo(HaveOccurred())
		// In any state: its controllers write the status of the Deployment meanwhile.
		scale.Spec.Replicas, scale.ResourceVersion = 7, ""
		patch := func(body string, subresource string) error {
			return second(in(deployments).Patch(ctx, "agent", types.MergePatchType, []byte(body), metav1.PatchOptions{}, subresource))
		}
		for what, err := range map[string]error{
			"scale":                 second(dev.AppsV1().Deployments(namespace).UpdateScale(ctx, "agent", scale, metav1.UpdateOptions{})),
			"scale by patch":        patch(`{"spec": {"replicas": 7}}`, "scale"),
			"annotation by status":  patch(annotation("null"), "status"),
			"other value by status": patch(annotation(`"force"`), "status"),
			"finalizer by status":   patch(`{"metadata": {"finalizers": ["example.com/stay"]}}`, "status"),
		} {
			Expect(err).To(needs("publish"), what)
		}
		Expect(patch(`{"status": {"observedGeneration": 1}}`, "status")).To(Succeed(), "the status is that of this space")
	}, SpecTimeout(suite.StartTimeout))

	It("has no controller do it", func(ctx SpecContext) {
		By("a HorizontalPodAutoscaler")
		_, err := dev.AutoscalingV2().HorizontalPodAutoscalers(namespace).Create(ctx, &autoscalingv2.HorizontalPodAutoscaler{
			ObjectMeta: metav1.ObjectMeta{Name: "agent"},
			Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
				ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "agent"},
				MinReplicas:    new(int32(5)), MaxReplicas: 7,
			},
		}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		Eventually(func() (string, error) {
			found, err := dev.AutoscalingV2().HorizontalPodAutoscalers(namespace).Get(ctx, "agent", metav1.GetOptions{})
			return fmt.Sprint(found.Status.Conditions), err
		}).Should(ContainSubstring("a HorizontalPodAutoscaler of the system space would scale it in all of them"))
		Expect(dev.AutoscalingV2().HorizontalPodAutoscalers(namespace).Delete(ctx, "agent", metav1.DeleteOptions{})).To(Succeed())

		By("a template")
		labels := map[string]string{"app": "set"}
		_, err = dev.AppsV1().StatefulSets(namespace).Create(ctx, &appsv1.StatefulSet{
			ObjectMeta: metav1.ObjectMeta{Name: "set"},
			Spec: appsv1.StatefulSetSpec{Selector: &metav1.LabelSelector{MatchLabels: labels},
				Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}}},
				VolumeClaimTemplates: []corev1.PersistentVolumeClaim{{
					ObjectMeta: metav1.ObjectMeta{Name: "claim", Annotations: annotated("true")},
					Spec: corev1.PersistentVolumeClaimSpec{
						AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
						Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
					},
				}},
			},
		}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		Eventually(func() (messages []string, err error) {
			list, err := dev.CoreV1().Events(namespace).List(ctx, metav1.ListOptions{FieldSelector: "involvedObject.name=set"})
			for i := range list.Items {
				messages = append(messages, list.Items[i].Message)
			}
			return messages, err
		}).Should(ContainElement(ContainSubstring("comes from a template, and nothing is published by a template")))
		Expect(dev.AppsV1().StatefulSets(namespace).Delete(ctx, "set", metav1.DeleteOptions{})).To(Succeed())

		By("the garbage collector")
		own := original(ctx, configMaps, "own")
		owned := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "owned", Annotations: annotated("true"), OwnerReferences: []metav1.OwnerReference{
			{APIVersion: "v1", Kind: "ConfigMap", Name: "own", UID: own.GetUID()},
		}}}
		_, err = admin.CoreV1().ConfigMaps(namespace).Create(ctx, owned, metav1.CreateOptions{})
		Expect(err).To(MatchError(ContainSubstring("whoever deletes the owner would remove it from every space")))
	}, SpecTimeout(suite.StartTimeout))

	It("does not change the Service of the API server, which every space shows", func(ctx SpecContext) {
		grant(ctx, "of-default", metav1.NamespaceDefault, nil)
		client := suite.Dynamic(tenantry.User(tenant.System, "of-default"))
		for _, r := range []schema.GroupVersionResource{
			{Version: "v1", Resource: "services"}, {Version: "v1", Resource: "endpoints"}, {Group: "discovery.k8s.io", Version: "v1", Resource: "endpointslices"},
		} {
			shown := client.Resource(r).Namespace(metav1.NamespaceDefault)
			for what, err := range map[string]error{
				"patch":  second(shown.Patch(ctx, "kubernetes", types.MergePatchType, []byte(`{"metadata": {"labels": {"k": "v"}}}`), metav1.PatchOptions{})),
				"delete": shown.Delete(ctx, "kubernetes", metav1.DeleteOptions{}),
			} {
				Expect(err).To(needs("publish"), "%s: %s", r.Resource, what)
			}
		}
		status := client.Resource(corev1.SchemeGroupVersion.WithResource("services")).Namespace(metav1.NamespaceDefault)
		Expect(second(status.Patch(ctx, "kubernetes", types.MergePatchType,
			[]byte(`{"status": {"conditions": [{"type": "T", "status": "True", "reason": "R", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}]}}`), metav1.PatchOptions{}, "status"))).To(needs("publish"))
	}, SpecTimeout(suite.StartTimeout))

	It("is not helped by a RoleBinding, nor by verbs on other names", func(ctx SpecContext) {
		_, err := admin.RbacV1().RoleBindings(namespace).Create(ctx, &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: "publishers"}, Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "named"},
		}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		grant(ctx, "named", namespace, []string{"publish", "force-publish"}, "some")
		attempt := func(user, name, value string) error {
			return second(suite.Client(tenantry.User(tenant.System, user)).CoreV1().ConfigMaps(namespace).Create(ctx,
				&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: annotated(value)}}, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}))
		}
		Expect(attempt(user, "some", "true")).To(needs("publish"))
		Expect(attempt("named", "other", "true")).To(needs("publish"))
		Expect(attempt("named", "some", "force")).To(Succeed())
	}, SpecTimeout(suite.StartTimeout))

	It("is not the publisher, nor the server, by impersonation", func(ctx SpecContext) {
		for _, name := range []string{tenant.Publisher, "system:apiserver", "admin"} {
			as := rest.CopyConfig(config)
			as.Impersonate = rest.ImpersonationConfig{UserName: name, Groups: []string{"system:masters"}}
			_, err := suite.Client(as).CoreV1().ConfigMaps(namespace).Patch(ctx, "rules", types.MergePatchType, []byte(`{"data": {"k": "v"}}`), metav1.PatchOptions{})
			Expect(err).To(MatchError(ContainSubstring("cannot impersonate")), name)
		}
	}, SpecTimeout(suite.StartTimeout))
})

var _ = Describe("A user of the system space who may publish ConfigMaps", Ordered, func() {
	const namespace, user = "publishers", "publisher"
	var client *kubernetes.Clientset

	BeforeAll(func(ctx SpecContext) {
		withoutDefinitions(ctx)
		admin := tenantry.Client(tenant.System)
		_, err := admin.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		grant(ctx, user, namespace, []string{"publish"})
		client = suite.Client(tenantry.User(tenant.System, user))
	}, NodeTimeout(suite.StartTimeout))
	AfterAll(func(ctx SpecContext) { deleteEverywhere(ctx, namespace) }, NodeTimeout(suite.StartTimeout))

	It("publishes, changes and takes back", func(ctx SpecContext) {
		own := client.CoreV1().ConfigMaps(namespace)
		_, err := own.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "o", Annotations: annotated("true")}}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		inA := tenantry.Client("a").CoreV1().ConfigMaps(namespace)
		Eventually(func() error { return second(inA.Get(ctx, "o", metav1.GetOptions{})) }).Should(Succeed())
		Expect(second(own.Patch(ctx, "o", types.MergePatchType, []byte(annotation(`"force"`)), metav1.PatchOptions{}))).To(needs("force-publish"))
		Expect(second(own.Patch(ctx, "o", types.MergePatchType, []byte(annotation("null")), metav1.PatchOptions{}))).To(Succeed())
		Eventually(func() error { return second(inA.Get(ctx, "o", metav1.GetOptions{})) }).Should(MatchError(apierrors.IsNotFound, "not found"))
	}, SpecTimeout(suite.StartTimeout))

	It("changes nothing that is forced on tenants", func(ctx SpecContext) {
		admins := tenantry.Client(tenant.System).CoreV1().ConfigMaps(namespace)
		_, err := admins.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "forced", Annotations: annotated("force")}}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		own := client.CoreV1().ConfigMaps(namespace)
		for _, body := range []string{`{"data": {"k": "v"}}`, annotation(`"true"`), annotation("null")} {
			Expect(second(own.Patch(ctx, "forced", types.MergePatchType, []byte(body), metav1.PatchOptions{}))).To(needs("force-publish"), body)
		}
		Expect(own.Delete(ctx, "forced", metav1.DeleteOptions{})).To(needs("force-publish"))
		Expect(admins.Delete(ctx, "forced", metav1.DeleteOptions{})).To(Succeed())
	}, SpecTimeout(suite.StartTimeout))

	It("publishes nothing else", func(ctx SpecContext) {
		_, err := client.CoreV1().Secrets(namespace).Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "o", Annotations: annotated("true")}}, metav1.CreateOptions{})
		Expect(err).To(needs("publish"))
	}, SpecTimeout(suite.StartTimeout))
})

var _ = Describe("A user of the system space who writes definitions and ClusterRoles, and may not publish", Ordered, func() {
	var config *rest.Config

	BeforeAll(func(ctx SpecContext) {
		rights := tenantry.Client(tenant.System).RbacV1()
		all := []string{"get", "list", "create", "update", "patch", "delete", "deletecollection", "escalate"}
		_, err := rights.ClusterRoles().Create(ctx, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "definer"}, Rules: []rbacv1.PolicyRule{
			{Verbs: all, APIGroups: []string{"apiextensions.k8s.io"}, Resources: []string{"*"}},
			{Verbs: all, APIGroups: []string{rbacv1.GroupName}, Resources: []string{"clusterroles"}},
		}}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		_, err = rights.ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: "definer"}, Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "definer"}},
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "definer"},
		}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		config = tenantry.User(tenant.System, "definer")
	}, NodeTimeout(suite.StartTimeout))

	It("changes no definition that is published, or has been", func(ctx SpecContext) {
		own, admins := suite.Definitions(config), suite.Definitions(tenantry.Config(tenant.System))
		withdrawn := suite.NewDefinition(schema.GroupVersionResource{Group: "withdrawn.example.com", Version: "v1", Resource: "things"}, "Thing", apiextensionsv1.NamespaceScoped)
		withdrawn.Annotations = annotated("true")
		_, err := admins.Create(ctx, withdrawn, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		_, err = admins.Patch(ctx, withdrawn.Name, types.MergePatchType, []byte(annotation("null")), metav1.PatchOptions{})
		Expect(err).NotTo(HaveOccurred())
		for _, name := range []string{targets.Resource + "." + targets.Group, withdrawn.Name} {
			patch := func(body string, subresources ...string) error {
				return second(own.Patch(ctx, name, types.MergePatchType, []byte(body), metav1.PatchOptions{}, subresources...))
			}
			for what, err := range map[string]error{
				"label":           patch(`{"metadata": {"labels": {"k": "v"}}}`),
				"mark":            patch(fmt.Sprintf(`{"metadata": {"labels": {%q: null}}}`, tenant.PublishedDefinitionLabel)),
				"finalizers":      patch(`{"metadata": {"finalizers": null}}`),
				"stored versions": patch(`{"status": {"storedVersions": ["v0"]}}`, "status"),
				"force":           patch(annotation(`"force"`)),
				"delete":          own.Delete(ctx, name, metav1.DeleteOptions{}),
			} {
				Expect(err).To(needs("publish"), "%s: %s", name, what)
			}
		}
		Expect(admins.Delete(ctx, withdrawn.Name, metav1.DeleteOptions{})).To(Succeed())
	}, SpecTimeout(suite.StartTimeout))

	It("does not make one look as if it had been", func(ctx SpecContext) {
		forged := suite.NewDefinition(schema.GroupVersionResource{Group: "forged.example.com", Version: "v1", Resource: "things"}, "Thing", apiextensionsv1.NamespaceScoped)
		forged.Labels = map[string]string{tenant.PublishedDefinitionLabel: tenant.PublishedCopy}
		Expect(second(suite.Definitions(config).Create(ctx, forged, metav1.CreateOptions{}))).To(needs("publish"))
	}, SpecTimeout(suite.StartTimeout))

	It("adds nothing to a published ClusterRole by aggregation", func(ctx SpecContext) {
		role := &rbacv1.ClusterRole{
			ObjectMeta:      metav1.ObjectMeta{Name: "aggregated", Annotations: annotated("true")},
			AggregationRule: &rbacv1.AggregationRule{ClusterRoleSelectors: []metav1.LabelSelector{{MatchLabels: map[string]string{"part": "yes"}}}},
		}
		_, err := tenantry.Client(tenant.System).RbacV1().ClusterRoles().Create(ctx, role, metav1.CreateOptions{})
		Expect(err).To(MatchError(ContainSubstring("a ClusterRole that aggregates others is not published")))
	}, SpecTimeout(suite.StartTimeout))
})

// deleteEverywhere deletes a namespace in which something is published, and waits until
// it is gone from every space: other specs look at what changes there.
func deleteEverywhere(ctx context.Context, namespace string) {
	GinkgoHelper()
	Expect(tenantry.Client(tenant.System).CoreV1().Namespaces().Delete(ctx, namespace, metav1.DeleteOptions{})).To(Succeed())
	for _, n := range []tenant.Name{tenant.System, "a", "b"} {
		Eventually(func(g Gomega) {
			left, err := tenantry.Client(n).CoreV1().Namespaces().Get(ctx, namespace, metav1.GetOptions{})
			g.Expect(err).To(MatchError(apierrors.IsNotFound, "not found"), "in the space %s: %v, with %v", n, left.Status.Conditions, contents(ctx, n, namespace))
		}).Should(Succeed())
	}
}

// withoutDefinitions deletes what other specs have defined in the spaces: a tenant with
// definitions of its own keeps a namespace when nothing is published in it any more.
func withoutDefinitions(ctx context.Context) {
	GinkgoHelper()
	for _, n := range []tenant.Name{"a", "b"} {
		definitions, own := suite.Definitions(tenantry.Config(n)), metav1.ListOptions{LabelSelector: "!" + tenant.PublishedCopyLabel}
		Expect(definitions.DeleteCollection(ctx, metav1.DeleteOptions{}, own)).To(Succeed())
		Eventually(func(g Gomega) {
			left, err := definitions.List(ctx, own)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(left.Items).To(BeEmpty())
		}).Should(Succeed())
	}
}

// contents returns the keys of what is in a namespace of a space.
func contents(ctx context.Context, n tenant.Name, namespace string) (keys []string) {
	response, err := tenantry.Etcd().Get(ctx, "/registry/", clientv3.WithPrefix(), clientv3.WithKeysOnly())
	if err != nil {
		return []string{err.Error()}
	}
	for _, kv := range response.Kvs {
		if key := string(kv.Key); strings.Contains(key, "/"+n.String()+"/"+namespace) {
			keys = append(keys, key)
		}
	}
	return keys
}

// spaceKeys returns the keys of the tenants' namespaces and ConfigMaps, the latter with
// their versions.
func spaceKeys(ctx context.Context) map[string]int64 {
	GinkgoHelper()
	keys := map[string]int64{}
	for _, prefix := range []string{"/registry/configmaps/a/", "/registry/configmaps/b/", "/registry/namespaces/a/", "/registry/namespaces/b/"} {
		response, err := tenantry.Etcd().Get(ctx, prefix, clientv3.WithPrefix(), clientv3.WithKeysOnly())
		Expect(err).NotTo(HaveOccurred())
		for _, kv := range response.Kvs {
			key := string(kv.Key)
			switch {
			case strings.HasPrefix(key, "/registry/namespaces/"):
				keys[key] = 0 // controllers write their status
			case path.Base(key) != "kube-root-ca.crt": // comes some time after the namespace
				keys[key] = kv.ModRevision
			}
		}
	}
	return keys
}
