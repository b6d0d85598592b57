package sync

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	podv1 "k8s.io/kubernetes/pkg/api/v1/pod"
	"k8s.io/utils/clock"

	"github.com/tenantry/tenantry/internal/tenant"
)

const (
	// maxUnscheduled is how many pods of a tenant wait for the host's scheduler at once. It takes pods in order of
	// creation, so each waits for all older ones of all tenants. Chosen: the scheduler of a small host places more in a
	// second.
	maxUnscheduled = 10
	// leastUnscheduled is how many pods of all tenants wait at least, with one of each tenant. Chosen: half of what a
	// scheduler without flags places in a second, so that it has enough to do where answers take long.
	leastUnscheduled = 25
	// schedulerWait is for how long a pod is to wait for the host's scheduler: while one waits for longer, fewer of all
	// tenants may, and else more. Chosen: a quarter of the two seconds in which a pod is to run beside others who create
	// all they can.
	schedulerWait = 500 * time.Millisecond
	// How many pods of all tenants may wait grows by a sum and shrinks by a factor, as TCP's window does (AIMD).
	// Chosen: one more for four pods that the scheduler has looked at in time, and a 16th less for one that it has not:
	// of a queue, all come late.
	additiveIncrease       = 0.25
	multiplicativeDecrease = 1.0 / 16
	// schedulerPatience is after which time pods do not count if the scheduler looks at none: there may be no
	// scheduler. Chosen: a scheduler that works looks at some in each second.
	schedulerPatience = 3 * time.Second
	// schedulerLimit is after which time a pod does not count in any case: the scheduler may be stuck on it.
	schedulerLimit = time.Minute
	// maxStuck is how many pods of a tenant are on the host for which the scheduler has found no node: it tries all of
	// them again, before newer ones, when something changes that may help one. Chosen: twenty of the costliest pods that
	// a tenant may have take a quarter of a second.
	maxStuck = 20
)

// scheduling has pods wait in their spaces while so many of their tenant wait for the host's scheduler. It knows
// tenants that have such pods.
type scheduling struct {
	clock clock.PassiveClock

	mu       sync.Mutex
	byTenant map[tenant.Name]*tenantQueue
	// stuck has tenants with pods for which the scheduler has found no node.
	stuck map[tenant.Name]*stuckPods
	// lastLook is when the scheduler was last seen to have looked at a pod.
	lastLook time.Time
	// most is how many pods of all tenants may wait, of which each tenant has an equal part, and one at least.
	most float64
}

// stuckPods are the pods of a tenant for which the scheduler has found no node: those that may stay on the host, and
// those that were taken from it.
type stuckPods struct{ onHost, withdrawn sets.Set[item] }

// tenantQueue is what waits of a tenant.
type tenantQueue struct {
	// onHost are pods that the scheduler has not looked at, or that are about to be made.
	onHost map[item]waitTimes
	// queued are the others, in their order, and isQueued says who they are.
	queued   []item
	isQueued map[item]bool
	// aside are pods that wait for copies, and have no place meanwhile: maxUnscheduled at most, because each asks again
	// for its copies. In the end they come after all others.
	aside map[item]bool
}

// waitTimes say since when a pod counts, and when it was first seen to wait on the host, if it was.
type waitTimes struct{ since, seen time.Time }

// released are pods to retry now, and one to retry after schedulerPatience in case no event comes.
type released struct{ ready, retryLater []item }

func newScheduling(c clock.PassiveClock) *scheduling {
	return &scheduling{clock: c, byTenant: map[tenant.Name]*tenantQueue{}, stuck: map[tenant.Name]*stuckPods{}, most: leastUnscheduled}
}

// enter reports whether a pod may be made on the host. If not, it is released when it may.
func (s *scheduling) enter(i item) (bool, released) {
	s.mu.Lock()
	defer s.mu.Unlock()
	q := s.queueOf(i.tenant)
	delete(q.aside, i)
	if _, entered := q.onHost[i]; entered || s.room(q) > 0 {
		q.onHost[i] = waitTimes{since: s.clock.Now()}
		return true, released{}
	}
	if !q.isQueued[i] {
		q.isQueued[i] = true
		q.queued = append(q.queued, i)
	}
	if q.queued[0] != i {
		return false, released{}
	}
	return false, released{retryLater: q.queued[:1:1]} // the first one always comes again: there may be room by time alone
}

// isAside reports whether a pod waits for copies without a place.
func (s *scheduling) isAside(i item) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	q := s.byTenant[i.tenant]
	return q != nil && q.aside[i]
}

// stepAside takes the place of a pod that waits for copies, if not too many have stepped aside. It enters again when it
// has them.
func (s *scheduling) stepAside(i item) released {
	s.mu.Lock()
	defer s.mu.Unlock()
	q := s.queueOf(i.tenant)
	if q.aside[i] || len(q.aside) >= maxUnscheduled {
		return released{}
	}
	q.aside[i] = true
	return s.giveUp(i, q)
}

