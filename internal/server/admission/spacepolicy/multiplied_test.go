package spacepolicy

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/kubernetes/pkg/apis/admissionregistration"
	"k8s.io/kubernetes/pkg/apis/apps"
	_ "k8s.io/kubernetes/pkg/apis/apps/install"
	"k8s.io/kubernetes/pkg/apis/autoscaling"
	"k8s.io/kubernetes/pkg/apis/batch"
	"k8s.io/kubernetes/pkg/apis/core"
	_ "k8s.io/kubernetes/pkg/apis/core/install"
	"k8s.io/kubernetes/pkg/apis/rbac"
)

// scaling is an autoscaler whose target has a kind of so many bytes, and describing one with a metric of an object that
// has such a name.
func scaling(bytes int) *autoscaling.HorizontalPodAutoscaler {
	return &autoscaling.HorizontalPodAutoscaler{Spec: autoscaling.HorizontalPodAutoscalerSpec{ScaleTargetRef: autoscaling.CrossVersionObjectReference{Kind: strings.Repeat("k", bytes)}}}
}

func describing(bytes int) *autoscaling.HorizontalPodAutoscaler {
	described := autoscaling.CrossVersionObjectReference{Name: strings.Repeat("n", bytes)}
	return &autoscaling.HorizontalPodAutoscaler{Spec: autoscaling.HorizontalPodAutoscalerSpec{Metrics: []autoscaling.MetricSpec{
		{Object: &autoscaling.ObjectMetricSource{DescribedObject: described}}, {Pods: &autoscaling.PodsMetricSource{}}, {External: &autoscaling.ExternalMetricSource{}},
	}}}
}

