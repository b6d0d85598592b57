package workloads

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	aggregatorclient "k8s.io/kube-aggregator/pkg/client/clientset_generated/clientset"
	metricsv1beta1 "k8s.io/metrics/pkg/apis/metrics/v1beta1"
	resourceclient "k8s.io/metrics/pkg/client/clientset/versioned/typed/metrics/v1beta1"

	"github.com/tenantry/tenantry/internal/tenant"
	"github.com/tenantry/tenantry/test/env/suite"
)

// metricsAPI is what metrics-server is on a host.
type metricsAPI struct {
	mu sync.Mutex
	// used is what the container "c" of a pod uses of the processor, by the host's namespaces and names.
	used map[string]map[string]string
	// absent is whether there is no such API.
	absent bool
}

func (m *metricsAPI) set(pod *corev1.Pod, cpu string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.used[pod.Namespace] == nil {
		m.used[pod.Namespace] = map[string]string{}
	}
	m.used[pod.Namespace][pod.Name] = cpu
}

func (m *metricsAPI) setAbsent(absent bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.absent = absent
}

// ServeHTTP implements http.Handler.
func (m *metricsAPI) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	m.mu.Lock()
	defer m.mu.Unlock()
	rest, found := strings.CutPrefix(req.URL.Path, "/apis/metrics.k8s.io/v1beta1")
	namespace, ofPods := strings.CutSuffix(strings.TrimPrefix(rest, "/namespaces/"), "/pods")
	w.Header().Set("Content-Type", "application/json")
	switch {
	case found && rest == "":
		_ = json.NewEncoder(w).Encode(metav1.APIResourceList{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "APIResourceList"}, GroupVersion: "metrics.k8s.io/v1beta1",
			APIResources: []metav1.APIResource{{Name: "pods", Kind: "PodMetrics", Namespaced: true, Verbs: metav1.Verbs{"get", "list"}}},
		})
	case found && ofPods && !m.absent:
		list := metricsv1beta1.PodMetricsList{TypeMeta: metav1.TypeMeta{APIVersion: "metrics.k8s.io/v1beta1", Kind: "PodMetricsList"}}
		for name, cpu := range m.used[namespace] {
			of := metricsv1beta1.PodMetrics{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Timestamp: metav1.Now(), Window: metav1.Duration{Duration: time.Second}}
			for _, container := range []string{"c", "sidecar-of-the-host"} {
				of.Containers = append(of.Containers, metricsv1beta1.ContainerMetrics{Name: container, Usage: corev1.ResourceList{
					corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse("1Mi"),
				}})
			}
			list.Items = append(list.Items, of)
		}
		_ = json.NewEncoder(w).Encode(list)
	default:
		http.NotFound(w, req)
	}
}

// startMetrics has the host aggregate an API of metrics, as metrics-server does.
func startMetrics(ctx context.Context) *metricsAPI {
	GinkgoHelper()
	served := &metricsAPI{used: map[string]map[string]string{}}
	server := httptest.NewTLSServer(served)
	DeferCleanup(server.Close)
	at, err := url.Parse(server.URL)
	Expect(err).NotTo(HaveOccurred())
	parsed, err := strconv.ParseInt(at.Port(), 10, 32)
	Expect(err).NotTo(HaveOccurred())
	port := int32(parsed)
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "metrics-server"}, Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: at.Hostname()}}
	_, err = host.CoreV1().Services("kube-system").Create(ctx, service, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	client, err := aggregatorclient.NewForConfig(tenantry.Config(tenant.System))
	Expect(err).NotTo(HaveOccurred())
	services := client.ApiregistrationV1().APIServices()
	aggregated, err := services.Get(ctx, "v1beta1.metrics.k8s.io", metav1.GetOptions{})
	Expect(err).NotTo(HaveOccurred(), "the system space, which is the host, has none of its own pods")
	aggregated.Spec.Service = &apiregistrationv1.ServiceReference{Namespace: "kube-system", Name: "metrics-server", Port: &port}
	aggregated.Spec.InsecureSkipTLSVerify = true
	_, err = services.Update(ctx, aggregated, metav1.UpdateOptions{})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func(ctx SpecContext) { // namespaces of the host do not end while discovery fails
		Expect(services.Delete(ctx, aggregated.Name, metav1.DeleteOptions{})).To(Succeed())
		Eventually(func() error {
			_, err := host.Discovery().ServerPreferredResources()
			return err
		}).Should(Succeed())
	})
	return served
}

