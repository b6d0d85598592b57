package sync

import (
	"strconv"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/util/workqueue"

	"github.com/google/go-cmp/cmp"
	"github.com/tenantry/tenantry/internal/tenant"
)

func hostEvent(uid, about types.UID, message string) *corev1.Event {
	return &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Name: "e", Namespace: home.Host(), UID: uid},
		InvolvedObject: corev1.ObjectReference{Kind: "Pod", Namespace: home.Host(), Name: "web-0", UID: about},
		Reason:         "FailedScheduling", Message: message, Count: 1,
	}
}

// TestHostEvents checks which events of the host a space is told, and what of them.
func TestHostEvents(t *testing.T) {
	w := newWorld(t, hostSpace(), spacePod(nil), hostPod(spacePod(nil), nil))
	told := func() []corev1.Event {
		t.Helper()
		for w.queue.Len() > 0 {
			i, _ := w.queue.Get()
			if err := w.sync(t.Context(), i); err != nil {
				t.Fatal(err)
			}
			w.queue.finished(i, 0)
		}
		all, err := w.space.CoreV1().Events("acme|shop").List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return all.Items
	}
	for name, event := range map[string]*corev1.Event{
		"of another pod of the name": hostEvent("1", "other", ""),
		"of a pod of the host":       {ObjectMeta: metav1.ObjectMeta{UID: "2"}, InvolvedObject: corev1.ObjectReference{Kind: "Pod", Namespace: "kube-system", Name: "web-0"}},
	} {
		if err := (eventStore{w.syncer}).Add(event); err != nil || len(told()) > 0 {
			t.Errorf("%s: told %v, %v", name, told(), err)
		}
	}
	event := hostEvent("3", "host-p", "0/37 nodes are available: 37 Insufficient cpu.")
	for range 2 {
		if err := (eventStore{w.syncer}).Add(event); err != nil {
			t.Fatal(err)
		}
		all := told()
		if len(all) != 1 || all[0].InvolvedObject.UID != "p" || all[0].Message != "no node of the host cluster can run the pod now: Insufficient cpu" {
			t.Fatalf("told %+v", all)
		}
		again := *event
		again.Count = 2
		event = &again
	}
	if kept := w.events.pending.Len(); kept > 0 {
		t.Errorf("kept are %v", kept)
	}
}

// laterQueue notes for how long items wait.
type laterQueue struct {
	workqueue.TypedRateLimitingInterface[item]
	later map[item]time.Duration
}

func (q *laterQueue) AddAfter(i item, wait time.Duration) { q.later[i] = wait }

// TestToldLater checks that what a space has no room for is told a minute later: an event of the host, and what the
// syncer says of an object.
func TestToldLater(t *testing.T) {
	pod := spacePod(nil)
	w := newWorld(t, hostSpace(), pod, hostPod(pod, nil))
	q := &laterQueue{w.queue.TypedRateLimitingInterface, map[item]time.Duration{}}
	w.queue.TypedRateLimitingInterface = q
	full := true
	w.space.PrependReactor("create", "events", func(clienttesting.Action) (bool, runtime.Object, error) {
		return full, nil, apierrors.NewTooManyRequests("full", 1)
	})
	w.eventSeen(hostEvent("3", "host-p", "Failed"))
	event := itemFor(eventItem, "acme|shop", "3")
	if err := w.syncEvent(t.Context(), event); err != nil {
		t.Error(err)
	}
	if err := w.recordRefusal(t.Context(), pod, "why"); err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff(map[item]time.Duration{event: unrecordedTime, itemOf(podItem, pod): unrecordedTime}, q.later, cmp.AllowUnexported(item{})); diff != "" {
		t.Errorf("looked at later (-want +got):\n%s", diff)
	}
	for i := range 2 * eventsPerMinute { // of a pod that fails all the time
		w.eventSeen(hostEvent(types.UID(strconv.Itoa(i+10)), "host-p", "Failed"))
		if err := w.syncEvent(t.Context(), itemFor(eventItem, "acme|shop", strconv.Itoa(i+10))); err != nil {
			t.Error(err)
		}
	}
	if kept := w.events.pending.Len(); kept > eventsPerMinute/2 {
		t.Errorf("a space that has no room has %d events waiting", kept)
	}
	for i := range w.events.pending.All() {
		if err := w.syncEvent(t.Context(), i); err != nil {
			t.Error(err)
		}
	}
	if kept := w.events.pending.Len(); kept > 0 {
		t.Errorf("a tenant that has had its events has %d waiting", kept)
	}
	w.clock.Step(time.Minute)
	w.eventSeen(hostEvent("3", "host-p", "Failed"))
	full = false
	if err := w.syncEvent(t.Context(), event); err != nil {
		t.Error(err)
	}
	if told, err := w.space.CoreV1().Events("acme|shop").List(t.Context(), metav1.ListOptions{}); err != nil || len(told.Items) != 1 || w.events.pending.Len() > 0 {
		t.Errorf("told are %v, %v", told, err)
	}
}

