package sync

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	testingclock "k8s.io/utils/clock/testing"

	"github.com/tenantry/tenantry/internal/tenant"
)

// TestScheduling checks that so many pods of a tenant wait for the host's scheduler, that others come after them in
// their order, and that nobody waits for one that the scheduler does not look at.
func TestScheduling(t *testing.T) {
	clock := testingclock.NewFakeClock(time.Unix(1000, 0))
	s := newScheduling(clock)
	pod := func(n int) item { return item{podItem, "acme", "acme|shop", fmt.Sprint("web-", n)} }
	host := func(change func(*corev1.Pod)) []*corev1.Pod {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(clock.Now())}}
		if change != nil {
			change(p)
		}
		return []*corev1.Pod{p}
	}
	later := 0
	for i := range maxUnscheduled + 6 {
		may, r := s.enter(pod(i))
		if may != (i < maxUnscheduled) {
			t.Fatalf("%d may is %v", i, may)
		}
		later += len(r.retryLater)
	}
	if later != 1 {
		t.Errorf("%d are looked at later, want the first one", later)
	}
	if may, _ := s.enter(item{podItem, "globex", "globex|shop", "web-0"}); !may {
		t.Error("another tenant waits")
	}
	if r := s.note(pod(0), host(nil)); len(r.ready) != 0 {
		t.Errorf("%v may be made while all wait", r.ready)
	}
	for i, change := range []func(*corev1.Pod){onNode, func(p *corev1.Pod) {
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable}}
	}, ending(1), func(p *corev1.Pod) { p.Status.NominatedNodeName = "node" }} { // the last one waits for its volumes there
		want := pod(maxUnscheduled + i)
		if r := s.note(pod(i), host(change)); len(r.ready) != 1 || r.ready[0] != want || len(r.retryLater) != 1 {
			t.Errorf("released are %v, want %v", r, want)
		}
		if r := s.note(want, nil); len(r.ready) != 0 {
			t.Errorf("%v takes the place of %v, which is about to be made", r.ready, want)
		}
		if may, _ := s.enter(want); !may {
			t.Errorf("%v waits again", want)
		}
	}
	// Nobody looks at those that are there.
	clock.Step(schedulerPatience - time.Second)
	s.note(pod(4), host(onNode))
	s.enter(pod(maxUnscheduled + 4))
	clock.Step(schedulerPatience - time.Second)
	if r := s.leave(pod(100)); len(r.ready) != 0 {
		t.Errorf("released are %v while the scheduler works", r)
	}
	clock.Step(time.Second)
	if r := s.leave(pod(100)); len(r.ready) != 1 || len(r.retryLater) != 0 {
		t.Errorf("released are %v, want one", r)
	}
	for i := range maxUnscheduled + 6 {
		s.leave(pod(i))
	}
	if len(s.byTenant) != 1 {
		t.Errorf("%d tenants are known", len(s.byTenant))
	}
}

// TestSchedulerOfMany has a scheduler place pods in their order, at some rate, for tenants that have many, and then one
// of another tenant: that waits for little, and a scheduler that places many has as many at hand.
func TestSchedulerOfMany(t *testing.T) {
	for _, c := range []struct {
		tenants, perSecond int
		// longest is for how long the one pod waits at most, and least how many are placed in ten seconds.
		longest time.Duration
		least   int
	}{
		{tenants: 10, perSecond: 20, longest: 1500 * time.Millisecond, least: 195},
		{tenants: 10, perSecond: 50, longest: 1200 * time.Millisecond, least: 490},
		{tenants: 40, perSecond: 50, longest: 1200 * time.Millisecond, least: 490},
		{tenants: 10, perSecond: 500, longest: 400 * time.Millisecond, least: 4500},
		{tenants: 1, perSecond: 500, longest: 200 * time.Millisecond, least: 900},
	} {
		t.Run(fmt.Sprintf("%d tenants, %d a second", c.tenants, c.perSecond), func(t *testing.T) {
			h := newHostScheduler(t, c.perSecond)
			for n := range 1000 {
				for of := range c.tenants {
					h.ask(item{podItem, tenant.Name(fmt.Sprint("greedy-", of)), "", fmt.Sprint(n)})
				}
			}
			h.run(10 * time.Second)
			if h.placed < c.least {
				t.Errorf("%d are placed in ten seconds, want %d", h.placed, c.least)
			}
			one := item{podItem, "quiet", "quiet|shop", "web"}
			h.ask(one)
			asked := h.clock.Now()
			for !h.isPlaced[one] && h.clock.Since(asked) < time.Minute {
				h.run(h.step)
			}
			if waited := h.clock.Since(asked); waited > c.longest {
				t.Errorf("another tenant's pod waits for %s, want %s at most", waited, c.longest)
			}
		})
	}
}

