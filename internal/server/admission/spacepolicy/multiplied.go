package spacepolicy

import (
	"fmt"
	"math"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	"k8s.io/kubernetes/pkg/apis/apps"
	"k8s.io/kubernetes/pkg/apis/autoscaling"
	"k8s.io/kubernetes/pkg/apis/batch"
	"k8s.io/kubernetes/pkg/apis/core"
	"k8s.io/kubernetes/pkg/apis/rbac"
	"k8s.io/utils/ptr"

	"github.com/tenantry/tenantry/internal/bounds"
	"github.com/tenantry/tenantry/internal/tenant"
)

// The limits of what upstream's controllers, which serve all spaces, make of an object.
const (
	// MaxReplicas are those of a StatefulSet: its controller makes all pods in memory before it
	// creates the first.
	MaxReplicas = 10_000
	// MaxReplicaBytes are those of all these pods: 13 kB for each of 10,000.
	MaxReplicaBytes = 128 << 20
	// MaxEndpoints are the addresses of Endpoints times their ports, all of which get an entry in
	// maps when they are mirrored. Upstream's controller makes 1,000 addresses at most.
	MaxEndpoints = 100_000
	// MaxServicePorts are those of a Service, which controllers multiply by its pods. With 1,000
	// addresses they make as many Endpoints as there may be.
	MaxServicePorts = 100
	// maxContainers are those of a pod, and maxRangeLimits what a LimitRange says of one.
	maxContainers  = 500
	maxRangeLimits = 600
	// maxVolumes are those of a pod, of which each takes ten times as much memory as text, in several caches.
	maxVolumes = 500
	// maxMetrics are those of a HorizontalPodAutoscaler, each of which is a request or more every 15
	// seconds.
	maxMetrics = 100
	// maxTargetBytes are those of what a HorizontalPodAutoscaler names. Its controller writes them into each event about
	// it, of which recorders keep thousands.
	maxTargetBytes = 1_000
	// maxQuotaLimits are the limits of a ResourceQuota, each of which its controller compares with all
	// others, and the values of its scopes, which it validates for each pod.
	maxQuotaLimits = 500
	// maxCustomLimits are those of resources that definitions make, which are counted in etcd, so many at once.
	maxCustomLimits = 100
	// maxDeadline are the seconds for which a Job may be active: those that there are of a pod. Its
	// controller subtracts times from it, see bounds.Value.
	maxDeadline = math.MaxInt32
	// maxScheduleBytes is several times what a schedule has that lists each minute and hour. The
	// controller of CronJobs parses it each time that it looks at one.
	maxScheduleBytes = 1_000
	// maxRoleRules are those of a ClusterRole, and maxSelection what selects those it aggregates.
	// Upstream's aggregation controller compares each rule with all others.
	maxRoleRules = 1_000
	maxSelection = 100
)

// factor is a number of an object, which has at most so many in a space.
type factor struct {
	of      func(schema.GroupResource, runtime.Object) int
	most    int
	refusal string
}

