package sync

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// TestStatusesWait checks that a pod whose readiness changes all the time is written into its space seldom, and last as
// it is, and that how far it has come does not wait.
func TestStatusesWait(t *testing.T) {
	running := func(p *corev1.Pod) { p.Status.Phase = corev1.PodRunning }
	ready := func(is corev1.ConditionStatus) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: is}} }
	}
	there := spacePod(both(bound, running, ready(corev1.ConditionTrue)))
	w := newWorld(t, hostSpace(), there, hostPod(there, both(onNode, running, ready(corev1.ConditionTrue))))
	written := func() (n int) {
		t.Helper()
		w.space.ClearActions()
		if err := w.look(); err != nil {
			t.Fatal(err)
		}
		for _, what := range did(w.space) {
			if what == "update pods/status" {
				n++
			}
		}
		return n
	}
	n := 0
	for range statusesAtOnce + moreAtOnce + 30 { // the space's pod stays as the cache has it, so that each look is another change
		w.see(hostPod(there, both(onNode, running, ready(corev1.ConditionFalse), func(p *corev1.Pod) { p.ResourceVersion = time.Now().String() })))
		n += written()
	}
	if n != statusesAtOnce+moreAtOnce {
		t.Errorf("%d statuses are written at once, want %d", n, statusesAtOnce+moreAtOnce)
	}
	w.clock.Step(time.Second)
	if written() != 1 {
		t.Error("nothing is written after a second")
	}
	w.see(hostPod(there, both(onNode, over)))
	if written() != 1 {
		t.Error("its end waits")
	}
	if err := w.informers.Core().V1().Pods().Informer().GetIndexer().Delete(there); err != nil {
		t.Fatal(err)
	}
	if err := w.space.Tracker().Delete(corev1.SchemeGroupVersion.WithResource("pods"), "acme|shop", "web-0"); err != nil {
		t.Fatal(err)
	}
	if err := w.look(); err != nil {
		t.Fatal(err)
	}
	if w.statuses.Len() != 0 || !slices.Contains(did(w.onHost), "delete pods host-p") {
		t.Errorf("what is gone is known of: %d, %v", w.statuses.Len(), did(w.onHost))
	}
}