// hostScheduler places pods of a host in their order. A pod is there after some time, as is what it says of one.
type hostScheduler struct {
	*scheduling
	t        *testing.T
	clock    *testingclock.FakeClock
	step     time.Duration
	onHost   []hostedPod
	placed   int
	isPlaced map[item]bool
	// later is what is done when.
	later map[time.Time][]func()
}

type hostedPod struct {
	item item
	pod  *corev1.Pod
}

// hostLatency is how long it takes until what one side does is seen by the other.
const hostLatency = 50 * time.Millisecond

func newHostScheduler(t *testing.T, perSecond int) *hostScheduler {
	clock := testingclock.NewFakeClock(time.Unix(1000, 0))
	return &hostScheduler{scheduling: newScheduling(clock), t: t, clock: clock, step: time.Second / time.Duration(perSecond), isPlaced: map[item]bool{}, later: map[time.Time][]func(){}}
}

func (h *hostScheduler) after(d time.Duration, do func()) {
	at := h.clock.Now().Add(d).Truncate(h.step)
	h.later[at] = append(h.later[at], do)
}

// ask asks for a pod, which is made if it may be.
func (h *hostScheduler) ask(i item) {
	if may, _ := h.enter(i); !may {
		return
	}
	h.after(hostLatency, func() {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(h.clock.Now())}}
		h.onHost = append(h.onHost, hostedPod{i, pod})
		h.tell(i, pod)
	})
}

func (h *hostScheduler) tell(i item, pod *corev1.Pod) {
	pod = pod.DeepCopy()
	h.after(hostLatency, func() {
		for _, next := range h.note(i, []*corev1.Pod{pod}).ready {
			h.ask(next)
		}
	})
}

// run has it work for some time.
func (h *hostScheduler) run(d time.Duration) {
	for end := h.clock.Now().Add(d); h.clock.Now().Before(end); h.clock.Step(h.step) {
		now := h.later[h.clock.Now()]
		delete(h.later, h.clock.Now())
		for _, do := range now {
			do()
		}
		if len(h.onHost) == 0 {
			continue
		}
		next := h.onHost[0]
		h.onHost = h.onHost[1:]
		h.placed++
		h.isPlaced[next.item] = true
		onNode(next.pod)
		h.tell(next.item, next.pod)
	}
}

// TestNoScheduler has pods at which no scheduler looks, while it looks at those of another tenant: the next one is made
// in time.
func TestNoScheduler(t *testing.T) {
	clock := testingclock.NewFakeClock(time.Unix(1000, 0))
	s := newScheduling(clock)
	pod := func(n int) item { return item{podItem, "acme", "acme|shop", fmt.Sprint("web-", n)} }
	other := item{podItem, "globex", "globex|shop", "web"}
	scheduled := func() { // the host's scheduler looks at a pod of another tenant
		s.enter(other)
		p := spacePod(onNode)
		s.note(other, []*corev1.Pod{p})
	}
	for i := range maxUnscheduled {
		if may, _ := s.enter(pod(i)); !may {
			t.Fatal("room")
		}
	}
	wake := map[item]time.Time{} // AddAfter
	_, r := s.enter(pod(10))
	for _, i := range r.retryLater {
		wake[i] = clock.Now().Add(schedulerPatience)
	}
	made := false
	for step := 0; step < 600 && !made; step++ {
		clock.Step(time.Second)
		scheduled()
		for i, at := range wake {
			if clock.Now().Before(at) {
				continue
			}
			delete(wake, i)
			// what syncPod does
			for _, r := range []released{s.note(i, nil)} {
				for _, n := range r.ready {
					wake[n] = clock.Now()
				}
				for _, n := range r.retryLater {
					wake[n] = clock.Now().Add(schedulerPatience)
				}
			}
			may, r := s.enter(i)
			made = made || may
			for _, n := range r.retryLater {
				wake[n] = clock.Now().Add(schedulerPatience)
			}
		}
	}
	if !made {
		t.Error("the next pod is never looked at again")
	}
}