// TestHostEventsAreLimited checks that no pod of a tenant fills the queue with events.
func TestHostEventsAreLimited(t *testing.T) {
	w := newWorld(t)
	limits := newEventLimits()
	count := func(n tenant.Name) (told int) {
		for range 2 * eventsPerMinute {
			if limits.Take(w.clock.Now(), n, 1) == 0 {
				told++
			}
		}
		return told
	}
	if got := count("acme"); got != eventsPerMinute {
		t.Errorf("%d are told", got)
	}
	if got := count("globex"); got != eventsPerMinute {
		t.Errorf("%d of another are told", got)
	}
	w.clock.Step(time.Minute + time.Second)
	if got := count("acme"); got != eventsPerMinute {
		t.Errorf("a minute later %d are told", got)
	}
}

// TestToldOnce checks that the same event is not posted again and again, and that no tenant has very many posted.
func TestToldOnce(t *testing.T) {
	pod := spacePod(nil)
	w := newWorld(t, pod)
	tell := func(of *corev1.Pod, why string) int {
		t.Helper()
		w.space.ClearActions()
		if err := w.recordRefusal(t.Context(), of, why); err != nil {
			t.Fatal(err)
		}
		return len(w.space.Actions())
	}
	if first, again, another := tell(pod, "a"), tell(pod, "a"), tell(pod, "b"); first != 1 || again != 0 || another != 1 {
		t.Errorf("%d, %d and %d are posted", first, again, another)
	}
	w.clock.Step(time.Hour)
	if later := tell(pod, "a"); later != 1 {
		t.Error("it is not told when the space has forgotten it")
	}
	posted := 0
	for i := range 2 * eventsPerMinute {
		posted += tell(pod, strconv.Itoa(i))
	}
	if globex := tell(spacePod(func(p *corev1.Pod) { p.Namespace = "globex|shop" }), "a"); posted != eventsPerMinute-1 || globex != 1 {
		t.Errorf("%d are posted in a minute, and %d of another tenant", posted, globex)
	}
	w.clock.Step(2 * time.Minute)
	if last := tell(pod, strconv.Itoa(2*eventsPerMinute-1)); last != 1 {
		t.Error("what was too much is never told")
	}
	refuses := true
	w.space.PrependReactor("create", "events", func(clienttesting.Action) (bool, runtime.Object, error) {
		return refuses, nil, apierrors.NewTooManyRequests("busy", 1)
	})
	refused := tell(pod, "busy")
	refuses = false
	if again := tell(pod, "busy"); refused != 1 || again != 1 {
		t.Errorf("what the space had no room for is posted %d times, and then %d", refused, again)
	}
}

// TestPatch checks that a change is of one pod alone, and leaves what the host's components have added.
func TestPatch(t *testing.T) {
	before := spacePod(func(p *corev1.Pod) { p.Labels = map[string]string{"gone": "x", "kept": "x"} })
	host := hostPod(before, func(p *corev1.Pod) {
		p.Labels["host"], p.Annotations["host"] = "x", "x"
		p.Annotations["gone"] = "of the host" // as a label of the space is called
	})
	now := hostPod(spacePod(func(p *corev1.Pod) { p.Labels = map[string]string{"kept": "y"} }), nil)
	patch := patchOf(now, host)["metadata"].(map[string]any)
	labels := patch["labels"].(map[string]any)
	if _, named := labels["host"]; named || labels["kept"] != "y" {
		t.Errorf("the patch is %v", patch)
	}
	if value, named := labels["gone"]; !named || value != nil {
		t.Errorf("a label stays: %v", labels)
	}
	if _, named := patch["annotations"].(map[string]any)["gone"]; named {
		t.Errorf("an annotation of the host goes with a label: %v", patch)
	}
	if _, named := patch["annotations"].(map[string]any)["host"]; named {
		t.Errorf("an annotation of the host is changed: %v", patch)
	}
}