// note notes which pods of the host there are for one of a space. While there is none, it keeps the times that it has.
func (s *scheduling) note(i item, all []*corev1.Pod) released {
	if len(all) == 0 {
		return released{}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, host := range all {
		if host.DeletionTimestamp == nil && !isLookedAt(host) && s.counts(host.CreationTimestamp.Time) {
			of := s.queueOf(i.tenant).onHost
			of[i] = waitTimes{host.CreationTimestamp.Time, cmp.Or(of[i].seen, s.clock.Now())}
			return released{}
		}
	}
	q := s.byTenant[i.tenant]
	if q == nil {
		return released{}
	}
	if at, waited := q.onHost[i]; waited && slices.ContainsFunc(all, isLookedAt) {
		s.looked(q, at)
	}
	return s.remove(i, q)
}

// looked notes that the scheduler has looked at a pod of a tenant. It falls behind if that took long; if not, the
// tenants may have more pods there, if they have more.
func (s *scheduling) looked(q *tenantQueue, at waitTimes) {
	s.lastLook = s.clock.Now()
	switch {
	case !at.seen.IsZero() && s.clock.Since(at.seen) > schedulerWait:
		s.most -= s.most * multiplicativeDecrease
	case len(q.queued) > 0:
		s.most += additiveIncrease
	}
	s.most = max(leastUnscheduled, min(s.most, float64(maxUnscheduled*len(s.byTenant))))
}

// leave notes that a pod does not wait on the host, and will not be made there now.
func (s *scheduling) leave(i item) released {
	s.mu.Lock()
	defer s.mu.Unlock()
	if q := s.byTenant[i.tenant]; q != nil {
		return s.remove(i, q)
	}
	return released{}
}

func (s *scheduling) remove(i item, q *tenantQueue) released {
	delete(q.aside, i)
	wasFirst := len(q.queued) > 0 && q.queued[0] == i
	if wasFirst {
		delete(q.isQueued, i)
		q.queued = q.queued[1:]
	}
	r := s.giveUp(i, q)
	if wasFirst && len(r.retryLater) == 0 && len(q.queued) > 0 {
		r.retryLater = q.queued[:1:1] // which the one before was to come for
	}
	return r
}

// giveUp gives the place of a pod to others.
func (s *scheduling) giveUp(i item, q *tenantQueue) released {
	delete(q.onHost, i)
	n := min(s.room(q), len(q.queued))
	r := released{ready: q.queued[:n:n]}
	for _, next := range r.ready {
		delete(q.isQueued, next)
		q.onHost[next] = waitTimes{since: s.clock.Now()} // it is about to be made
	}
	if q.queued = q.queued[n:]; n > 0 && len(q.queued) > 0 {
		r.retryLater = q.queued[:1:1]
	}
	if len(q.onHost)+len(q.queued)+len(q.aside) == 0 {
		delete(s.byTenant, i.tenant)
	}
	return r
}

func (s *scheduling) queueOf(n tenant.Name) *tenantQueue {
	if s.byTenant[n] == nil {
		s.byTenant[n] = &tenantQueue{onHost: map[item]waitTimes{}, isQueued: map[item]bool{}, aside: map[item]bool{}}
	}
	return s.byTenant[n]
}

// room returns how many more pods of a tenant may be made.
func (s *scheduling) room(q *tenantQueue) int {
	most := min(maxUnscheduled, max(1, int(s.most)/len(s.byTenant)))
	if len(q.onHost) >= most {
		maps.DeleteFunc(q.onHost, func(_ item, at waitTimes) bool { return !s.counts(at.since) })
	}
	return max(0, most-len(q.onHost))
}

// counts reports whether a pod counts that has waited for some time. Clocks of the host may differ.
func (s *scheduling) counts(since time.Time) bool {
	age := s.clock.Since(since).Abs()
	return age < schedulerPatience || age < schedulerLimit && s.clock.Since(s.lastLook) < schedulerPatience
}

// mayStay notes a pod for which the scheduler has found no node, and reports whether it may be on the host
// nevertheless.
func (s *scheduling) mayStay(i item) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	of := s.stuck[i.tenant]
	if of == nil {
		of = &stuckPods{sets.Set[item]{}, sets.Set[item]{}}
		s.stuck[i.tenant] = of
	}
	if !of.onHost.Has(i) && len(of.onHost) >= maxStuck {
		of.withdrawn.Insert(i)
		return false
	}
	of.withdrawn.Delete(i)
	of.onHost.Insert(i)
	return true
}

// notStuck notes that a pod has a node, or waits for the scheduler, or is not on the host, and returns those that were
// taken from there and may be tried again in its place.
func (s *scheduling) notStuck(i item, isOnHost bool) []item {
	s.mu.Lock()
	defer s.mu.Unlock()
	of := s.stuck[i.tenant]
	if of == nil {
		return nil
	}
	if isOnHost {
		of.withdrawn.Delete(i) // it was made again by itself, and needs no place
	}
	if !of.onHost.Has(i) {
		return nil
	}
	of.onHost.Delete(i)
	if len(of.onHost) == 0 {
		delete(s.stuck, i.tenant)
		return of.withdrawn.UnsortedList()
	}
	next, any := of.withdrawn.PopAny()
	if !any {
		return nil
	}
	return []item{next}
}

// forget notes that a pod is gone in its space: it is not made again.
func (s *scheduling) forget(i item) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if of := s.stuck[i.tenant]; of != nil {
		of.withdrawn.Delete(i)
	}
}

// isStuck reports whether the host's scheduler has found no node for a pod.
func isStuck(host *corev1.Pod) bool {
	_, scheduled := podv1.GetPodCondition(&host.Status, corev1.PodScheduled)
	return host.DeletionTimestamp == nil && host.Spec.NodeName == "" && host.Status.NominatedNodeName == "" && scheduled != nil && scheduled.Status == corev1.ConditionFalse
}

// isLookedAt reports whether the host's scheduler has looked at a pod. Those for which it has found no node are few,
// and those that have one named, and wait for what they need there, such as volumes, are in nobody's way.
func isLookedAt(host *corev1.Pod) bool {
	return host.Spec.NodeName != "" || host.Status.NominatedNodeName != "" ||
		slices.ContainsFunc(host.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.PodScheduled })
}

// release has pods looked at that may be made.
func (s *syncer) release(r released) {
	for _, i := range r.ready {
		s.queue.Add(i)
	}
	for _, i := range r.retryLater {
		s.queue.AddAfter(i, schedulerPatience)
	}
}
