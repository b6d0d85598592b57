package connect

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apiserver/pkg/registry/rest"
	genericapiserver "k8s.io/apiserver/pkg/server"
	podutil "k8s.io/kubernetes/pkg/api/pod"
	"k8s.io/kubernetes/pkg/apis/core"
	"k8s.io/metrics/pkg/apis/metrics"
	metricsv1beta1 "k8s.io/metrics/pkg/apis/metrics/v1beta1"
	resourceclient "k8s.io/metrics/pkg/client/clientset/versioned/typed/metrics/v1beta1"

	"github.com/tenantry/tenantry/internal/process/keyed"
	"github.com/tenantry/tenantry/internal/tenant"
	"github.com/tenantry/tenantry/internal/workloads/names"
)

// MetricsScheme has the types of metrics.k8s.io. Upstream's scheme of built-in resources has them not: where no pods
// run, the group is no built-in one.
var MetricsScheme = newMetricsScheme()

func newMetricsScheme() *runtime.Scheme {
	scheme := runtime.NewScheme()
	utilruntime.Must(metrics.AddToScheme(scheme))
	utilruntime.Must(metricsv1beta1.AddToScheme(scheme))
	unversioned := schema.GroupVersion{Version: "v1"}
	metav1.AddToGroupVersion(scheme, unversioned)
	scheme.AddUnversionedTypes(unversioned, &metav1.Status{}, &metav1.APIVersions{}, &metav1.APIGroupList{}, &metav1.APIGroup{}, &metav1.APIResourceList{})
	return scheme
}

// maxMetrics is how many requests for metrics of a tenant ask the host at once, from each server.
const maxMetrics = 10

// Metrics serves what the pods of spaces use of the host, metrics.k8s.io. Nothing of it is kept: each request asks the
// host for the namespaces that the space's own pods are in.
type Metrics struct {
	rest.TableConvertor
	host *host
	// pods lists those of the request's space.
	pods   rest.Lister
	used   resourceclient.PodMetricsesGetter
	asking streams
}

var (
	_ rest.Getter               = &Metrics{}
	_ rest.Lister               = &Metrics{}
	_ rest.Scoper               = &Metrics{}
	_ rest.SingularNameProvider = &Metrics{}
)

func newMetrics(h *host, pods rest.Lister) (*Metrics, error) {
	used, err := resourceclient.NewForConfig(asking(h.config.Host))
	if err != nil {
		return nil, fmt.Errorf("creating the client of the host cluster's metrics: %w", err)
	}
	return &Metrics{rest.NewDefaultTableConvertor(metricsv1beta1.Resource("pods")), h, pods, used, streams{most: maxMetrics}}, nil
}

// Group returns the API group that serves them.
func (m *Metrics) Group() genericapiserver.APIGroupInfo {
	group := genericapiserver.NewDefaultAPIGroupInfo(metrics.GroupName, MetricsScheme, runtime.NewParameterCodec(MetricsScheme), serializer.NewCodecFactory(MetricsScheme))
	group.VersionedResourcesStorageMap[metricsv1beta1.SchemeGroupVersion.Version] = map[string]rest.Storage{"pods": m}
	return group
}

// New and Destroy implement rest.Storage.
func (*Metrics) New() runtime.Object { return &metrics.PodMetrics{} }
func (*Metrics) Destroy()            {}

// NewList implements rest.Lister.
func (*Metrics) NewList() runtime.Object { return &metrics.PodMetricsList{} }

// NamespaceScoped implements rest.Scoper.
func (*Metrics) NamespaceScoped() bool { return true }

// GetSingularName implements rest.SingularNameProvider. A pod is something else.
func (*Metrics) GetSingularName() string { return "" }

// Get implements rest.Getter.
func (m *Metrics) Get(ctx context.Context, name string, _ *metav1.GetOptions) (runtime.Object, error) {
	found, err := m.list(ctx, &metainternalversion.ListOptions{FieldSelector: fields.OneTermEqualSelector(metav1.ObjectNameField, name)})
	if err != nil {
		return nil, err
	}
	if len(found.Items) == 0 {
		return nil, apierrors.NewNotFound(metricsv1beta1.Resource("pods"), name)
	}
	return &found.Items[0], nil
}

// List implements rest.Lister. There are no pages.
func (m *Metrics) List(ctx context.Context, options *metainternalversion.ListOptions) (runtime.Object, error) {
	return m.list(ctx, options)
}

func (m *Metrics) list(ctx context.Context, options *metainternalversion.ListOptions) (*metrics.PodMetricsList, error) {
	list := &metrics.PodMetricsList{Items: []metrics.PodMetrics{}}
	n, err := tenant.SpaceFrom(ctx)
	if err != nil {
		return nil, apierrors.NewBadRequest("metrics of pods are those of one tenant; name it")
	}
	if !n.IsSpace() {
		return list, nil // its pods do not run on the host
	}
	end, ok := m.asking.begin(n)
	if !ok {
		return nil, apierrors.NewTooManyRequests(fmt.Sprintf("%d requests for metrics of the tenant are under way on this server, which is the most", maxMetrics), 1)
	}
	defer end()
	pods, err := m.running(ctx, options)
	if err != nil {
		return nil, err
	}
	for _, namespace := range slices.Sorted(maps.Keys(pods)) {
		home, err := m.host.config.HomeOf(ctx, n, namespace)
		if err != nil {
			return nil, apierrors.NewInternalError(err)
		}
		found, err := m.of(ctx, home, pods[namespace], hostListOptions(options))
		if err != nil {
			return nil, err
		}
		list.Items = append(list.Items, found...)
	}
	return list, nil
}

