package sync

import (
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tenantry/tenantry/internal/workloads/names"
	"github.com/tenantry/tenantry/internal/workloads/network"
	"github.com/tenantry/tenantry/internal/workloads/translate"
)

// elsewhere is a namespace that somebody else has made on the host: its name is computed from a UID of their choice. It
// has no label of ours, so no cache has it.
var elsewhere = names.Namespace{Installation: "i", Tenant: "acme", TenantUID: "t", Name: "shop", UID: "theirs"}

// planted returns a pod in that namespace that has the marks of one of the space.
func planted(name, uid string, change func(*corev1.Pod)) *corev1.Pod {
	s := &syncer{dns: newDNSService(nil, "")}
	of := spacePod(func(p *corev1.Pod) { p.Name, p.UID = name, types.UID(uid) })
	p := s.translated(of, translate.Home{Namespace: elsewhere, HostUID: "x"}, network.Open{})
	p.UID = types.UID("planted-" + name)
	p.Spec, p.Status.Phase = corev1.PodSpec{}, corev1.PodRunning
	if change != nil {
		change(p)
	}
	return p
}

// TestPlantedOrphans checks that what others have on the host neither counts among the orphans, by which nothing would
// be deleted any more, nor among what there is, by which more might be.
func TestPlantedOrphans(t *testing.T) {
	objects := []runtime.Object{hostSpace(), spacePod(bound), hostPod(spacePod(nil), onNode)}
	for i := range 10 {
		objects = append(objects, planted(fmt.Sprint("ghost-", i), fmt.Sprint("g", i), nil))
	}
	w := newWorld(t, objects...)
	if err := w.countOrphans(); err != nil {
		t.Error("at the start:", err)
	}
	if n := w.hostCaches.objects(); n != 1 {
		t.Errorf("there are %d objects", n)
	}
}

// TestPlantedEvents checks that a space is told nothing of what others have on the host.
func TestPlantedEvents(t *testing.T) {
	w := newWorld(t, hostSpace(), spacePod(bound), hostPod(spacePod(nil), onNode), planted("web-0", "p", nil))
	event := &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{Name: "e", Namespace: elsewhere.Host(), UID: "1"}, Reason: "Evicted", Count: 1, Message: "log in at attacker.example",
		InvolvedObject: corev1.ObjectReference{Kind: "Pod", Namespace: elsewhere.Host(), Name: "web-0", UID: "planted-web-0"},
	}
	if err := (eventStore{w.syncer}).Add(event); err != nil {
		t.Fatal(err)
	}
	if n := w.events.limits.Len(); n > 0 {
		t.Errorf("it counts for %d tenants", n)
	}
	// Its namespace may have been somebody's of ours when it was seen.
	i := item{eventItem, "acme", "acme|shop", "1"}
	w.events.pending.Set(i, event)
	if err := w.syncEvent(t.Context(), i); err != nil {
		t.Fatal(err)
	}
	if got := did(w.space); len(got) > 0 || w.events.pending.Len() > 0 {
		t.Errorf("the space is asked for %v", got)
	}
}

// TestPlantedNetworks checks that addresses of what others have on the host stay outside, and keep no pod from
// beginning.
func TestPlantedNetworks(t *testing.T) {
	objects := []runtime.Object{hostSpace(), spacePod(bound), hostPod(spacePod(nil), onNode)}
	for i := range maxSeenNetworks + 1 {
		objects = append(objects, planted(fmt.Sprint("ghost-", i), fmt.Sprint("g", i), at(fmt.Sprintf("8.8.%d.8", 2*i))))
	}
	w := newWorld(t, objects...)
	for _, obj := range w.hostCaches.pods.GetIndexer().List() {
		w.ranges.see(obj.(*corev1.Pod))
	}
	if len(w.ranges.ask) > 0 {
		t.Error("the host is asked for its ranges")
	}
	if _, err := w.ranges.find(t.Context()); err != nil {
		t.Fatal(err)
	}
	if len(w.ranges.seen) > 0 {
		t.Errorf("not outside are %v", w.ranges.seen)
	}
	if err := w.ranges.allInside(); err != nil {
		t.Error(err)
	}
}

// TestSeenBeforeItsNamespace checks that what is seen on the host before it is known whose its namespace is is looked
// at then.
func TestSeenBeforeItsNamespace(t *testing.T) {
	w := newWorld(t, hostPod(spacePod(nil), both(onNode, at("8.8.8.8"))), hostService(spaceService(nil), nil), hostClaim(spaceClaim()))
	ns := hostSpace()
	w.see(ns)
	w.hostNamespaceChanged(ns)
	got := w.taken()
	for _, k := range []kind{podItem, serviceItem, claimItem} {
		if !slices.Contains(got, k) {
			t.Errorf("%v are looked at, and no %v", got, k)
		}
	}
	if len(w.ranges.ask) == 0 {
		t.Error("nobody looks for the network of its address")
	}
}

// TestOurs checks that marks count in a namespace that has the same.
func TestOurs(t *testing.T) {
	w := newWorld(t, hostSpace())
	if _, name, ok := w.hostCaches.ours(hostPod(spacePod(nil), nil)); !ok || name != "web-0" {
		t.Errorf("a pod of ours is that of %q: %v", name, ok)
	}
	another := hostSpace()
	another.Annotations[names.NamespaceUIDAnnotation] = "of another life"
	w.see(another)
	if _, _, ok := w.hostCaches.ours(hostPod(spacePod(nil), nil)); ok {
		t.Error("a namespace of other marks is taken for its own")
	}
	if _, _, ok := w.hostCaches.ours(planted("web-0", "p", nil)); ok {
		t.Error("a namespace that nobody knows is taken for ours")
	}
}