// TestPodsWaitForTheScheduler checks that a pod is not made while so many of its tenant wait, and is looked at when it
// may.
func TestPodsWaitForTheScheduler(t *testing.T) {
	w := newWorld(t, hostSpace(), spacePod(nil))
	other := func(n int) item { return item{podItem, "acme", "acme|shop", fmt.Sprint("other-", n)} }
	for i := range maxUnscheduled {
		w.scheduling.enter(other(i))
	}
	if err := w.look(); err != nil {
		t.Fatal(err)
	}
	w.expect(nil, nil)
	if may, _ := w.scheduling.enter(other(maxUnscheduled)); may {
		t.Fatal("one that came later does not wait")
	}
	w.release(w.scheduling.note(other(0), []*corev1.Pod{hostPod(spacePod(nil), onNode)}))
	if w.queue.Len() != 1 {
		t.Fatal("it is not looked at")
	}
	if err := w.look(); err != nil {
		t.Fatal(err)
	}
	w.expect(nil, []string{"create pods"})
}

// TestPlacesAreGivenUp checks that the next pod comes in place of one whose turn it is and that is not made.
func TestPlacesAreGivenUp(t *testing.T) {
	for name, pod := range map[string]*corev1.Pod{
		"gone":    nil,
		"ended":   spacePod(func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }),
		"gated":   spacePod(func(p *corev1.Pod) { p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "example.com/wait"}} }),
		"refused": spacePod(func(p *corev1.Pod) { p.Spec.HostNetwork = true }),
	} {
		t.Run(name, func(t *testing.T) {
			objects := []runtime.Object{hostSpace()}
			if pod != nil {
				objects = append(objects, pod)
			}
			w := newWorld(t, objects...)
			next := item{podItem, "acme", "acme|shop", "next"}
			for i := range maxUnscheduled - 1 {
				w.scheduling.enter(item{podItem, "acme", "acme|shop", fmt.Sprint("other-", i)})
			}
			w.scheduling.enter(itemOf(podItem, spacePod(nil)))
			if may, _ := w.scheduling.enter(next); may {
				t.Fatal("room")
			}
			if err := w.look(); err != nil {
				t.Fatal(err)
			}
			if may, _ := w.scheduling.enter(next); !may || w.queue.Len() != 1 {
				t.Errorf("%v may be made is %v, and %d are to be looked at, want it alone", next, may, w.queue.Len())
			}
		})
	}
}

// TestPodsThatWaitForCopiesMakeRoom has a pod wait for copies that has the last place of its tenant: another one takes
// it, and the pod, when it has its copies, comes after that.
func TestPodsThatWaitForCopiesMakeRoom(t *testing.T) {
	pod := spacePod(reading)
	w := newWorld(t, hostSpace(), secret(corev1.SecretTypeOpaque, "1"), pod)
	w.writeBudgets[copyBudget].wait(itemWrite{item{secretItem, "acme", "acme|shop", "other"}, writeCreation}, copiedAtOnce)
	other := func(n int) item { return item{podItem, "acme", "acme|shop", fmt.Sprint("other-", n)} }
	for n := range maxUnscheduled - 1 {
		w.scheduling.enter(other(n))
	}
	looks := func(inQueue int, onHost ...string) {
		t.Helper()
		if err := w.look(); err != nil {
			t.Fatal(err)
		}
		w.expect(nil, onHost)
		if n := len(w.scheduling.byTenant["acme"].queued); n != inQueue {
			t.Errorf("%d wait for a place, want %d", n, inQueue)
		}
	}
	looks(0)
	if may, _ := w.scheduling.enter(other(maxUnscheduled)); !may {
		t.Fatal("the pod keeps its place")
	}
	looks(0) // it asks again for its copies, and for no place
	w.clock.Step(time.Second)
	looks(1, "create secrets")
	if w.scheduling.isAside(itemOf(podItem, pod)) {
		t.Error("it waits for its place and for copies")
	}
	w.release(w.scheduling.note(other(0), []*corev1.Pod{hostPod(spacePod(nil), onNode)}))
	if w.queue.Len() != 1 {
		t.Fatal("it is not looked at")
	}
	looks(0, "create pods")
}

