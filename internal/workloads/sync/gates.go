package sync

import (
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/tenantry/tenantry/internal/workloads/translate"
)

// putGates takes the conditions of a pod's readiness gates to the host, whose kubelet says by them whether the pod is
// ready.
func (s *syncer) putGates(ctx context.Context, pod, host *corev1.Pod) error {
	changes := translate.ChangedGates(pod, host)
	if len(changes) == 0 {
		return nil
	}
	written, err := json.Marshal(changes)
	if err != nil {
		return err
	}
	what := string(host.UID) + string(written)
	if s.postponeRetry(pod, writeGates, what) || s.postponePod(pod, writeGates, pod, 1) {
		return nil
	}
	err = s.patchHost(ctx, host, nil, map[string]any{"status": map[string]any{"conditions": changes}}, "status")
	if isRefused(err) {
		s.backOff(pod, writeGates, what, nil)
	}
	if err != nil {
		return fmt.Errorf("writing the conditions of readiness gates of the host's pod: %w", err)
	}
	return nil
}
