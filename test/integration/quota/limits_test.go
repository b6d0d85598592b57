package quota

import (
	"context"
	"fmt"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tenantry/tenantry/api/v1alpha1"
	"github.com/tenantry/tenantry/test/env/suite"
)

var _ = Describe("Limits", func() {
	It("hold for compute and extended resources, in all namespaces together", func(ctx SpecContext) {
		s := newSpace(ctx, limits{"requests.cpu": "1", "limits.memory": "1Gi", "requests.example.com/gpu": "2"})
		s.newNamespace(ctx, "other")
		create := func(namespace, name, cpu, gpu string) error {
			pod := newPod(name)
			amounts := corev1.ResourceList{
				"cpu": resource.MustParse(cpu), "memory": resource.MustParse("100Mi"), "example.com/gpu": resource.MustParse(gpu),
			}
			pod.Spec.Containers[0].Resources = corev1.ResourceRequirements{Requests: amounts, Limits: amounts}
			_, err := s.CoreV1().Pods(namespace).Create(ctx, pod, metav1.CreateOptions{})
			return err
		}
		Expect(s.createPod(ctx, "default", "without")).To(And(beForbidden(), MatchError(ContainSubstring("must specify"))))
		Expect(create("default", "a", "600m", "1")).To(Succeed())
		Expect(create("other", "b", "600m", "1")).To(beRefused())
		Expect(create("other", "c", "400m", "2")).To(beRefused())
		Expect(create("other", "d", "400m", "1")).To(Succeed())
		Expect(s.quota(ctx).Status.Used).To(equalAmounts(limits{"requests.cpu": "1", "limits.memory": "200Mi", "requests.example.com/gpu": "2"}))

		By("freeing what a pod uses that has ended, and no more when it is deleted")
		pod, err := s.CoreV1().Pods("default").Get(ctx, "a", metav1.GetOptions{})
		Expect(err).NotTo(HaveOccurred())
		pod.Status.Phase = corev1.PodSucceeded
		_, err = s.CoreV1().Pods("default").UpdateStatus(ctx, pod, metav1.UpdateOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(create("other", "e", "600m", "1")).To(Succeed())
		By("refusing to bring the pod back to life")
		pod, err = s.CoreV1().Pods("default").Get(ctx, "a", metav1.GetOptions{})
		Expect(err).NotTo(HaveOccurred())
		pod.Status.Phase = corev1.PodRunning
		_, err = s.CoreV1().Pods("default").UpdateStatus(ctx, pod, metav1.UpdateOptions{})
		Expect(err).To(beRefused())
		Expect(s.CoreV1().Pods("default").Delete(ctx, "a", now)).To(Succeed())
		Expect(s.quota(ctx).Status.Used).To(equalAmounts(limits{"requests.cpu": "1", "limits.memory": "200Mi", "requests.example.com/gpu": "2"}))
	}, SpecTimeout(time.Minute))

	It("hold for storage", func(ctx SpecContext) {
		s := newSpace(ctx, limits{"requests.storage": "10Gi", "fast.storageclass.storage.k8s.io/persistentvolumeclaims": "1"})
		create := func(name, class, size string) error {
			claim := &corev1.PersistentVolumeClaim{
				ObjectMeta: metav1.ObjectMeta{Name: name},
				Spec: corev1.PersistentVolumeClaimSpec{
					StorageClassName: &class, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
					Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{"storage": resource.MustParse(size)}},
				},
			}
			_, err := s.CoreV1().PersistentVolumeClaims("default").Create(ctx, claim, metav1.CreateOptions{})
			return err
		}
		Expect(create("a", "fast", "6Gi")).To(Succeed())
		Expect(create("b", "fast", "1Gi")).To(beRefused())
		Expect(create("c", "slow", "5Gi")).To(beRefused())
		Expect(create("d", "slow", "4Gi")).To(Succeed())
	}, SpecTimeout(time.Minute))

	It("count objects of any resource, with namespaces and without", func(ctx SpecContext) {
		s := newSpace(ctx, nil)
		s.limit(ctx, limits{"count/clusterroles.rbac.authorization.k8s.io": "10", "count/deployments.apps": "0", "count/namespaces": "4"})
		Expect(s.used(ctx, "count/namespaces")).To(BeEquivalentTo(4), "those that every space has")
		role := func(i int) *rbacv1.ClusterRole {
			return &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("r-%d", i)}}
		}
		roles := s.RbacV1().ClusterRoles()
		Expect(race(ctx, func(ctx context.Context, i int) error {
			_, err := roles.Create(ctx, role(i), metav1.CreateOptions{})
			return err
		})).To(Equal(10))
		By("counting a default role once it is stored")
		_, err := roles.Patch(ctx, "view", types.MergePatchType, []byte(`{"metadata":{"labels":{"a":"b"}}}`), metav1.PatchOptions{})
		Expect(err).To(beRefused())
		list, err := roles.List(ctx, metav1.ListOptions{})
		Expect(err).NotTo(HaveOccurred())
		for _, r := range list.Items {
			if strings.HasPrefix(r.Name, "r-") {
				Expect(roles.Delete(ctx, r.Name, metav1.DeleteOptions{})).To(Succeed())
				break
			}
		}
		_, err = roles.Patch(ctx, "view", types.MergePatchType, []byte(`{"metadata":{"labels":{"a":"b"}}}`), metav1.PatchOptions{})
		Expect(err).NotTo(HaveOccurred())
		_, err = roles.Create(ctx, role(creators), metav1.CreateOptions{})
		Expect(err).To(beRefused())
		Expect(roles.Delete(ctx, "view", metav1.DeleteOptions{})).To(Succeed())
		_, err = roles.Create(ctx, role(creators), metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())

		By("refusing what may not be at all")
		_, err = s.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "more"}}, metav1.CreateOptions{})
		Expect(err).To(beRefused())
		Expect(s.apply(ctx, "apps", "v1", "deployments", "Deployment")).To(beRefused())
	}, SpecTimeout(time.Minute))

	It("count the custom resources that a space defines", func(ctx SpecContext) {
		for _, scope := range []apiextensionsv1.ResourceScope{apiextensionsv1.NamespaceScoped, apiextensionsv1.ClusterScoped} {
			s := newSpace(ctx, limits{"count/widgets.example.com": "10"})
			s.define(ctx, scope)
			objects := s.dynamic.Resource(widgets).Namespace("")
			if scope == apiextensionsv1.NamespaceScoped {
				objects = s.dynamic.Resource(widgets).Namespace("default")
			}
			create := func(ctx context.Context, i int, dryRun ...string) error {
				widget := &unstructured.Unstructured{}
				widget.SetAPIVersion("example.com/v1")
				widget.SetKind("Widget")
				widget.SetName(fmt.Sprintf("w-%d", i))
				_, err := objects.Create(ctx, widget, metav1.CreateOptions{DryRun: dryRun})
				return err
			}
			one := func(ctx context.Context, i int) error { return create(ctx, i) }
			Expect(race(ctx, one)).To(Equal(10), string(scope))
			Expect(objects.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{})).To(Succeed())
			Expect(s.used(ctx, "count/widgets.example.com")).To(BeZero(), string(scope))
			Expect(race(ctx, one)).To(Equal(10), string(scope))
			if scope == apiextensionsv1.NamespaceScoped {
				By("in a namespace alone")
				s.limit(ctx, limits{"count/widgets.example.com": "20"})
				s.limitNamespace(ctx, "default", "widgets", "count/widgets.example.com", "12", func() error { return create(ctx, creators, metav1.DryRunAll) })
				Expect(create(ctx, creators)).To(Succeed())
				Expect(create(ctx, creators+1)).To(Succeed())
				Expect(create(ctx, creators+2)).To(And(beForbidden(), MatchError(ContainSubstring("exceeded quota: widgets"))))
				for i := range 2 {
					Expect(objects.Delete(ctx, fmt.Sprintf("w-%d", creators+i), metav1.DeleteOptions{})).To(Succeed())
				}
				Expect(create(ctx, creators)).To(Succeed())
				Expect(objects.Delete(ctx, fmt.Sprintf("w-%d", creators), metav1.DeleteOptions{})).To(Succeed())
			}
			By("counting them anew")
			s.limit(ctx, limits{"pods": "1"})
			s.limit(ctx, limits{"count/widgets.example.com": "12"})
			Expect(s.used(ctx, "count/widgets.example.com")).To(BeEquivalentTo(10), string(scope))
		}
	}, SpecTimeout(2*time.Minute))

	It("hold for what is stored, to the byte", func(ctx SpecContext) {
		s := newSpace(ctx, limits{v1alpha1.ResourceStoredBytes: "1Mi"})
		stored := func() int64 {
			_, bytes := tenantry.Stored(ctx, s.name)
			return bytes
		}
		maps := s.CoreV1().ConfigMaps("default")
		configMap := func(i, size int) *corev1.ConfigMap {
			return &corev1.ConfigMap{
				ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("m-%d", i)},
				Data:       map[string]string{"data": strings.Repeat("x", size)},
			}
		}
		admitted := race(ctx, func(ctx context.Context, i int) error {
			_, err := maps.Create(ctx, configMap(i, 50_000), metav1.CreateOptions{})
			return err
		})
		Expect(admitted).To(BeNumerically("~", 20, 1))
		Expect(s.used(ctx, v1alpha1.ResourceStoredBytes)).To(Equal(stored()))
		By("an object that grows")
		list, err := maps.List(ctx, metav1.ListOptions{})
		Expect(err).NotTo(HaveOccurred())
		large := list.Items[len(list.Items)-1]
		large.Data = configMap(0, 200_000).Data
		_, err = maps.Update(ctx, &large, metav1.UpdateOptions{})
		Expect(err).To(beRefused())
		By("one that shrinks, and one that goes")
		large.Data = nil
		_, err = maps.Update(ctx, &large, metav1.UpdateOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(maps.Delete(ctx, list.Items[len(list.Items)-2].Name, metav1.DeleteOptions{})).To(Succeed())
		Expect(s.used(ctx, v1alpha1.ResourceStoredBytes)).To(Equal(stored()))
		_, err = maps.Create(ctx, configMap(creators, 80_000), metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(s.used(ctx, v1alpha1.ResourceStoredBytes)).To(Equal(stored()))
	}, SpecTimeout(time.Minute))

	It("that are lowered below the use block new objects and end none", func(ctx SpecContext) {
		s := newSpace(ctx, limits{"pods": "10"})
		for i := range 5 {
			Expect(s.createPod(ctx, "default", fmt.Sprintf("p-%d", i))).To(Succeed())
		}
		s.limit(ctx, limits{"pods": "3"})
		Expect(s.createPod(ctx, "default", "more")).To(beRefused())
		pods, err := s.CoreV1().Pods("default").List(ctx, metav1.ListOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(pods.Items).To(HaveLen(5))
		for i := range 3 {
			Expect(s.createPod(ctx, "default", "more")).To(beRefused())
			Expect(s.CoreV1().Pods("default").Delete(ctx, fmt.Sprintf("p-%d", i), now)).To(Succeed())
		}
		Expect(s.createPod(ctx, "default", "more")).To(Succeed())
	}, SpecTimeout(time.Minute))

	It("that are lowered below the stored bytes keep nobody from deleting", func(ctx SpecContext) {
		s := newSpace(ctx, limits{v1alpha1.ResourceStoredBytes: "1Mi"})
		s.newNamespace(ctx, "held")
		finalizer := metav1.ObjectMeta{Name: "held", Finalizers: []string{"example.com/finalizer"}}
		_, err := s.CoreV1().ConfigMaps("default").Create(ctx, &corev1.ConfigMap{ObjectMeta: finalizer}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		s.define(ctx, apiextensionsv1.NamespaceScoped)
		for _, name := range []string{"deleted", "evicted"} {
			Expect(s.createPod(ctx, "default", name)).To(Succeed())
			Expect(s.admin().CoreV1().Pods("default").Bind(ctx, &corev1.Binding{
				ObjectMeta: metav1.ObjectMeta{Name: name}, Target: corev1.ObjectReference{Kind: "Node", Name: "n"}}, metav1.CreateOptions{})).To(Succeed())
		}
		s.limit(ctx, limits{v1alpha1.ResourceStoredBytes: "1Ki"})
		Expect(s.createPod(ctx, "default", "more")).To(beRefused())
		foreground := metav1.DeletePropagationForeground
		Expect(s.CoreV1().ConfigMaps("default").Delete(ctx, "held", metav1.DeleteOptions{})).To(Succeed())
		Expect(s.CoreV1().ConfigMaps("default").Delete(ctx, "kube-root-ca.crt", metav1.DeleteOptions{PropagationPolicy: &foreground})).To(Succeed())
		Expect(s.CoreV1().Namespaces().Delete(ctx, "held", metav1.DeleteOptions{})).To(Succeed())
		Expect(s.CoreV1().Pods("default").Delete(ctx, "deleted", metav1.DeleteOptions{})).To(Succeed())
		Expect(s.CoreV1().Pods("default").EvictV1(ctx, &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: "evicted"}})).To(Succeed())
		for _, name := range []string{"deleted", "evicted"} { // as a kubelet does
			Expect(s.admin().CoreV1().Pods("default").Delete(ctx, name, now)).To(Succeed())
		}
		Expect(suite.Definitions(tenantry.Config(s.name)).Delete(ctx, widgets.GroupResource().String(), metav1.DeleteOptions{})).To(Succeed())
	}, SpecTimeout(time.Minute))
})