// TestFewPodsMakeRoom checks that not more than some pods of a tenant wait for copies beside those that have places,
// that each is forgotten when it leaves, and that one which waits for another worker alone keeps its place.
func TestFewPodsMakeRoom(t *testing.T) {
	pod := spacePod(reading)
	w := newWorld(t, hostSpace(), pod)
	in := w.copiesOf(home)
	in.mu.Lock()
	defer in.mu.Unlock()
	if err := w.look(); err != nil {
		t.Fatal(err)
	}
	if _, has := w.scheduling.byTenant["acme"].onHost[itemOf(podItem, pod)]; !has {
		t.Error("one that waits for another worker has no place")
	}
	s := newScheduling(w.clock)
	other := func(n int) item { return item{podItem, "acme", "acme|shop", fmt.Sprint("other-", n)} }
	for n := range maxUnscheduled + 1 {
		s.enter(other(n))
		s.stepAside(other(n))
		if s.isAside(other(n)) != (n < maxUnscheduled) {
			t.Errorf("%d is aside: %v", n, s.isAside(other(n)))
		}
	}
	if n := len(s.byTenant["acme"].onHost); n != 1 {
		t.Errorf("%d have places, want the last one", n)
	}
	s.leave(other(0))
	if s.stepAside(other(maxUnscheduled)); !s.isAside(other(maxUnscheduled)) {
		t.Error("who has left still waits for copies")
	}
	for n := range maxUnscheduled {
		s.leave(other(n + 1))
	}
	if len(s.byTenant) > 0 {
		t.Error("the tenant is known without pods")
	}
}

// TestStuck checks that few pods of a tenant stay on the host for which that has no node, that others are taken from it
// and made again later, and that those of other tenants, and those that get a node, are in nobody's way.
func TestStuck(t *testing.T) {
	stuck := func(p *corev1.Pod) {
		p.ResourceVersion = "7"
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable}}
	}
	now := hostPod(spacePod(nil), stuck)
	w := newWorld(t, hostSpace(), spacePod(nil), now)
	other := func(i int, of tenant.Name) item { return item{podItem, of, "shop", fmt.Sprint("stuck-", i)} }
	for i := range maxStuck {
		if !w.scheduling.mayStay(other(i, "acme")) || !w.scheduling.mayStay(other(i, "globex")) {
			t.Fatalf("%d may not stay", i)
		}
	}
	if !w.scheduling.mayStay(other(0, "acme")) {
		t.Error("one that was there may not stay")
	}
	look := func(onHost ...string) {
		t.Helper()
		if err := w.look(); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(onHost, did(w.onHost)); diff != "" {
			t.Errorf("on the host (-want +got):\n%s", diff)
		}
		w.onHost.ClearActions()
	}
	look("delete pods host-p at 7")
	ending := now.DeepCopy() // of a deletion a watch hears twice
	ending.DeletionTimestamp = new(metav1.Now())
	w.see(ending)
	look()
	if deleted := did(w.space); slices.ContainsFunc(deleted, func(did string) bool { return strings.HasPrefix(did, "delete") }) {
		t.Errorf("a pod that is withdrawn goes in its space: %v", deleted)
	}
	if err := w.hostCaches.pods.GetIndexer().Delete(now); err != nil {
		t.Fatal(err)
	}
	w.clock.Step(firstWithdrawal - time.Second)
	look()
	w.clock.Step(time.Second)
	look("create pods")

	// It is taken away again, and comes at once when another one has a node, or none is stuck any more.
	w.see(now)
	look("delete pods host-p at 7")
	if err := w.hostCaches.pods.GetIndexer().Delete(now); err != nil {
		t.Fatal(err)
	}
	look()
	w.noteStuck(other(0, "acme"), nil)
	look("create pods")
	if !w.scheduling.mayStay(other(maxStuck, "acme")) || w.scheduling.mayStay(other(maxStuck+1, "acme")) {
		t.Error("there is room for more than one, or for none")
	}
	gone := item{podItem, "acme", "acme|shop", "gone"}
	w.scheduling.mayStay(gone)
	if err := w.syncPod(t.Context(), gone); err != nil {
		t.Fatal(err)
	}
	var again []item
	for i := range maxStuck + 1 {
		again = append(again, w.scheduling.notStuck(other(i, "acme"), false)...)
		w.noteStuck(other(i, "globex"), nil)
	}
	if diff := cmp.Diff([]item{other(maxStuck+1, "acme")}, again, cmp.AllowUnexported(item{})); diff != "" || len(w.scheduling.stuck) != 0 {
		t.Errorf("left is %v; tried again (-want +got):\n%s", w.scheduling.stuck, diff)
	}
}

