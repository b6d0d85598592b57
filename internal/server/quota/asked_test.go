package quota

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/kubernetes/pkg/apis/core"
	corev1conversion "k8s.io/kubernetes/pkg/apis/core/v1"
	podevaluator "k8s.io/kubernetes/pkg/quota/v1/evaluator/core"
	"k8s.io/utils/clock"

	"github.com/tenantry/tenantry/internal/workloads/held"
)

// bothVersions returns a pod as evaluators get it.
func bothVersions(t *testing.T, pod *corev1.Pod) []runtime.Object {
	t.Helper()
	internal := &core.Pod{}
	if err := corev1conversion.Convert_v1_Pod_To_core_Pod(pod.DeepCopy(), internal, nil); err != nil {
		t.Fatal(err)
	}
	return []runtime.Object{pod, internal}
}

// usedBy returns what a pod counts for in the quota of its tenant.
func usedBy(t *testing.T, pod runtime.Object) corev1.ResourceList {
	t.Helper()
	flat, err := flatten("acme", pod)
	if err != nil {
		t.Fatal(err)
	}
	used, err := podevaluator.NewPodEvaluator(nil, clock.RealClock{}).Usage(flat)
	if err != nil {
		t.Fatal(err)
	}
	return used
}

// TestAsked checks that a pod uses what it asks for, also while its node says that it cannot have that: otherwise what
// it asks for next would be charged to nobody.
func TestAsked(t *testing.T) {
	for reason, want := range map[string]string{"": "9", corev1.PodReasonDeferred: "9", corev1.PodReasonInfeasible: "9", "RefusedByHost": "9"} {
		pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("9")}}}}}}
		one := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "c", AllocatedResources: one, Resources: &corev1.ResourceRequirements{Requests: one}}}
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady}}
		if reason != "" {
			pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: corev1.PodResizePending, Status: corev1.ConditionTrue, Reason: reason})
		}
		both := bothVersions(t, pod)
		for _, obj := range both {
			used := usedBy(t, obj)
			if got := used[corev1.ResourceRequestsCPU]; got.String() != want {
				t.Errorf("%T with %q uses %v, want %s", obj, reason, &got, want)
			}
		}
		if conditions := len(pod.Status.Conditions); reason != "" && conditions != 2 || len(both[1].(*core.Pod).Status.Conditions) != conditions {
			t.Error("the pod has changed")
		}
	}
}

// TestHeldCounts checks that a pod uses what it may still hold of what it asked for before a resize to less.
func TestHeldCounts(t *testing.T) {
	note, err := held.Note{Generation: 1, Resources: held.Resources{"": {Limits: cpu("7")}, "c": {Requests: cpu("5"), Limits: cpu("6")}}}.Text()
	if err != nil {
		t.Fatal(err)
	}
	one := corev1.ResourceRequirements{Requests: cpu("1"), Limits: cpu("1")}
	for name, tc := range map[string]struct {
		own              *corev1.ResourceRequirements
		requests, limits string
	}{
		"in containers": {nil, "5", "7"},
		"in the pod":    {&one, "5", "7"},
	} {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{held.Annotation: note}},
			Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Resources: one}}, Resources: tc.own}}
		for _, obj := range bothVersions(t, pod) {
			used := usedBy(t, obj)
			if requests, limits := used[corev1.ResourceRequestsCPU], used[corev1.ResourceLimitsCPU]; requests.String() != tc.requests || limits.String() != tc.limits {
				t.Errorf("%s: %T uses %v and %v, want %s and %s", name, obj, &requests, &limits, tc.requests, tc.limits)
			}
		}
	}
}

// TestEndingCounts checks that a pod counts until it is gone: upstream stops when its time is up, and nothing would
// tell the ledger of that.
func TestEndingCounts(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: new(metav1.Unix(1, 0)), DeletionGracePeriodSeconds: new(int64(1))}}
	used := usedBy(t, pod)
	if got := used[corev1.ResourcePods]; got.Value() != 1 || pod.DeletionTimestamp == nil {
		t.Errorf("it counts %v times", &got)
	}
}