// TestFactors checks each bound of what controllers multiply or look at, by an object that is at it and
// one that is beyond.
func TestFactors(t *testing.T) {
	set := func(replicas int32) *apps.StatefulSet {
		return &apps.StatefulSet{Spec: apps.StatefulSetSpec{Replicas: replicas}}
	}
	scale := func(replicas int32) *autoscaling.Scale {
		return &autoscaling.Scale{Spec: autoscaling.ScaleSpec{Replicas: replicas}}
	}
	// large is a set of a thousand replicas that take all that they may, and some bytes.
	empty := ReplicaBytes(core.PodTemplateSpec{}, []core.PersistentVolumeClaim(nil), (*metav1.LabelSelector)(nil))
	large := func(more int) *apps.StatefulSet {
		large := set(1024)
		large.Spec.Template.Spec.Hostname = strings.Repeat("a", MaxReplicaBytes/1024-empty+more)
		return large
	}
	// endpoints have 300 addresses with 300 ports, 9,999 without, and one more for each.
	endpoints := func(more int) *core.Endpoints {
		return &core.Endpoints{Subsets: []core.EndpointSubset{
			{Addresses: make([]core.EndpointAddress, 100), NotReadyAddresses: make([]core.EndpointAddress, 200), Ports: make([]core.EndpointPort, 300)},
			{Addresses: make([]core.EndpointAddress, 9_999)},
			{NotReadyAddresses: make([]core.EndpointAddress, 1+more)},
		}}
	}
	// selector has a label, and expressions with so many values each.
	selector := func(expressions, values int) *metav1.LabelSelector {
		return &metav1.LabelSelector{
			MatchLabels:      map[string]string{"k": "v"},
			MatchExpressions: slices.Repeat([]metav1.LabelSelectorRequirement{{Values: make([]string, values)}}, expressions),
		}
	}
	external := func(bytes ...int) *autoscaling.HorizontalPodAutoscaler {
		said := metav1.LabelSelector{MatchLabels: map[string]string{}}
		for i, bytes := range bytes {
			said.MatchLabels[string(rune('a'+i))] = strings.Repeat("v", bytes)
		}
		return &autoscaling.HorizontalPodAutoscaler{Spec: autoscaling.HorizontalPodAutoscalerSpec{Metrics: []autoscaling.MetricSpec{
			{External: &autoscaling.ExternalMetricSource{Metric: autoscaling.MetricIdentifier{Selector: &said}}},
		}}}
	}
	aggregates := func(selectors ...metav1.LabelSelector) *rbac.ClusterRole {
		return &rbac.ClusterRole{AggregationRule: &rbac.AggregationRule{ClusterRoleSelectors: selectors}}
	}
	webhooks := func(of *metav1.LabelSelector) *admissionregistration.ValidatingWebhookConfiguration {
		return &admissionregistration.ValidatingWebhookConfiguration{Webhooks: []admissionregistration.ValidatingWebhook{{}, {NamespaceSelector: of}}}
	}
	policy := func(of *metav1.LabelSelector) *admissionregistration.ValidatingAdmissionPolicy {
		return &admissionregistration.ValidatingAdmissionPolicy{Spec: admissionregistration.ValidatingAdmissionPolicySpec{
			MatchConstraints: &admissionregistration.MatchResources{ObjectSelector: of},
		}}
	}
	labels := func(count int) map[string]string {
		labels := map[string]string{}
		for i := range count {
			labels[strconv.Itoa(i)] = ""
		}
		return labels
	}
	for name, tc := range map[string]struct {
		resource   schema.GroupResource
		most, more runtime.Object
		refusal    string
	}{
		"replicas": {
			most: set(10_000), more: set(10_001),
			refusal: `statefulsets.apps "x" is forbidden: SpacePolicy: it has 10001 replicas, and a StatefulSet in a space at most 10000; make several StatefulSets of it`,
		},
		"scale": {
			most: scale(10_000), more: scale(10_001),
			refusal: `statefulsets.apps "x" is forbidden: SpacePolicy: it has 10001 replicas, and a StatefulSet in a space at most 10000; make several StatefulSets of it`,
		},
		"scale of another resource": {resource: apps.Resource("deployments"), most: scale(1<<31 - 1)},
		"bytes of replicas": {
			most: large(0), more: large(1),
			refusal: `statefulsets.apps "x" is forbidden: SpacePolicy: its replicas take 134218752 bytes of memory, and those of a StatefulSet in a space at most 134217728; ` +
				`have fewer, or make its template or volumeClaimTemplates shorter`,
		},
		"endpoints": {
			resource: core.Resource("endpoints"), most: endpoints(0), more: endpoints(1),
			refusal: `endpoints "x" is forbidden: SpacePolicy: it has 100001 endpoints, which are addresses times ports, and Endpoints in a space at most 100000; use EndpointSlices`,
		},
		"ports": {
			resource: core.Resource("services"), most: &core.Service{Spec: core.ServiceSpec{Ports: make([]core.ServicePort, 100)}},
			more:    &core.Service{Spec: core.ServiceSpec{Ports: make([]core.ServicePort, 101)}},
			refusal: `services "x" is forbidden: SpacePolicy: it has 101 ports, and a Service in a space at most 100; make several Services of it`,
		},
		"containers": {
			resource: core.Resource("pods"), most: &core.Pod{Spec: core.PodSpec{Containers: make([]core.Container, 250), InitContainers: make([]core.Container, 250)}},
			more:    &core.Pod{Spec: core.PodSpec{Containers: make([]core.Container, 400), EphemeralContainers: make([]core.EphemeralContainer, 101)}},
			refusal: `pods "x" is forbidden: SpacePolicy: it has 501 containers, and a pod in a space at most 500; make several pods of it`,
		},
		"volumes": {
			resource: core.Resource("pods"), most: &core.Pod{Spec: core.PodSpec{Volumes: make([]core.Volume, 500)}},
			more:    &core.Pod{Spec: core.PodSpec{Volumes: make([]core.Volume, 501)}},
			refusal: `pods "x" is forbidden: SpacePolicy: it has 501 volumes, and a pod in a space at most 500; use projected volumes, or several pods`,
		},
		"limits of a range": {
			resource: core.Resource("limitranges"), most: &core.LimitRange{Spec: core.LimitRangeSpec{Limits: make([]core.LimitRangeItem, 600)}},
			more: &core.LimitRange{Spec: core.LimitRangeSpec{Limits: append(make([]core.LimitRangeItem, 599), core.LimitRangeItem{Max: core.ResourceList{"a": {}}})}},
			refusal: `limitranges "x" is forbidden: SpacePolicy: it says 601 things of a container, which has defaults for one another, and a LimitRange in a space at most 600; ` +
				`leave out resources that nobody uses`,
		},
		"the target of an autoscaler": {
			resource: autoscaling.Resource("horizontalpodautoscalers"), most: scaling(1000), more: scaling(1001),
			refusal: `horizontalpodautoscalers.autoscaling "x" is forbidden: SpacePolicy: one of the objects or metrics that it names has a name, kind, version and selector of 1001 bytes, ` +
				`and that of a HorizontalPodAutoscaler in a space at most 1000; name what there is`,
		},
		"what a metric is about": {
			resource: autoscaling.Resource("horizontalpodautoscalers"), most: describing(1000), more: describing(1001),
			refusal: `horizontalpodautoscalers.autoscaling "x" is forbidden: SpacePolicy: one of the objects or metrics that it names has a name, kind, version and selector of 1001 bytes, ` +
				`and that of a HorizontalPodAutoscaler in a space at most 1000; name what there is`,
		},
		"what selects a metric": {
			resource: autoscaling.Resource("horizontalpodautoscalers"), most: external(317, 317, 317, 15), more: external(317, 317, 317, 16),
			refusal: `horizontalpodautoscalers.autoscaling "x" is forbidden: SpacePolicy: one of the objects or metrics that it names has a name, kind, version and selector of 1001 bytes, ` +
				`and that of a HorizontalPodAutoscaler in a space at most 1000; name what there is`,
		},
		"metrics": {
			resource: autoscaling.Resource("horizontalpodautoscalers"),
			most:     &autoscaling.HorizontalPodAutoscaler{Spec: autoscaling.HorizontalPodAutoscalerSpec{Metrics: make([]autoscaling.MetricSpec, 100)}},
			more:     &autoscaling.HorizontalPodAutoscaler{Spec: autoscaling.HorizontalPodAutoscalerSpec{Metrics: make([]autoscaling.MetricSpec, 101)}},
			refusal: `horizontalpodautoscalers.autoscaling "x" is forbidden: SpacePolicy: it has 101 metrics, and a HorizontalPodAutoscaler in a space at most 100; ` +
				`use fewer`,
		},
		"limits of a quota": {
			resource: core.Resource("resourcequotas"), most: quotaOf(400, 100), more: quotaOf(401, 100),
			refusal: `resourcequotas "x" is forbidden: SpacePolicy: it has 501 limits and values of scopes, and a ResourceQuota in a space at most 500; make several of it`,
		},
		"custom limits of a quota": {
			resource: core.Resource("resourcequotas"), most: customQuotaOf(100), more: customQuotaOf(101),
			refusal: `resourcequotas "x" is forbidden: SpacePolicy: it limits 101 custom resources, and a ResourceQuota in a space at most 100; make several of it`,
		},
		"the deadline of a Job": {
			resource: batch.Resource("jobs"), most: &batch.Job{Spec: batch.JobSpec{ActiveDeadlineSeconds: new(int64(math.MaxInt32))}},
			more: &batch.Job{Spec: batch.JobSpec{ActiveDeadlineSeconds: new(int64(math.MaxInt32) + 1)}},
			refusal: `jobs.batch "x" is forbidden: SpacePolicy: it has an activeDeadlineSeconds of 2147483648, and a Job in a space one of at most 2147483647; ` +
				`leave it out, or use less`,
		},
		"the deadline of Jobs": {
			resource: batch.Resource("cronjobs"), most: &batch.CronJob{},
			more: &batch.CronJob{Spec: batch.CronJobSpec{JobTemplate: batch.JobTemplateSpec{Spec: batch.JobSpec{ActiveDeadlineSeconds: new(int64(math.MaxInt64))}}}},
			refusal: `cronjobs.batch "x" is forbidden: SpacePolicy: it has an activeDeadlineSeconds of 9223372036854775807, and a Job in a space one of at most 2147483647; ` +
				`leave it out, or use less`,
		},
		"the schedule of a CronJob": {
			resource: batch.Resource("cronjobs"), most: &batch.CronJob{Spec: batch.CronJobSpec{Schedule: strings.Repeat("0", 1_000)}},
			more:    &batch.CronJob{Spec: batch.CronJobSpec{Schedule: strings.Repeat("0", 1_001)}},
			refusal: `cronjobs.batch "x" is forbidden: SpacePolicy: its schedule has 1001 bytes, and that of a CronJob in a space at most 1000; make several CronJobs of it`,
		},
		"rules of a role": {
			resource: rbac.Resource("clusterroles"), most: &rbac.ClusterRole{Rules: make([]rbac.PolicyRule, 1_000)},
			more:    &rbac.ClusterRole{Rules: make([]rbac.PolicyRule, 1_001)},
			refusal: `clusterroles.rbac.authorization.k8s.io "x" is forbidden: SpacePolicy: it has 1001 rules, and a ClusterRole in a space at most 1000; make several ClusterRoles of it`,
		},
		"selectors of a role": {
			resource: rbac.Resource("clusterroles"), most: aggregates(make([]metav1.LabelSelector, 100)...), more: aggregates(make([]metav1.LabelSelector, 101)...),
			refusal: `clusterroles.rbac.authorization.k8s.io "x" is forbidden: SpacePolicy: its aggregationRule has 101 selectors, labels and values, ` +
				`and that of a ClusterRole in a space at most 100; give the ClusterRoles that it selects a label of their own`,
		},
		"labels and values of these": {
			resource: rbac.Resource("clusterroles"), most: aggregates(*selector(1, 97)), more: aggregates(*selector(1, 98)),
			refusal: `clusterroles.rbac.authorization.k8s.io "x" is forbidden: SpacePolicy: its aggregationRule has 101 selectors, labels and values, ` +
				`and that of a ClusterRole in a space at most 100; give the ClusterRoles that it selects a label of their own`,
		},
		"requirements of a selector": {
			resource: apps.Resource("replicasets"), most: &apps.ReplicaSet{Spec: apps.ReplicaSetSpec{Selector: selector(31, 1)}},
			more:    &apps.ReplicaSet{Spec: apps.ReplicaSetSpec{Selector: selector(32, 1)}},
			refusal: `replicasets.apps "x" is forbidden: SpacePolicy: a label selector in it has 33 requirements, and one in a space at most 32; use fewer labels`,
		},
		"values of a selector": {
			resource: apps.Resource("replicasets"), most: &apps.ReplicaSet{Spec: apps.ReplicaSetSpec{Selector: selector(2, 50)}},
			more: &apps.ReplicaSet{Spec: apps.ReplicaSetSpec{Selector: selector(2, 51)}},
			refusal: `replicasets.apps "x" is forbidden: SpacePolicy: a label selector in it has 102 values, and one in a space at most 100; ` +
				`use a label that has the same value for all of them`,
		},
		"bytes of a selector": {
			resource: autoscaling.Resource("horizontalpodautoscalers"), most: external(317), more: external(318),
			refusal: `horizontalpodautoscalers.autoscaling "x" is forbidden: SpacePolicy: ` +
				`a label selector in it has a key or value of 318 bytes, and one in a space at most 317; labels have no longer ones`,
		},
		"a webhook": {
			resource: admissionregistration.Resource("validatingwebhookconfigurations"), most: webhooks(selector(31, 0)), more: webhooks(selector(32, 0)),
			refusal: `validatingwebhookconfigurations.admissionregistration.k8s.io "x" is forbidden: SpacePolicy: ` +
				`a label selector in it has 33 requirements, and one in a space at most 32; use fewer labels`,
		},
		"a policy": {
			resource: admissionregistration.Resource("validatingadmissionpolicies"), most: policy(selector(31, 0)), more: policy(selector(32, 0)),
			refusal: `validatingadmissionpolicies.admissionregistration.k8s.io "x" is forbidden: SpacePolicy: ` +
				`a label selector in it has 33 requirements, and one in a space at most 32; use fewer labels`,
		},
		"an aggregated role": {
			resource: rbac.Resource("clusterroles"),
			most:     aggregates(*selector(31, 0)), more: aggregates(*selector(32, 0)),
			refusal: `clusterroles.rbac.authorization.k8s.io "x" is forbidden: SpacePolicy: ` +
				`a label selector in it has 33 requirements, and one in a space at most 32; use fewer labels`,
		},
		"the selector of a Service": {
			resource: core.Resource("services"), most: &core.Service{Spec: core.ServiceSpec{Selector: labels(32)}}, more: &core.Service{Spec: core.ServiceSpec{Selector: labels(33)}},
			refusal: `services "x" is forbidden: SpacePolicy: a label selector in it has 33 requirements, and one in a space at most 32; use fewer labels`,
		},
		"the selector of a ReplicationController": {
			resource: core.Resource("replicationcontrollers"), most: &core.ReplicationController{Spec: core.ReplicationControllerSpec{Selector: labels(32)}},
			more:    &core.ReplicationController{Spec: core.ReplicationControllerSpec{Selector: labels(33)}},
			refusal: `replicationcontrollers "x" is forbidden: SpacePolicy: a label selector in it has 33 requirements, and one in a space at most 32; use fewer labels`,
		},
		"labels that are no selector": {most: &core.ConfigMap{Data: labels(33)}},
	} {
		t.Run(name, func(t *testing.T) {
			if tc.resource.Empty() {
				tc.resource = statefulSets
			}
			check := func(object, old runtime.Object) string {
				operation := admission.Create
				if old != nil {
					operation = admission.Update
				}
				a := admission.NewAttributesRecord(object, old, schema.GroupVersionKind{}, "ns", "x", tc.resource.WithVersion("v1"), "", operation, nil, false, member)
				if err := Definitions(nil).CheckBounds(a, "a"); err != nil {
					return err.Error()
				}
				return ""
			}
			if got := check(tc.most, nil); got != "" {
				t.Errorf("at the bound: %s", got)
			}
			if tc.more == nil {
				return
			}
			if got := check(tc.more, nil); got != tc.refusal {
				t.Errorf("a new one beyond the bound: got %q, want %q", got, tc.refusal)
			}
			if got := check(tc.more, tc.most); got != tc.refusal {
				t.Errorf("changed to one beyond the bound: got %q, want %q", got, tc.refusal)
			}
			if got := check(tc.more, tc.more); got != "" {
				t.Errorf("one that was stored so: %s", got)
			}
		})
	}
}

// quotaOf returns a quota with so many limits and values of scopes.
func quotaOf(limits, values int) *core.ResourceQuota {
	q := &core.ResourceQuota{Spec: core.ResourceQuotaSpec{Hard: core.ResourceList{}, ScopeSelector: &core.ScopeSelector{
		MatchExpressions: []core.ScopedResourceSelectorRequirement{{Values: make([]string, values)}}}}}
	for i := range limits {
		q.Spec.Hard[core.ResourceName(strconv.Itoa(i))] = resource.Quantity{}
	}
	return q
}

// customQuotaOf returns a quota with so many limits of custom resources, and one more of each other kind.
func customQuotaOf(limits int) *core.ResourceQuota {
	q := &core.ResourceQuota{Spec: core.ResourceQuotaSpec{Hard: core.ResourceList{
		"pods": {}, "count/deployments.apps": {}, "count/configmaps": {}, "requests.x.io/gpu": {}}}}
	for i := range limits {
		q.Spec.Hard[core.ResourceName(fmt.Sprintf("count/r%d.x.io", i))] = resource.Quantity{}
	}
	return q
}
