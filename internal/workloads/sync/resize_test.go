package sync

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	"github.com/tenantry/tenantry/internal/workloads/held"
	"github.com/tenantry/tenantry/internal/workloads/names"
)

// sized has a pod ask for so many processors.
func sized(cpu string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}
	}
}

// notes returns which resources of the host's pod were noted, in their order.
func (w *world) notes() (all []string) {
	for _, patch := range w.patches("") {
		if annotations, ok := patch["metadata"].(map[string]any)["annotations"].(map[string]any); ok {
			if hash, ok := annotations[resourcesAnnotation]; ok {
				all = append(all, fmt.Sprint(hash))
			}
		}
	}
	return all
}

func hashOfSize(cpu string) string {
	return names.Hash(resourcesOf(spacePod(nil), &spacePod(sized(cpu)).Spec))
}

// TestResize checks that the host's pod gets the resources of the space's, and that it is noted before and afterwards.
func TestResize(t *testing.T) {
	now := spacePod(both(bound, sized("2")))
	w := newWorld(t, hostSpace(), now, hostPod(spacePod(both(bound, sized("1"))), onNode))
	if err := w.look(); err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(w.patches("resize")); got != "[map[metadata:map[uid:host-p] spec:map[containers:[map[name:c resources:map[requests:map[cpu:2]]]]]]]" {
		t.Errorf("it is written %s", got)
	}
	if got := w.notes(); len(got) != 2 || got[0] != "" || got[1] != hashOfSize("2") {
		t.Errorf("noted is %q", got)
	}
	w.expect(nil, []string{"patch pods", "patch pods/resize", "patch pods"})
	if err := w.look(); err != nil { // the cache is behind
		t.Fatal(err)
	}
	w.expect(nil, nil)
	w.see(hostPod(now, onNode))
	w.clock.Step(firstBackoff)
	if err := w.look(); err != nil {
		t.Fatal(err)
	}
	w.expect(nil, nil)
	if w.backoffs.held.Len() != 0 {
		t.Errorf("left is %v", w.backoffs.held.All())
	}
}