// running returns the pods of the request's space that may use something, by namespace and name.
func (m *Metrics) running(ctx context.Context, options *metainternalversion.ListOptions) (map[string]map[string]*core.Pod, error) {
	// The cache's are good enough: whose the host's are is decided by UIDs.
	found, err := m.pods.List(ctx, &metainternalversion.ListOptions{LabelSelector: options.LabelSelector, FieldSelector: options.FieldSelector, ResourceVersion: "0"})
	if err != nil {
		return nil, err
	}
	list, ok := found.(*core.PodList)
	if !ok {
		return nil, fmt.Errorf("unexpected list of pods %T", found)
	}
	pods := map[string]map[string]*core.Pod{}
	for i := range list.Items {
		pod := &list.Items[i]
		if pod.Spec.NodeName == "" || pod.Status.Phase == core.PodSucceeded || pod.Status.Phase == core.PodFailed {
			continue
		}
		keyed.Set(pods, pod.Namespace, pod.Name, pod)
	}
	return pods, nil
}

// hostListOptions returns options for lists of the host, which leave no pod out that those of the space have: the
// host's have the same names and labels, but none of ours.
func hostListOptions(options *metainternalversion.ListOptions) metav1.ListOptions {
	var on metav1.ListOptions
	if options.FieldSelector != nil {
		if name, ok := options.FieldSelector.RequiresExactMatch(metav1.ObjectNameField); ok {
			on.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, name).String()
		}
	}
	if options.LabelSelector == nil {
		return on
	}
	same := labels.NewSelector()
	requirements, _ := options.LabelSelector.Requirements()
	for _, requirement := range requirements {
		if !strings.HasPrefix(requirement.Key(), names.Prefix) {
			same = same.Add(requirement)
		}
	}
	on.LabelSelector = same.String()
	return on
}

// of returns what pods of one namespace use on the host.
func (m *Metrics) of(ctx context.Context, home names.Namespace, pods map[string]*core.Pod, options metav1.ListOptions) ([]metrics.PodMetrics, error) {
	there, err := m.host.pods.Namespace(home.Host()).List(ctx, options)
	if err != nil {
		return nil, unavailable(err)
	}
	made := map[string]metav1.Time{}
	for i := range there.Items {
		if on := &there.Items[i]; pods[on.Name] != nil && isOf(on, home, pods[on.Name]) {
			made[on.Name] = on.CreationTimestamp
		}
	}
	if len(made) == 0 {
		return nil, nil
	}
	used, err := m.used.PodMetricses(home.Host()).List(ctx, options)
	if err != nil {
		return nil, unavailable(err)
	}
	var found []metrics.PodMetrics
	for i := range used.Items {
		by := &used.Items[i]
		since, ours := made[by.Name]
		if !ours || by.Timestamp.Before(&since) { // of a pod that had the name before
			continue
		}
		if shown := asInSpace(by, pods[by.Name], home); len(shown.Containers) > 0 {
			found = append(found, shown)
		}
	}
	return found, nil
}

// unavailable returns the error of a request that the host has not answered. Texts of the host have its names.
func unavailable(err error) error {
	switch {
	case apierrors.IsNotFound(err):
		return apierrors.NewServiceUnavailable("the host cluster, which runs the pods, has no metrics (metrics.k8s.io/v1beta1): an administrator of it is to install metrics-server")
	case apierrors.IsForbidden(err):
		return apierrors.NewServiceUnavailable("the host cluster, which runs the pods, does not let this server read their metrics: an administrator of it is to apply config/workloads again")
	default:
		return apierrors.NewServiceUnavailable("the host cluster, which runs the pods, or its metrics (metrics.k8s.io), cannot be reached")
	}
}

// asInSpace returns what the host says that a pod uses, by the names of the space. The host's pod may have further
// containers, which its administrators and webhooks have put into it: those are not the tenant's.
func asInSpace(used *metricsv1beta1.PodMetrics, pod *core.Pod, home names.Namespace) metrics.PodMetrics {
	called := map[string]string{}
	for c, kind := range podutil.ContainerIter(&pod.Spec, podutil.AllContainers) {
		called[hostContainerName(c.Name, kind)] = c.Name
	}
	shown := metrics.PodMetrics{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: pod.Namespace, Name: pod.Name, Labels: pod.Labels, CreationTimestamp: used.CreationTimestamp,
			Annotations: map[string]string{tenant.Annotation: string(home.Tenant)},
		},
		Timestamp: used.Timestamp, Window: used.Window,
	}
	for _, c := range used.Containers {
		if name, ok := called[c.Name]; ok {
			shown.Containers = append(shown.Containers, metrics.ContainerMetrics{Name: name, Usage: c.Usage})
		}
	}
	return shown
}