// apply applies an object of which only kind and name are known.
func (s *space) apply(ctx context.Context, group, version, resource, kind string) error {
	object := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
		"selector": map[string]any{"matchLabels": map[string]any{"a": "b"}},
		"template": map[string]any{
			"metadata": map[string]any{"labels": map[string]any{"a": "b"}},
			"spec":     map[string]any{"containers": []any{map[string]any{"name": "c", "image": "i"}}},
		},
	}}}
	gv := schema.GroupVersion{Group: group, Version: version}
	object.SetGroupVersionKind(gv.WithKind(kind))
	object.SetName("applied")
	_, err := s.dynamic.Resource(gv.WithResource(resource)).Namespace("default").Apply(ctx, "applied", object,
		metav1.ApplyOptions{FieldManager: "test", Force: true})
	return err
}

var widgets = schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "widgets"}

// define defines widgets in the space and waits until they are served.
func (s *space) define(ctx context.Context, scope apiextensionsv1.ResourceScope) {
	GinkgoHelper()
	_, err := suite.Definitions(tenantry.Config(s.name)).Create(ctx, suite.NewDefinition(widgets, "Widget", scope), metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	Eventually(func() error {
		_, err := s.dynamic.Resource(widgets).List(ctx, metav1.ListOptions{})
		return err
	}).Should(Succeed())
}