// factors are the numbers of an object that controllers multiply, or of each of which they look at all.
var factors = []factor{
	{replicasOf, MaxReplicas, "it has %d replicas, and a StatefulSet in a space at most %d; make several StatefulSets of it"},
	{of(replicaBytesOf), MaxReplicaBytes, "its replicas take %d bytes of memory, and those of a StatefulSet in a space at most %d; " +
		"have fewer, or make its template or volumeClaimTemplates shorter"},
	{of(endpointsOf), MaxEndpoints, "it has %d endpoints, which are addresses times ports, and Endpoints in a space at most %d; use EndpointSlices"},
	{of(portsOf), MaxServicePorts, "it has %d ports, and a Service in a space at most %d; make several Services of it"},
	{of(containersOf), maxContainers, "it has %d containers, and a pod in a space at most %d; make several pods of it"},
	{of(volumesOf), maxVolumes, "it has %d volumes, and a pod in a space at most %d; use projected volumes, or several pods"},
	{of(rangeLimitsOf), maxRangeLimits, "it says %d things of a container, which has defaults for one another, and a LimitRange in a space at most %d; leave out resources that nobody uses"},
	{of(metricsOf), maxMetrics, "it has %d metrics, and a HorizontalPodAutoscaler in a space at most %d; use fewer"},
	{of(targetBytes), maxTargetBytes, "one of the objects or metrics that it names has a name, kind, version and selector of %d bytes, and that of a HorizontalPodAutoscaler in a space at most %d; name what there is"},
	{deadlineOf, maxDeadline, "it has an activeDeadlineSeconds of %d, and a Job in a space one of at most %d; leave it out, or use less"},
	{of(limitsOfQuota), maxQuotaLimits, "it has %d limits and values of scopes, and a ResourceQuota in a space at most %d; make several of it"},
	{of(customLimitsOfQuota), maxCustomLimits, "it limits %d custom resources, and a ResourceQuota in a space at most %d; make several of it"},
	{requirementsOf, maxRequirements, "a label selector in it has %d requirements, and one in a space at most %d; use fewer labels"},
	{valuesOf, maxSelectorValues, "a label selector in it has %d values, and one in a space at most %d; use a label that has the same value for all of them"},
	{selectorBytesOf, maxSelectorBytes, "a label selector in it has a key or value of %d bytes, and one in a space at most %d; labels have no longer ones"},
	{of(scheduleBytes), maxScheduleBytes, "its schedule has %d bytes, and that of a CronJob in a space at most %d; make several CronJobs of it"},
	{of(rulesOfRole), maxRoleRules, "it has %d rules, and a ClusterRole in a space at most %d; make several ClusterRoles of it"},
	{of(selectionOfRole), maxSelection, "its aggregationRule has %d selectors, labels and values, and that of a ClusterRole in a space at most %d; " +
		"give the ClusterRoles that it selects a label of their own"},
}

// of makes a number of objects of one type, which is zero for others.
func of[T runtime.Object](number func(T) int) func(schema.GroupResource, runtime.Object) int {
	return func(_ schema.GroupResource, obj runtime.Object) int {
		if typed, ok := obj.(T); ok {
			return number(typed)
		}
		return 0
	}
}

// CheckBounds refuses objects in the space of n with too long lists and maps, which a patch may have
// made of a short body, those of which a controller would make too much, and custom resources
// that take long to validate, or whose errors would take much memory. It is called before
// upstream validates, and again when webhooks and policies of the tenant have changed the
// object.
func (d Definitions) CheckBounds(a admission.Attributes, n tenant.Name) error {
	if a.GetObject() == nil {
		return nil
	}
	if err := bounds.Value(a.GetObject()); err != nil {
		return admission.NewForbidden(a, err)
	}
	for _, check := range []func(admission.Attributes) error{checkFactors, checkRevision} {
		if err := check(a); err != nil {
			return err
		}
	}
	return d.checkCustomResource(a, n)
}

// checkFactors refuses an object of which a controller would make too much. What is beyond a
// limit already may stay, so that the object can be changed otherwise, and deleted.
func checkFactors(a admission.Attributes) error {
	resource := a.GetResource().GroupResource()
	for _, f := range factors {
		if is := f.of(resource, a.GetObject()); is > f.most && is > f.of(resource, a.GetOldObject()) {
			return forbidden(a, fmt.Sprintf(f.refusal, is, f.most))
		}
	}
	return nil
}

func scheduleBytes(job *batch.CronJob) int { return len(job.Spec.Schedule) }

func rulesOfRole(role *rbac.ClusterRole) int { return len(role.Rules) }

func selectionOfRole(role *rbac.ClusterRole) (count int) {
	if role.AggregationRule != nil {
		for _, selector := range role.AggregationRule.ClusterRoleSelectors {
			count += 1 + len(selector.MatchLabels) + len(selector.MatchExpressions)
			for _, expression := range selector.MatchExpressions {
				count += len(expression.Values)
			}
		}
	}
	return count
}

