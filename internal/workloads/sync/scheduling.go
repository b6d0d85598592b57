package sync

import (
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"

	"github.com/tenantry/tenantry/internal/tenant"
)

const (
	// maxUnscheduled is how many pods of a tenant wait for the host's scheduler at once. It takes pods in the order in which
	// they were made, so whoever comes later waits for all that others have there.
	maxUnscheduled = 10
	// schedulerPatience is after which time pods do not count if the scheduler looks at none: there may be no scheduler.
	schedulerPatience = 3 * time.Second
	// schedulerLimit is after which time a pod does not count in any case: it may name a scheduler of its own.
	schedulerLimit = time.Minute
)

// scheduling has pods wait in their spaces while so many of their tenant wait for the host's scheduler. It knows tenants that
// have such pods.
type scheduling struct {
	clock clock.PassiveClock

	mu sync.Mutex
	of map[tenant.Name]*line
	// looked is when the scheduler was last seen to have looked at a pod.
	looked time.Time
}

// line is what waits of a tenant.
type line struct {
	// onHost are pods that the scheduler has not looked at, or that are about to be made, and since when.
	onHost map[item]time.Time
	// behind are the others, in their order, and isBehind says who they are.
	behind   []item
	isBehind map[item]bool
}

// released are the pods that may be made now, and one that is looked at later whatever happens.
type released struct{ now, later []item }

func newScheduling(c clock.PassiveClock) *scheduling {
	return &scheduling{clock: c, of: map[tenant.Name]*line{}}
}

// enter reports whether a pod may be made on the host. If not, it is released when it may.
func (s *scheduling) enter(i item) (bool, released) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.line(i.tenant)
	if _, entered := l.onHost[i]; entered || s.room(l) > 0 {
		l.onHost[i] = s.clock.Now()
		return true, released{}
	}
	if !l.isBehind[i] {
		l.isBehind[i] = true
		l.behind = append(l.behind, i)
	}
	if l.behind[0] != i {
		return false, released{}
	}
	return false, released{later: l.behind[:1:1]} // the first one always comes again: there may be room by time alone
}

// note notes which pods of the host there are for one of a space.
func (s *scheduling) note(i item, all []*corev1.Pod) released {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, host := range all {
		if host.DeletionTimestamp == nil && !isLookedAt(host) && s.counts(host.CreationTimestamp.Time) {
			s.line(i.tenant).onHost[i] = host.CreationTimestamp.Time
			return released{}
		}
	}
	l := s.of[i.tenant]
	if l == nil {
		return released{}
	}
	if _, waited := l.onHost[i]; waited && slices.ContainsFunc(all, isLookedAt) {
		s.looked = s.clock.Now()
	}
	return s.remove(i, l)
}

// leave notes that a pod does not wait on the host.
func (s *scheduling) leave(i item) released {
	s.mu.Lock()
	defer s.mu.Unlock()
	if l := s.of[i.tenant]; l != nil {
		return s.remove(i, l)
	}
	return released{}
}

func (s *scheduling) remove(i item, l *line) released {
	delete(l.onHost, i)
	n := min(s.room(l), len(l.behind))
	r := released{now: l.behind[:n:n]}
	for _, next := range r.now {
		delete(l.isBehind, next)
		l.onHost[next] = s.clock.Now() // it is about to be made
	}
	if l.behind = l.behind[n:]; n > 0 && len(l.behind) > 0 {
		r.later = l.behind[:1:1]
	}
	if len(l.onHost)+len(l.behind) == 0 {
		delete(s.of, i.tenant)
	}
	return r
}

func (s *scheduling) line(n tenant.Name) *line {
	if s.of[n] == nil {
		s.of[n] = &line{onHost: map[item]time.Time{}, isBehind: map[item]bool{}}
	}
	return s.of[n]
}

// room returns how many more pods may be made.
func (s *scheduling) room(l *line) int {
	if len(l.onHost) >= maxUnscheduled {
		maps.DeleteFunc(l.onHost, func(_ item, since time.Time) bool { return !s.counts(since) })
	}
	return max(0, maxUnscheduled-len(l.onHost))
}

// counts reports whether a pod counts that has waited for some time. Clocks of the host may differ.
func (s *scheduling) counts(since time.Time) bool {
	age := s.clock.Since(since).Abs()
	return age < schedulerPatience || age < schedulerLimit && s.clock.Since(s.looked) < schedulerPatience
}

// isLookedAt reports whether the host's scheduler has looked at a pod. Those for which it has found no node are in nobody's
// way.
func isLookedAt(host *corev1.Pod) bool {
	return host.Spec.NodeName != "" || slices.ContainsFunc(host.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.PodScheduled })
}

// release has pods looked at that may be made.
func (s *syncer) release(r released) {
	for _, i := range r.now {
		s.queue.Add(i)
	}
	for _, i := range r.later {
		s.queue.AddAfter(i, schedulerPatience)
	}
}
