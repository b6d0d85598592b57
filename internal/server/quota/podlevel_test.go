package quota

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	podevaluator "k8s.io/kubernetes/pkg/quota/v1/evaluator/core"
	"k8s.io/utils/clock"
)

func cpu(n string) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(n)}
}

// TestPodLevelResources checks that a pod with resources of its own, which was resized to less, counts for what it has
// on its node.
func TestPodLevelResources(t *testing.T) {
	all := func(n string) *corev1.ResourceRequirements {
		return &corev1.ResourceRequirements{Requests: cpu(n), Limits: cpu(n)}
	}
	inContainer := []corev1.ContainerStatus{{Name: "c", AllocatedResources: cpu("8"), Resources: all("8")}}
	for name, tc := range map[string]struct {
		own              *corev1.ResourceRequirements
		status           corev1.PodStatus
		requests, limits string
	}{
		"nothing is known":      {all("1"), corev1.PodStatus{}, "1", "1"},
		"allocated":             {all("1"), corev1.PodStatus{AllocatedResources: cpu("9")}, "9", "1"},
		"actuated":              {all("1"), corev1.PodStatus{Resources: all("9")}, "9", "9"},
		"to more":               {all("10"), corev1.PodStatus{AllocatedResources: cpu("9"), Resources: all("9")}, "10", "10"},
		"by its containers":     {all("1"), corev1.PodStatus{ContainerStatuses: inContainer}, "8", "8"},
		"refused by the host":   {all("1"), corev1.PodStatus{AllocatedResources: cpu("9"), Conditions: []corev1.PodCondition{{Type: corev1.PodResizePending, Status: corev1.ConditionTrue, Reason: "RefusedByHost"}}}, "9", "1"},
		"others in containers":  {&corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("1")}}, corev1.PodStatus{ContainerStatuses: inContainer, Resources: all("99")}, "8", "8"},
		"without any of theirs": {nil, corev1.PodStatus{ContainerStatuses: inContainer}, "8", "8"},
	} {
		pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Resources: corev1.ResourceRequirements{Requests: cpu("1m"), Limits: cpu("1m")}}}, Resources: tc.own}, Status: tc.status}
		before := pod.DeepCopy()
		for _, obj := range bothVersions(t, pod) {
			used := usedBy(t, obj)
			if requests, limits := used[corev1.ResourceRequestsCPU], used[corev1.ResourceLimitsCPU]; requests.String() != tc.requests || limits.String() != tc.limits {
				t.Errorf("%s: %T uses %v and %v, want %s and %s", name, obj, &requests, &limits, tc.requests, tc.limits)
			}
		}
		if diff := cmp.Diff(before, pod); diff != "" {
			t.Errorf("%s: the pod has changed:\n%s", name, diff)
		}
	}
}

// TestConstrain checks that what a quota limits is said by a pod or by each of its containers.
func TestConstrain(t *testing.T) {
	limited := []corev1.ResourceName{corev1.ResourceRequestsCPU, corev1.ResourceLimitsMemory, corev1.ResourcePods}
	memory := corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("1")}
	for name, tc := range map[string]struct {
		own       *corev1.ResourceRequirements
		container corev1.ResourceRequirements
		want      string
	}{
		"nothing":                     {nil, corev1.ResourceRequirements{}, "must specify limits.memory for: c; requests.cpu for: c"},
		"a part by the pod":           {&corev1.ResourceRequirements{Requests: cpu("1m")}, corev1.ResourceRequirements{}, "must specify limits.memory for: c"},
		"the other by the container":  {&corev1.ResourceRequirements{Requests: cpu("1m")}, corev1.ResourceRequirements{Limits: memory}, ""},
		"all by the pod":              {&corev1.ResourceRequirements{Requests: cpu("1m"), Limits: memory}, corev1.ResourceRequirements{}, ""},
		"something else by the pod":   {&corev1.ResourceRequirements{Limits: cpu("1m")}, corev1.ResourceRequirements{}, "must specify limits.memory for: c; requests.cpu for: c"},
		"all by the container itself": {nil, corev1.ResourceRequirements{Requests: cpu("1m"), Limits: memory}, ""},
	} {
		pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Resources: tc.container}}, Resources: tc.own}}
		for _, obj := range bothVersions(t, pod) {
			got := ""
			if err := constrain(podevaluator.NewPodEvaluator(nil, clock.RealClock{}), limited, obj); err != nil {
				got = err.Error()
			}
			if got != tc.want {
				t.Errorf("%s: %T: %q, want %q", name, obj, got, tc.want)
			}
		}
	}
}
