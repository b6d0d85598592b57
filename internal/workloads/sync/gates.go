package sync

import (
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tenantry/tenantry/internal/workloads/translate"
)

// putGates takes the conditions of a pod's readiness gates to the host, whose kubelet says by them whether the pod is ready.
func (s *syncer) putGates(ctx context.Context, pod, host *corev1.Pod) error {
	changes := translate.ChangedGates(pod, host)
	if len(changes) == 0 {
		return nil
	}
	// The UID makes it one of this pod alone.
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": host.UID}, "status": map[string]any{"conditions": changes}})
	if err != nil {
		return err
	}
	what := string(host.UID) + string(patch)
	if s.isHeld(pod, gates, what) {
		return nil
	}
	if wait := s.spending.wait(itemOf(pod), sizeOf(pod)); wait > 0 {
		s.queue.AddAfter(itemOf(pod), wait)
		return nil
	}
	_, err = s.host.CoreV1().Pods(host.Namespace).Patch(ctx, host.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{FieldManager: fieldManager}, "status")
	if isRefused(err) {
		s.hold(pod, gates, what)
	}
	if err != nil {
		return fmt.Errorf("writing the conditions of readiness gates of the host's pod: %w", err)
	}
	return nil
}