var statefulSets = apps.Resource("statefulsets")

func replicasOf(of schema.GroupResource, obj runtime.Object) int {
	switch o := obj.(type) {
	case *apps.StatefulSet:
		return int(o.Spec.Replicas)
	case *autoscaling.Scale:
		if of == statefulSets {
			return int(o.Spec.Replicas)
		}
	}
	return 0
}

func replicaBytesOf(set *apps.StatefulSet) int {
	return int(set.Spec.Replicas) * ReplicaBytes(set.Spec.Template, set.Spec.VolumeClaimTemplates, set.Spec.Selector)
}

func endpointsOf(endpoints *core.Endpoints) (count int) {
	for _, s := range endpoints.Subsets {
		count += (len(s.Addresses) + len(s.NotReadyAddresses)) * max(1, len(s.Ports))
	}
	return count
}

func containersOf(pod *core.Pod) int {
	return len(pod.Spec.InitContainers) + len(pod.Spec.Containers) + len(pod.Spec.EphemeralContainers)
}

func volumesOf(pod *core.Pod) int { return len(pod.Spec.Volumes) }

func rangeLimitsOf(limits *core.LimitRange) (count int) {
	for i := range limits.Spec.Limits {
		item := &limits.Spec.Limits[i]
		count += thingsOf(item.Default, item.DefaultRequest, item.Max, item.Min, item.MaxLimitRequestRatio)
	}
	return count
}

func metricsOf(autoscaler *autoscaling.HorizontalPodAutoscaler) int {
	return len(autoscaler.Spec.Metrics)
}

// targetBytes returns how long the longest name of an object, or of a metric with its selector, is that an autoscaler
// has.
func targetBytes(autoscaler *autoscaling.HorizontalPodAutoscaler) int {
	named := func(ref autoscaling.CrossVersionObjectReference) int {
		return len(ref.Kind) + len(ref.Name) + len(ref.APIVersion)
	}
	most := named(autoscaler.Spec.ScaleTargetRef)
	for i := range autoscaler.Spec.Metrics {
		metric := &autoscaler.Spec.Metrics[i]
		if metric.Object != nil {
			most = max(most, named(metric.Object.DescribedObject), metricBytes(&metric.Object.Metric))
		}
		if metric.Pods != nil {
			most = max(most, metricBytes(&metric.Pods.Metric))
		}
		if metric.External != nil {
			most = max(most, metricBytes(&metric.External.Metric))
		}
	}
	return most
}

// metricBytes returns how long the name of a metric and its selector are.
func metricBytes(metric *autoscaling.MetricIdentifier) int {
	bytes := len(metric.Name)
	if metric.Selector != nil {
		bytes += metric.Selector.Size()
	}
	return bytes
}

func deadlineOf(_ schema.GroupResource, obj runtime.Object) int {
	switch o := obj.(type) {
	case *batch.Job:
		return int(ptr.Deref(o.Spec.ActiveDeadlineSeconds, 0))
	case *batch.CronJob:
		return int(ptr.Deref(o.Spec.JobTemplate.Spec.ActiveDeadlineSeconds, 0))
	}
	return 0
}

func limitsOfQuota(quota *core.ResourceQuota) int {
	count := len(quota.Spec.Hard)
	if quota.Spec.ScopeSelector != nil {
		for _, scope := range quota.Spec.ScopeSelector.MatchExpressions {
			count += len(scope.Values)
		}
	}
	return count
}

// customLimitsOfQuota returns how many limits of a quota are of resources that are not built in.
func customLimitsOfQuota(quota *core.ResourceQuota) (count int) {
	for name := range quota.Spec.Hard {
		counted, isCount := strings.CutPrefix(string(name), "count/")
		if isCount && !legacyscheme.Scheme.IsGroupRegistered(schema.ParseGroupResource(counted).Group) {
			count++
		}
	}
	return count
}

func portsOf(service *core.Service) int { return len(service.Spec.Ports) }
