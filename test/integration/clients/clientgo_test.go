package clients

import (
	"context"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	applyappsv1 "k8s.io/client-go/applyconfigurations/apps/v1"
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"
	applymetav1 "k8s.io/client-go/applyconfigurations/meta/v1"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/scale"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/client-go/util/retry"

	"github.com/tenantry/tenantry/internal/tenant"
	"github.com/tenantry/tenantry/test/env/suite"
)

var (
	configMaps  = corev1.SchemeGroupVersion.WithResource("configmaps")
	deployments = appsv1.SchemeGroupVersion.WithResource("deployments")
)

var _ = Describe("client-go", func() {
	for _, form := range forms {
		Context("with the "+form.name, Ordered, func() {
			var a, b *rest.Config
			namespace := "clientgo-" + form.name

			BeforeAll(func(ctx SpecContext) {
				a, b = form.config(tenantry.Config("a")), form.config(tenantry.Config("b"))
				createNamespace(ctx, a, namespace)
				createNamespace(ctx, b, namespace)
			})

			It("discovers what a space serves", func() {
				client := suite.Client(a).Discovery()
				lists, err := discovery.ServerPreferredResources(client)
				Expect(err).NotTo(HaveOccurred())
				served, err := discovery.GroupVersionResources(lists)
				Expect(err).NotTo(HaveOccurred())
				Expect(served).To(And(HaveKey(configMaps), HaveKey(deployments)))
				mapper := restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(client))
				mapping, err := mapper.RESTMapping(schema.GroupKind{Group: "apps", Kind: "Deployment"})
				Expect(err).NotTo(HaveOccurred())
				Expect(mapping.Resource).To(Equal(deployments))
			})

			It("fills informers of all kinds with the space's own objects", func(ctx SpecContext) {
				typed := informers.NewSharedInformerFactory(suite.Client(a), 0)
				lister := typed.Core().V1().ConfigMaps().Lister()
				untyped := dynamicinformer.NewDynamicSharedInformerFactory(suite.Dynamic(a), 0)
				untypedLister := untyped.ForResource(configMaps).Lister()
				typed.StartWithContext(ctx)
				untyped.Start(ctx.Done())
				DeferCleanup(typed.Shutdown)
				DeferCleanup(untyped.Shutdown)
				Expect(typed.WaitForCacheSyncWithContext(ctx).Err).NotTo(HaveOccurred())
				Expect(untyped.WaitForCacheSync(ctx.Done())).To(HaveKeyWithValue(configMaps, true))

				apply(ctx, b, namespace, "settings", "b")
				apply(ctx, a, namespace, "settings", "a")
				Eventually(func(g Gomega) {
					object, err := lister.ConfigMaps(namespace).Get("settings")
					g.Expect(err).NotTo(HaveOccurred())
					g.Expect(object.Data).To(HaveKeyWithValue("owner", "a"))
					_, err = untypedLister.ByNamespace(namespace).Get("settings")
					g.Expect(err).NotTo(HaveOccurred())
				}).WithContext(ctx).Should(Succeed())
				all, err := lister.List(labels.SelectorFromSet(labels.Set{"test": namespace}))
				Expect(err).NotTo(HaveOccurred())
				Expect(all).To(HaveLen(1))

				Expect(suite.Client(a).CoreV1().ConfigMaps(namespace).Delete(ctx, "settings", metav1.DeleteOptions{})).To(Succeed())
				Eventually(func() error {
					_, err := lister.ConfigMaps(namespace).Get("settings")
					return err
				}).WithContext(ctx).ShouldNot(Succeed())
			}, NodeTimeout(timeout))

			It("reads metadata alone", func(ctx SpecContext) {
				apply(ctx, a, namespace, "metadata", "a")
				client, err := metadata.NewForConfig(a)
				Expect(err).NotTo(HaveOccurred())
				object, err := client.Resource(configMaps).Namespace(namespace).Get(ctx, "metadata", metav1.GetOptions{})
				Expect(err).NotTo(HaveOccurred())
				Expect(object.Labels).To(HaveKeyWithValue("test", namespace))
			}, NodeTimeout(timeout))

			It("creates, updates and patches unstructured objects", func(ctx SpecContext) {
				resource := suite.Dynamic(a).Resource(configMaps).Namespace(namespace)
				object := &unstructured.Unstructured{Object: map[string]any{"data": map[string]any{"step": "1"}}}
				object.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ConfigMap"))
				object.SetName("unstructured")
				object, err := resource.Create(ctx, object, metav1.CreateOptions{})
				Expect(err).NotTo(HaveOccurred())
				Expect(unstructured.SetNestedField(object.Object, "2", "data", "step")).To(Succeed())
				// What was read is written back whole, with the fields that the
				// server added.
				_, err = resource.Update(ctx, object, metav1.UpdateOptions{})
				Expect(err).NotTo(HaveOccurred())
				object, err = resource.Patch(ctx, "unstructured", types.JSONPatchType,
					[]byte(`[{"op":"test","path":"/data/step","value":"2"},{"op":"add","path":"/data/more","value":"x"}]`), metav1.PatchOptions{})
				Expect(err).NotTo(HaveOccurred())
				Expect(object.Object["data"]).To(Equal(map[string]any{"step": "2", "more": "x"}))
			}, NodeTimeout(timeout))

			It("scales by the scale subresource", func(ctx SpecContext) {
				pod := applycorev1.PodTemplateSpec().WithLabels(map[string]string{"app": "web"}).
					WithSpec(applycorev1.PodSpec().WithContainers(applycorev1.Container().WithName("c").WithImage("nginx")))
				deployment := applyappsv1.Deployment("web", namespace).WithSpec(applyappsv1.DeploymentSpec().WithReplicas(1).
					WithSelector(applymetav1.LabelSelector().WithMatchLabels(map[string]string{"app": "web"})).WithTemplate(pod))
				client := suite.Client(a)
				_, err := client.AppsV1().Deployments(namespace).Apply(ctx, deployment, metav1.ApplyOptions{FieldManager: "test"})
				Expect(err).NotTo(HaveOccurred())
				mapper := restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(client.Discovery()))
				scales, err := scale.NewForConfig(a, mapper, dynamic.LegacyAPIPathResolverFunc, scale.NewDiscoveryScaleKindResolver(client.Discovery()))
				Expect(err).NotTo(HaveOccurred())
				// The deployment controller may write its status in between.
				Expect(retry.RetryOnConflict(retry.DefaultRetry, func() error {
					current, err := scales.Scales(namespace).Get(ctx, deployments.GroupResource(), "web", metav1.GetOptions{})
					if err != nil {
						return err
					}
					current.Spec.Replicas = 3
					_, err = scales.Scales(namespace).Update(ctx, deployments.GroupResource(), current, metav1.UpdateOptions{})
					return err
				})).To(Succeed())
				Eventually(func() (*autoscalingv1.Scale, error) {
					return client.AppsV1().Deployments(namespace).GetScale(ctx, "web", metav1.GetOptions{})
				}).WithContext(ctx).Should(HaveField("Status.Replicas", BeEquivalentTo(3)))
			}, NodeTimeout(timeout))

			It("elects one leader in each space", func(ctx SpecContext) {
				electionCtx, stop := context.WithCancel(ctx)
				elected := make(chan tenant.Name, 4)
				var candidates sync.WaitGroup
				for space, config := range map[tenant.Name]*rest.Config{"a": a, "b": b} {
					for _, candidate := range []string{"1", "2"} {
						elector := newElector(config, namespace, candidate, func() { elected <- space })
						candidates.Go(func() { elector.Run(electionCtx) })
					}
				}
				first, second := receive(ctx, elected), receive(ctx, elected)
				Expect([]tenant.Name{first, second}).To(ConsistOf(tenant.Name("a"), tenant.Name("b")))
				Expect(elected).To(BeEmpty())
				for _, config := range []*rest.Config{a, b} {
					lease, err := suite.Client(config).CoordinationV1().Leases(namespace).Get(ctx, "leader", metav1.GetOptions{})
					Expect(err).NotTo(HaveOccurred())
					Expect(lease.Spec.HolderIdentity).To(HaveValue(BeElementOf("1", "2")))
				}
				stop()
				candidates.Wait()
			}, NodeTimeout(timeout))
		})
	}
})

