package held

import (
	"maps"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func cpu(n string) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(n)}
}

func asks(requests, limits string) corev1.ResourceRequirements {
	return corev1.ResourceRequirements{Requests: cpu(requests), Limits: cpu(limits)}
}

func TestIsLess(t *testing.T) {
	before := Resources{"": asks("3", "4"), "a": asks("1", "2"), "b": asks("1", "2")}
	for name, tc := range map[string]struct {
		change Resources
		want   bool
	}{
		"the same":               {nil, false},
		"more":                   {Resources{"a": asks("2", "3")}, false},
		"a request":              {Resources{"a": asks("500m", "2")}, true},
		"a limit":                {Resources{"b": asks("1", "1")}, true},
		"of the pod":             {Resources{"": asks("2", "4")}, true},
		"one more, another less": {Resources{"a": asks("2", "2"), "b": asks("1", "1500m")}, true},
		"no limit any more":      {Resources{"a": {Requests: cpu("1")}}, true},
		"nothing of the pod":     {Resources{"": {}}, true},
		"another container":      {Resources{"c": asks("1", "1")}, false},
	} {
		now := maps.Clone(before)
		maps.Copy(now, tc.change)
		if got := now.IsLess(before); got != tc.want {
			t.Errorf("%s: got %v", name, got)
		}
	}
}

// TestCounted checks that a pod counts for all that is noted, as it is read again, and that it stays as it is.
func TestCounted(t *testing.T) {
	noted := Resources{"a": asks("2", "2")}
	noted.Add(Resources{"": asks("8", "9"), "a": asks("1", "3"), "i": {Requests: cpu("4")}})
	note, err := Note{Generation: 3, Resources: noted}.Text()
	if err != nil {
		t.Fatal(err)
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{Annotation: note}}, Spec: corev1.PodSpec{
		InitContainers: []corev1.Container{{Name: "i"}},
		Containers:     []corev1.Container{{Name: "a", Resources: asks("1", "9")}, {Name: "b", Resources: asks("1", "1")}},
	}}
	before, counted := pod.DeepCopy(), Counted(pod)
	got := map[string]string{}
	for name, r := range map[string]corev1.ResourceRequirements{
		"": *counted.Spec.Resources, "i": counted.Spec.InitContainers[0].Resources, "a": counted.Spec.Containers[0].Resources, "b": counted.Spec.Containers[1].Resources,
	} {
		got[name] = r.Requests.Cpu().String() + " " + r.Limits.Cpu().String()
	}
	if diff := cmp.Diff(map[string]string{"": "8 9", "i": "4 0", "a": "2 9", "b": "1 1"}, got); diff != "" {
		t.Errorf("counted (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(before, pod); diff != "" {
		t.Errorf("the pod has changed:\n%s", diff)
	}
	if text, err := (Note{}).Text(); text != "" || err != nil {
		t.Errorf("nothing is noted as %q, %v", text, err)
	}
	for _, note := range []string{"", "{", "[]", "{}", `{"generation":3}`} {
		pod.Annotations[Annotation] = note
		if Counted(pod) != pod {
			t.Errorf("%q counts", note)
		}
	}
}

func TestIsMade(t *testing.T) {
	condition := func(of corev1.PodConditionType, status corev1.ConditionStatus) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.Status.Conditions = []corev1.PodCondition{{Type: of, Status: status}} }
	}
	for name, tc := range map[string]struct {
		change func(*corev1.Pod)
		want   bool
	}{
		"observed":     {func(*corev1.Pod) {}, true},
		"not observed": {func(p *corev1.Pod) { p.Generation = 3 }, false},
		"pending":      {condition(corev1.PodResizePending, corev1.ConditionTrue), false},
		"in progress":  {condition(corev1.PodResizeInProgress, corev1.ConditionTrue), false},
		"not pending":  {condition(corev1.PodResizePending, corev1.ConditionFalse), true},
		"ready":        {condition(corev1.PodReady, corev1.ConditionTrue), true},
		"failed":       {func(p *corev1.Pod) { p.Generation, p.Status.Phase = 3, corev1.PodFailed }, true},
		"succeeded":    {func(p *corev1.Pod) { p.Generation, p.Status.Phase = 3, corev1.PodSucceeded }, true},
		"running":      {func(p *corev1.Pod) { p.Generation, p.Status.Phase = 3, corev1.PodRunning }, false},
	} {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Generation: 2}, Status: corev1.PodStatus{ObservedGeneration: 2}}
		tc.change(pod)
		if got := IsMade(pod); got != tc.want {
			t.Errorf("%s: got %v", name, got)
		}
	}
}