func metricsOf(config *rest.Config) resourceclient.PodMetricsesGetter {
	GinkgoHelper()
	client, err := resourceclient.NewForConfig(config)
	Expect(err).NotTo(HaveOccurred())
	return client
}

// usage are the names and containers of metrics with their CPU.
func usage(list *metricsv1beta1.PodMetricsList) []string {
	used := []string{}
	for _, pod := range list.Items {
		for _, c := range pod.Containers {
			used = append(used, pod.Namespace+"/"+pod.Name+"/"+c.Name+"="+c.Usage.Cpu().String())
		}
	}
	return used
}

// autoscaled is a Deployment whose pods are to use half of the processor that they ask for, and its autoscaler.
func autoscaled(name string) (*appsv1.Deployment, *autoscalingv2.HorizontalPodAutoscaler) {
	labels := map[string]string{"app": name}
	pod := plainPod("").Spec
	pod.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m")}
	return &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: pod},
		}}, &autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
			ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: name}, MaxReplicas: 5,
			Metrics: []autoscalingv2.MetricSpec{{Type: autoscalingv2.ResourceMetricSourceType, Resource: &autoscalingv2.ResourceMetricSource{
				Name: corev1.ResourceCPU, Target: autoscalingv2.MetricTarget{Type: autoscalingv2.UtilizationMetricType, AverageUtilization: new(int32(50))},
			}}},
		}}
}