// apply applies a ConfigMap that says whose it is.
func apply(ctx context.Context, config *rest.Config, namespace, name, owner string) {
	GinkgoHelper()
	object := applycorev1.ConfigMap(name, namespace).WithLabels(map[string]string{"test": namespace}).WithData(map[string]string{"owner": owner})
	_, err := suite.Client(config).CoreV1().ConfigMaps(namespace).Apply(ctx, object, metav1.ApplyOptions{FieldManager: "test"})
	Expect(err).NotTo(HaveOccurred())
}

// newElector returns a candidate for the lease of a namespace.
func newElector(config *rest.Config, namespace, identity string, leading func()) *leaderelection.LeaderElector {
	GinkgoHelper()
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: &resourcelock.LeaseLock{
			LeaseMeta:  metav1.ObjectMeta{Namespace: namespace, Name: "leader"},
			Client:     suite.Client(config).CoordinationV1(),
			LockConfig: resourcelock.ResourceLockConfig{Identity: identity},
		},
		LeaseDuration: timeout, RenewDeadline: timeout / 2, RetryPeriod: time.Second,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(context.Context) { leading() },
			OnStoppedLeading: func() {},
		},
	})
	Expect(err).NotTo(HaveOccurred())
	return elector
}

func receive(ctx context.Context, elected <-chan tenant.Name) tenant.Name {
	GinkgoHelper()
	select {
	case name := <-elected:
		return name
	case <-ctx.Done():
		Fail("nobody was elected")
		return ""
	}
}