// TestIsStuck checks for which pods a host has no node: one that is to have another's place has one.
func TestIsStuck(t *testing.T) {
	none := []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse}}
	for name, tc := range map[string]struct {
		pod  corev1.Pod
		want bool
	}{
		"no node":              {corev1.Pod{Status: corev1.PodStatus{Conditions: none}}, true},
		"not looked at":        {corev1.Pod{}, false},
		"a node":               {corev1.Pod{Spec: corev1.PodSpec{NodeName: "n"}, Status: corev1.PodStatus{Conditions: none}}, false},
		"the place of another": {corev1.Pod{Status: corev1.PodStatus{Conditions: none, NominatedNodeName: "n"}}, false},
		"ending":               {corev1.Pod{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: new(metav1.Now())}, Status: corev1.PodStatus{Conditions: none}}, false},
	} {
		if got := isStuck(&tc.pod); got != tc.want {
			t.Errorf("%s: %v, want %v", name, got, tc.want)
		}
	}
}

// TestStuckAgain has pods that were taken from the host come back there by themselves: the place of another one is for
// those that have not.
func TestStuckAgain(t *testing.T) {
	w := newWorld(t)
	of := func(name string) item { return item{podItem, "acme", "acme|shop", name} }
	for i := range maxStuck {
		w.scheduling.mayStay(of(fmt.Sprint("stuck-", i)))
	}
	waits := hostPod(spacePod(nil), nil)
	ending := waits.DeepCopy()
	ending.DeletionTimestamp = new(metav1.Now())
	w.scheduling.mayStay(of("back"))
	w.scheduling.mayStay(of("ending"))
	w.noteStuck(of("back"), []*corev1.Pod{waits})
	w.noteStuck(of("ending"), []*corev1.Pod{ending})
	if again := w.scheduling.notStuck(of("stuck-0"), true); !slices.Equal(again, []item{of("ending")}) {
		t.Errorf("the place is for %v", again)
	}
	if again := w.scheduling.notStuck(of("stuck-1"), true); len(again) > 0 {
		t.Errorf("the next place is for %v", again)
	}
	w.scheduling.mayStay(of("stuck-0"))
	w.scheduling.mayStay(of("stuck-1"))
	w.scheduling.mayStay(of("one")) // and is taken from the host, as is the other
	w.scheduling.mayStay(of("other"))
	comes := of("one")
	if slices.Equal(w.scheduling.notStuck(of("stuck-2"), true), []item{comes}) {
		comes = of("other")
	}
	if !w.scheduling.mayStay(comes) {
		t.Fatal("there is no room for one that has come back")
	}
	if again := w.scheduling.notStuck(of("stuck-3"), true); len(again) > 0 {
		t.Errorf("the place of one of those on the host is for %v, one of them", again)
	}
}

// TestFirstOfQueueGone deletes the pod that is to ask again for all that wait: the next one does.
func TestFirstOfQueueGone(t *testing.T) {
	s := newScheduling(testingclock.NewFakeClock(time.Unix(1000, 0)))
	pod := func(n int) item { return item{podItem, "acme", "acme|shop", fmt.Sprint("web-", n)} }
	for i := range maxUnscheduled + 3 {
		s.enter(pod(i))
	}
	if r := s.leave(pod(maxUnscheduled)); !slices.Equal(r.retryLater, []item{pod(maxUnscheduled + 1)}) || len(r.ready) > 0 {
		t.Errorf("looked at are %v, and later %v", r.ready, r.retryLater)
	}
	if r := s.leave(pod(maxUnscheduled + 2)); len(r.retryLater)+len(r.ready) > 0 {
		t.Errorf("without the last one, looked at are %v, and later %v", r.ready, r.retryLater)
	}
	if r := s.leave(pod(0)); !slices.Equal(r.ready, []item{pod(maxUnscheduled + 1)}) {
		t.Errorf("in its place comes %v", r.ready)
	}
}