var _ = Describe("Metrics of pods", Ordered, func() {
	var api *metricsAPI

	BeforeAll(func(ctx SpecContext) { api = startMetrics(ctx) })

	It("are those of the tenant's own pods and containers", func(ctx SpecContext) {
		for _, n := range []tenant.Name{acme, globex} {
			pod := plainPod("metered")
			pod.Labels = map[string]string{"app": "metered"}
			_, err := tenantry.Client(n).CoreV1().Pods("default").Create(ctx, pod, metav1.CreateOptions{})
			Expect(err).NotTo(HaveOccurred())
			there := onHost(ctx, n, "metered")
			start(ctx, there)
			api.set(there, map[tenant.Name]string{acme: "100m", globex: "200m"}[n])
			stranger := there.DeepCopy()
			stranger.Name = "stranger"
			api.set(stranger, "1")
		}
		for n, want := range map[tenant.Name]string{acme: "default/metered/c=100m", globex: "default/metered/c=200m"} {
			for _, namespace := range []string{"default", ""} {
				Eventually(func(g Gomega) {
					list, err := metricsOf(tenantry.Config(n)).PodMetricses(namespace).List(ctx, metav1.ListOptions{LabelSelector: "app=metered"})
					g.Expect(err).NotTo(HaveOccurred())
					g.Expect(usage(list)).To(ConsistOf(want))
				}).Should(Succeed(), "%s in %q", n, namespace)
			}
			one, err := metricsOf(tenantry.Config(n)).PodMetricses("default").Get(ctx, "metered", metav1.GetOptions{})
			Expect(err).NotTo(HaveOccurred())
			Expect(usage(&metricsv1beta1.PodMetricsList{Items: []metricsv1beta1.PodMetrics{*one}})).To(ConsistOf(want))
			_, err = metricsOf(tenantry.Config(n)).PodMetricses("default").Get(ctx, "stranger", metav1.GetOptions{})
			Expect(err).To(Satisfy(apierrors.IsNotFound))
		}
	})

	It("are in discovery, and need rights that the default roles have", func(ctx SpecContext) {
		client := tenantry.Client(acme)
		resources, err := client.Discovery().ServerResourcesForGroupVersion("metrics.k8s.io/v1beta1")
		Expect(err).NotTo(HaveOccurred())
		Expect(resources.APIResources).To(ConsistOf(And(HaveField("Name", "pods"), HaveField("Kind", "PodMetrics"), HaveField("Verbs", ConsistOf("get", "list")))))
		groups, err := client.Discovery().ServerGroups()
		Expect(err).NotTo(HaveOccurred())
		Expect(slices.ContainsFunc(groups.Groups, func(group metav1.APIGroup) bool { return group.Name == "metrics.k8s.io" })).To(BeTrue())

		err = client.CoreV1().RESTClient().Get().AbsPath("/apis/metrics.k8s.io/v1beta1/nodes").Do(ctx).Error()
		Expect(err).To(And(Satisfy(apierrors.IsForbidden), MatchError(ContainSubstring("nodes belong to the system space"))))

		viewer := metricsOf(tenantry.User(acme, "viewer")).PodMetricses("default")
		_, err = viewer.List(ctx, metav1.ListOptions{})
		Expect(err).To(Satisfy(apierrors.IsForbidden))
		_, err = metricsOf(tenantry.In(globex, tenantry.Config(acme))).PodMetricses("default").List(ctx, metav1.ListOptions{})
		Expect(err).To(Satisfy(apierrors.IsForbidden), "another tenant's")
		_, err = client.RbacV1().RoleBindings("default").Create(ctx, &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: "viewer"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "view"},
			Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "viewer"}},
		}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		_, err = viewer.List(ctx, metav1.ListOptions{})
		Expect(err).NotTo(HaveOccurred())
	})

	It("are unavailable where the host has none, and say so", func(ctx SpecContext) {
		api.setAbsent(true)
		DeferCleanup(api.setAbsent, false)
		_, err := metricsOf(tenantry.Config(acme)).PodMetricses("default").List(ctx, metav1.ListOptions{})
		Expect(err).To(And(Satisfy(apierrors.IsServiceUnavailable), MatchError(ContainSubstring("install metrics-server"))))
	})

	It("scale Deployments", func(ctx SpecContext) {
		used := map[tenant.Name]string{acme: "100m", globex: "50m"}
		for n, cpu := range used {
			deployment, autoscaler := autoscaled("scaled")
			made, err := tenantry.Client(n).AppsV1().Deployments("default").Create(ctx, deployment, metav1.CreateOptions{})
			Expect(err).NotTo(HaveOccurred())
			var pod *corev1.Pod
			Eventually(func(g Gomega) {
				pods, err := tenantry.Client(n).CoreV1().Pods("default").List(ctx, metav1.ListOptions{LabelSelector: "app=scaled"})
				g.Expect(err).NotTo(HaveOccurred())
				g.Expect(pods.Items).To(HaveLen(1))
				pod = &pods.Items[0]
			}).Should(Succeed())
			there := onHost(ctx, n, pod.Name)
			start(ctx, there)
			api.set(there, cpu)
			_, err = tenantry.Client(n).AutoscalingV2().HorizontalPodAutoscalers(made.Namespace).Create(ctx, autoscaler, metav1.CreateOptions{})
			Expect(err).NotTo(HaveOccurred())
			DeferCleanup(tenantry.Client(n).AutoscalingV2().HorizontalPodAutoscalers(made.Namespace).Delete, autoscaler.Name, metav1.DeleteOptions{})
		}
		for n, replicas := range map[tenant.Name]int32{acme: 2, globex: 1} {
			Eventually(func(g Gomega) {
				autoscaler, err := tenantry.Client(n).AutoscalingV2().HorizontalPodAutoscalers("default").Get(ctx, "scaled", metav1.GetOptions{})
				g.Expect(err).NotTo(HaveOccurred())
				g.Expect(autoscaler.Status.Conditions).To(ContainElement(And(HaveField("Type", autoscalingv2.ScalingActive), HaveField("Status", corev1.ConditionTrue))), "%v", autoscaler.Status.Conditions)
				g.Expect(autoscaler.Status.CurrentMetrics).NotTo(BeEmpty())
				deployment, err := tenantry.Client(n).AppsV1().Deployments("default").Get(ctx, "scaled", metav1.GetOptions{})
				g.Expect(err).NotTo(HaveOccurred())
				g.Expect(*deployment.Spec.Replicas).To(Equal(replicas))
			}).WithTimeout(suite.StartTimeout).Should(Succeed(), "%s", n)
		}
	})
})