// TestResizeTakenBack checks that a resize which was taken back, while the cache of the host has seen nothing of it, is
// written, and that no generation counts as observed before: a quota would give back what the host has.
func TestResizeTakenBack(t *testing.T) {
	note, err := held.Note{Generation: 3, Resources: held.Resources{"c": {Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2")}}}}.Text()
	if err != nil {
		t.Fatal(err)
	}
	now := spacePod(both(bound, sized("1"), func(p *corev1.Pod) {
		p.Generation, p.Annotations[held.Annotation] = 3, note
	}))
	host := hostPod(spacePod(both(bound, sized("1"))), both(onNode, func(p *corev1.Pod) {
		p.Generation, p.Status.ObservedGeneration, p.Status.Phase = 1, 1, corev1.PodRunning
	}))
	w := newWorld(t, hostSpace(), now, host)
	if err := w.look(); err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(w.patches("resize")); !strings.Contains(got, "cpu:1") {
		t.Errorf("it is written %s", got)
	}
	told, err := w.space.CoreV1().Pods("acme|shop").Get(t.Context(), "web-0", metav1.GetOptions{})
	if err != nil || told.Status.ObservedGeneration != 0 {
		t.Errorf("generation %d is observed, %v", told.Status.ObservedGeneration, err)
	}
}

// TestResizeWithoutStatus checks that the host's pod gets what is changed of the space's, also if the space does not
// take the status: a quota counts less then, and policies are others.
func TestResizeWithoutStatus(t *testing.T) {
	w := newWorld(t, hostSpace(), spacePod(both(bound, sized("1"))), hostPod(spacePod(both(bound, sized("2"))), both(onNode, func(p *corev1.Pod) {
		p.Status.Phase = corev1.PodRunning
	})))
	w.space.PrependReactor("update", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
		return action.GetSubresource() == "status", nil, apierrors.NewForbidden(corev1.Resource("pods"), "web-0", errors.New("too many conditions"))
	})
	if err := w.look(); err == nil || !strings.Contains(err.Error(), "too many conditions") {
		t.Errorf("got %v, want that the status is refused", err)
	}
	if got := fmt.Sprint(w.patches("resize")); !strings.Contains(got, "cpu:1") {
		t.Errorf("it is written %s", got)
	}
}

// TestResizeWithoutBinding checks the same of a space that does not take the binding.
func TestResizeWithoutBinding(t *testing.T) {
	w := newWorld(t, hostSpace(), spacePod(sized("1")), hostPod(spacePod(sized("2")), both(onNode, func(p *corev1.Pod) {
		p.Status.Phase = corev1.PodRunning
	})))
	w.space.PrependReactor("create", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
		return action.GetSubresource() == "binding", nil, apierrors.NewForbidden(corev1.Resource("pods"), "web-0", errors.New("exceeded quota"))
	})
	if err := w.look(); err == nil || !strings.Contains(err.Error(), "exceeded quota") {
		t.Errorf("got %v, want that the binding is refused", err)
	}
	if got := fmt.Sprint(w.patches("resize")); !strings.Contains(got, "cpu:1") {
		t.Errorf("it is written %s", got)
	}
	if got := did(w.space); slices.Contains(got, "update pods/status") {
		t.Errorf("a pod without a node has a status of one: %v", got)
	}
}

// TestResizeIsInterrupted checks that nobody takes for done what may not be: whoever asks for what there was before
// would have the resources of what was asked for in between, and be charged for none of them.
func TestResizeIsInterrupted(t *testing.T) {
	before := spacePod(both(bound, sized("1")))
	w := newWorld(t, hostSpace(), spacePod(both(bound, sized("2"))), hostPod(before, onNode))
	lost := true
	w.onHost.PrependReactor("patch", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
		if written := string(action.(clienttesting.PatchAction).GetPatch()); lost && strings.Contains(written, hashOfSize("2")) {
			return true, nil, apierrors.NewTimeoutError("lost", 1)
		}
		return false, nil, nil
	})
	if err := w.look(); err == nil {
		t.Error("it is taken for done")
	}
	w.expect(nil, []string{"patch pods", "patch pods/resize", "patch pods"})
	there, err := w.onHost.CoreV1().Pods(home.Host()).Get(t.Context(), "web-0", metav1.GetOptions{})
	if err != nil || there.Annotations[resourcesAnnotation] != "" {
		t.Fatalf("noted is %q, %v", there.Annotations[resourcesAnnotation], err)
	}
	lost = false
	w.see(there)
	w.see(before)
	if err := w.look(); err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(w.patches("resize")); !strings.Contains(got, "cpu:1") {
		t.Errorf("it is written %s", got)
	}
	w.expect(nil, []string{"patch pods/resize", "patch pods"})
}

