package sync

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clienttesting "k8s.io/client-go/testing"
)

// TestPatchesAreBounded checks that no write of the space makes the host's pod larger than it may be, by whatever
// subresource it gets there, and that the space is told.
func TestPatchesAreBounded(t *testing.T) {
	long := strings.Repeat("x", 1_000_000)
	for name, tc := range map[string]struct {
		was, change func(*corev1.Pod)
		// patched is what is written nevertheless, and told is in the event of the space.
		patched, told string
	}{
		"the status of a gate": {was: setGate("False"), change: setGate(corev1.ConditionStatus(long)), patched: "patch pods/status"},
		"an image":             {change: func(p *corev1.Pod) { p.Spec.Containers[0].Image = long }, told: "and may have 131072"},
		"labels": {told: "at most 64 labels", change: func(p *corev1.Pod) {
			p.Labels = map[string]string{}
			for i := range 65 {
				p.Labels[fmt.Sprint("label-", i)] = "x"
			}
		}},
		"an ephemeral container": {told: "and may have 131072", change: both(debugged("d"), func(p *corev1.Pod) { p.Spec.EphemeralContainers[0].Args = []string{long} })},
		// Written in JSON it is six times as large as it is stored.
		"an ephemeral container of control characters": {told: "and may have 131072", change: both(debugged("d"), func(p *corev1.Pod) {
			p.Spec.EphemeralContainers[0].Args = []string{strings.Repeat("\x01", 100_000)}
		})},
		"resources": {told: "and may have 131072", change: func(p *corev1.Pod) {
			p.Spec.Containers[0].Resources.Claims = []corev1.ResourceClaim{{Name: long}}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			was := tc.was
			if was == nil {
				was = func(*corev1.Pod) {}
			}
			w := newWorld(t, hostSpace(), spacePod(both(bound, tc.change)), hostPod(spacePod(was), onNode))
			_ = w.look() // a refusal is one, too
			for _, action := range w.onHost.Actions() {
				patch, ok := action.(clienttesting.PatchAction)
				if !ok {
					continue
				}
				if n := len(patch.GetPatch()); n > 1024 {
					t.Errorf("%d bytes are written to %q", n, patch.GetSubresource())
				}
			}
			if all := strings.Join(did(w.onHost), ","); !strings.Contains(all, tc.patched) {
				t.Errorf("the host is asked for %s", all)
			}
			events, err := w.space.CoreV1().Events("acme|shop").List(t.Context(), metav1.ListOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if told := fmt.Sprint(events.Items); tc.told != "" && !strings.Contains(told, tc.told) {
				t.Errorf("the space is told %.300s", told)
			}
			w.onHost.ClearActions()
			if err := w.look(); tc.told != "" && (err != nil || len(did(w.onHost)) > 0) {
				t.Errorf("it is written again at once: %v, %v", did(w.onHost), err)
			}
		})
	}
}
