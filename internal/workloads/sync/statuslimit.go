package sync

import (
	"time"

	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"

	"github.com/tenantry/tenantry/internal/process/ratelimit"
)

const (
	// statusesAtOnce is how many statuses of a pod are written into its space at once, and statusInterval after which
	// time there may be one more: chosen, a pod that begins has some five.
	statusesAtOnce = 15
	statusInterval = 20 * time.Second
)

// newStatuses returns the rates of the statuses of pods that are on the host.
func newStatuses() *ratelimit.Limits[item] {
	return &ratelimit.Limits[item]{PerSecond: rate.Every(statusInterval), AtOnce: statusesAtOnce}
}

// postponeStatus reports whether the status of a pod is to wait. If so, the pod is looked at when its turn comes. Those wait whose readiness
// changes all the time: a kubelet tells of each change, and a write into a space costs the server of all tenants some milliseconds. How far a
// pod has come does not wait.
func (s *syncer) postponeStatus(pod, host *corev1.Pod) bool {
	i := itemOf(podItem, pod)
	if s.statuses.Take(s.clock.Now(), i, 1) == 0 || pod.Status.Phase != host.Status.Phase {
		s.writeBudgets[statusBudget].drop(i)
		return false
	}
	return s.postpone(statusBudget, i, 1)
}