// TestResizeRefusedByHost checks that the space is told, that it is tried again later, that other changes do not wait
// for it, and that these do not say that it is done.
func TestResizeRefusedByHost(t *testing.T) {
	now := spacePod(both(bound, sized("2"), func(p *corev1.Pod) { p.Labels, p.Generation = map[string]string{"a": "b"}, 4 }))
	host := hostPod(spacePod(both(bound, sized("1"))), onNode)
	w := newWorld(t, hostSpace(), now, host)
	w.refusing("resize", "")
	if err := w.look(); err == nil || !strings.Contains(err.Error(), "resources: the host cluster does not take it") {
		t.Errorf("got %v", err)
	}
	if got := w.notes(); len(got) != 1 || got[0] != "" {
		t.Errorf("noted is %q", got)
	}
	w.expect([]string{"create events"}, []string{"patch pods", "patch pods", "patch pods/resize"})
	if err := w.look(); err != nil {
		t.Fatal(err)
	}
	told, err := w.space.CoreV1().Pods("acme|shop").Get(t.Context(), "web-0", metav1.GetOptions{})
	if err != nil || len(told.Status.Conditions) != 1 {
		t.Fatalf("the pod says %+v, %v", told.Status, err)
	}
	if c := told.Status.Conditions[0]; c.Type != corev1.PodResizePending || c.Status != corev1.ConditionTrue || c.Reason != reasonRefused || c.ObservedGeneration != 4 {
		t.Errorf("the pod says %+v", c)
	}
	w.space.ClearActions()
	w.onHost.ClearActions()
	w.clock.Step(firstBackoff)
	there, err := w.onHost.CoreV1().Pods(home.Host()).Get(t.Context(), "web-0", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	w.see(there)
	w.see(told)
	if err := w.look(); err == nil {
		t.Error("it is not tried again")
	}
	w.expect(nil, []string{"patch pods/resize"})
	w.see(spacePod(both(bound, sized("3"), func(p *corev1.Pod) { p.Labels = now.Labels })))
	if err := w.look(); err == nil {
		t.Error("another one waits for it")
	}
	if got := fmt.Sprint(w.patches("resize")); !strings.Contains(got, "cpu:3") {
		t.Errorf("it is written %s", got)
	}
}

// TestResizesArePaced checks that a tenant's resizes wait, that nobody else's do, and that only the last one is
// written.
func TestResizesArePaced(t *testing.T) {
	w := newWorld(t, hostSpace(), spacePod(both(bound, sized("2"))), hostPod(spacePod(both(bound, sized("1"))), onNode))
	for i := range resizesAtOnce {
		if wait := w.writeBudgets[resizeBudget].wait(itemWrite{item{podItem, "acme", "acme|shop", fmt.Sprint(i)}, writeResources}, 1); wait != 0 {
			t.Fatalf("%d waits for %v", i, wait)
		}
	}
	if wait := w.writeBudgets[resizeBudget].wait(itemWrite{item{podItem, "globex", "globex|shop", "web-0"}, writeResources}, 1); wait != 0 {
		t.Errorf("another tenant waits for %v", wait)
	}
	if err := w.look(); err != nil {
		t.Fatal(err)
	}
	w.expect(nil, nil)
	w.see(spacePod(both(bound, sized("3"))))
	w.clock.Step(time.Second / resizesPerSecond)
	if err := w.look(); err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(w.patches("resize")); !strings.Contains(got, "cpu:3") {
		t.Errorf("it is written %s", got)
	}
}

// TestLargeResizes checks that a resize counts by the bytes of its pod, too.
func TestLargeResizes(t *testing.T) {
	large := func(p *corev1.Pod) {
		p.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "LARGE", Value: strings.Repeat("x", resizeBytes)}}
	}
	w := newWorld(t, hostSpace(), spacePod(both(bound, large, sized("2"))), hostPod(spacePod(both(bound, large, sized("1"))), onNode))
	if err := w.look(); err != nil {
		t.Fatal(err)
	}
	if counted := resizesAtOnce - int(w.writeBudgets[resizeBudget].byTenant["acme"].limiter.TokensAt(w.clock.Now())); counted != 1+writesOfResize {
		t.Errorf("it counts as %d", counted)
	}
}

// TestResizeLeavesTheHost checks that what the host has made of resources stays, until they are changed in the space.
func TestResizeLeavesTheHost(t *testing.T) {
	pod := spacePod(both(bound, sized("2"), func(p *corev1.Pod) { p.Labels = map[string]string{"a": "b"} }))
	w := newWorld(t, hostSpace(), pod, hostPod(spacePod(both(bound, sized("2"))), onNode))
	if err := w.look(); err != nil {
		t.Fatal(err)
	}
	w.expect(nil, []string{"patch pods"})
	if got := w.notes(); got != nil {
		t.Errorf("noted is %q", got)
	}
	if a, b := hashOfSize("1000m"), hashOfSize("1"); a != b {
		t.Errorf("what is the same has the hashes %s and %s", a, b)
	}
}
