package sync

import (
	"time"

	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"

	"github.com/tenantry/tenantry/internal/process/ratelimit"
)

const (
	// statusesAtOnce is how many statuses of a pod are written into its space at once, and statusInterval after which
	// time there may be one more: chosen, a pod that begins has some five.
	statusesAtOnce = 15
	statusInterval = 20 * time.Second
	// moreStatuses is how many more are written for a tenant in a second, and moreAtOnce before that holds.
	moreStatuses = 10
	moreAtOnce   = 50
)

// statuses has the statuses of pods wait whose readiness changes all the time: a kubelet tells of each change, and a
// write into a space costs the server of all tenants some milliseconds. It knows pods that are on the host.
type statuses struct {
	clock clock.PassiveClock
	each  ratelimit.Limits[item]
	more  *writeBudget
}

func newStatuses(c clock.PassiveClock) *statuses {
	return &statuses{clock: c, each: ratelimit.Limits[item]{PerSecond: rate.Every(statusInterval), AtOnce: statusesAtOnce}, more: newWriteBudget(c, moreStatuses, moreAtOnce)}
}

// wait returns for how long the status of a pod is to wait. How far it has come does not.
func (s *statuses) wait(i item, pod, host *corev1.Pod) time.Duration {
	if s.each.Take(s.clock.Now(), i, 1) == 0 || pod.Status.Phase != host.Status.Phase {
		s.more.drop(i)
		return 0
	}
	return s.more.wait(itemWrite{i, writeStatus}, 1)
}

// forget forgets a pod that is gone.
func (s *statuses) forget(i item) {
	s.more.drop(i)
	s.each.Forget(i)
}

// postponeStatus reports whether the status of a pod is to wait. If so, the pod is looked at when its turn comes.
func (s *syncer) postponeStatus(pod, host *corev1.Pod) bool {
	i := itemOf(podItem, pod)
	return s.queue.after(i, s.statuses.wait(i, pod, host))
}
