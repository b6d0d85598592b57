package sync

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"

	"github.com/tenantry/tenantry/api/v1alpha1"
)

// lives makes the cache's Tenant one with a UID, or none.
func (w *world) lives(uid types.UID, terminating bool) {
	w.t.Helper()
	t := &v1alpha1.Tenant{ObjectMeta: metav1.ObjectMeta{Name: "acme", UID: uid}}
	if terminating {
		t.DeletionTimestamp = new(metav1.Now())
	}
	if w.cache(w.tenants, t); uid == "" {
		if err := w.tenants.GetIndexer().Delete(t); err != nil {
			w.t.Fatal(err)
		}
	}
}

// leaves takes the host's namespace out of the host, or out of the cache of it alone.
func (w *world) leaves(host bool) {
	w.t.Helper()
	ns := hostSpace()
	if err := w.hostCaches.namespaces.GetIndexer().Delete(ns); err != nil {
		w.t.Fatal(err)
	}
	if host {
		_ = w.onHost.Tracker().Delete(corev1.SchemeGroupVersion.WithResource("namespaces"), "", ns.Name) // the syncer may have
	}
	w.hostNamespaceGone(ns, true)
}

// receipts works on the receipts that are to be looked at, and returns how many there were.
func (w *world) receipts() (n int, err error) {
	w.t.Helper()
	for _, i := range w.items() {
		if i.kind == receiptItem {
			n++
			err = w.ending.sync(w.t.Context(), i)
		}
	}
	return n, err
}

// restarts has another syncer begin, which knows what the one before has noted.
func (w *world) restarts() {
	w.t.Helper()
	w.ending = newEndings(w.clients, w.tenants, w.hostCaches, w.queue, w.clock)
	if err := w.ending.sync(w.t.Context(), item{kind: receiptItem}); err != nil {
		w.t.Fatal(err)
	}
}

// noted returns what a restart would know.
func (w *world) noted() map[string]string {
	w.t.Helper()
	found, err := w.space.CoreV1().ConfigMaps("kube-system").Get(w.t.Context(), "tenantry-syncer-ending", metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		w.t.Fatal(err)
	}
	return found.Data
}

// settles lets the time pass in which a worker that knew the Tenant may make a namespace.
func (w *world) settles() {
	w.clock.Step(receiptDelay)
	w.ending.enqueue("acme", "t")
}

// ends takes the host's namespace out of the host, and expects the receipt alone.
func (w *world) ends() {
	w.t.Helper()
	w.leaves(true)
	w.settles()
	if _, err := w.receipts(); err != nil {
		w.t.Error(err)
	}
	if diff := cmp.Diff([]string{written}, w.recorded()); diff != "" {
		w.t.Errorf("(-want +got):\n%s", diff)
	}
}

// expire has all events go, as after an hour.
func (w *world) expire() {
	w.t.Helper()
	w.clock.Step(time.Hour)
	list, err := w.space.EventsV1().Events("default").List(w.t.Context(), metav1.ListOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	for _, event := range list.Items {
		if err := w.space.EventsV1().Events("default").Delete(w.t.Context(), event.Name, metav1.DeleteOptions{}); err != nil {
			w.t.Fatal(err)
		}
	}
}

// recorded returns the events about the tenant.
func (w *world) recorded() (all []string) {
	w.t.Helper()
	list, err := w.space.EventsV1().Events("default").List(w.t.Context(), metav1.ListOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	for _, event := range list.Items {
		if event.Regarding.UID != "t" || event.Regarding.Name != "acme" || !strings.HasPrefix(event.Name, "acme.t.") {
			w.t.Errorf("event %s is about %v", event.Name, event.Regarding)
		}
		all = append(all, event.Reason+": "+event.Note)
	}
	return slices.Sorted(slices.Values(all))
}

const (
	noted   = "WorkloadsDeleting: namespaces of the tenant on the host cluster are being deleted: 1"
	written = "WorkloadsDeleted: of the tenant's namespaces on the host cluster (1), none is left"
)

// TestReceipt checks that a deleted tenant gets one receipt when nothing of it is on the host any more, also from
// another syncer than the one that has begun, and that it is not given before.
func TestReceipt(t *testing.T) {
	for name, restart := range map[string]bool{"": false, "restarted": true} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, hostSpace())
			w.forgetNamespace()
			w.lives("t", true)
			if err := w.syncHostNamespace(t.Context(), item{kind: hostNamespaceItem, tenant: "acme", name: home.Host()}); err != nil {
				t.Fatal(err)
			}
			step := func(when string, looks int, fails bool, want ...string) {
				t.Helper()
				if n, err := w.receipts(); n != looks || (err != nil) != fails {
					t.Errorf("%s, it is looked at %d times, with %v", when, n, err)
				}
				if diff := cmp.Diff(want, w.recorded()); diff != "" {
					t.Errorf("%s (-want +got):\n%s", when, diff)
				}
			}
			step("while the namespace ends", 1, false, noted)
			if restart {
				w.restarts()
				step("after a restart", 1, false, noted)
			}
			w.leaves(true)
			step("while there is the Tenant", 1, false, noted)
			w.settles()
			step("while there still is the Tenant", 1, false, noted)
			w.lives("", false)
			w.add(w.onHost, hostSpace())
			w.tenantGone(&v1alpha1.Tenant{ObjectMeta: metav1.ObjectMeta{Name: "acme", UID: "t"}}, true)
			step("while a worker may still make one", 1, false, noted)
			w.settles()
			step("while the cache is behind", 1, true, noted)
			w.leaves(true)
			step("when all is gone", 1, false, written)
			w.leaves(true)
			w.tenantGone(&v1alpha1.Tenant{ObjectMeta: metav1.ObjectMeta{Name: "acme", UID: "t"}}, true)
			step("after that", 0, false, written)
			w.restarts()
			step("after another restart", 0, false, written)
		})
	}
}

// TestNoReceipt checks that there is none for a tenant that lives, or that had nothing on the host, nor of what
// somebody else deletes.
func TestNoReceipt(t *testing.T) {
	w := newWorld(t, hostSpace())
	w.forgetNamespace()
	if err := w.syncHostNamespace(t.Context(), item{kind: hostNamespaceItem, tenant: "acme", name: home.Host()}); err != nil {
		t.Fatal(err)
	}
	w.leaves(true)
	w.lives("", false)
	w.tenantGone(&v1alpha1.Tenant{ObjectMeta: metav1.ObjectMeta{Name: "acme", UID: "t"}}, true)
	if n, err := w.receipts(); n > 0 || err != nil {
		t.Errorf("a receipt of a tenant is looked at %d times, with %v", n, err)
	}
	if got := w.recorded(); len(got) > 0 {
		t.Errorf("there are %v", got)
	}
}

// TestReceiptOfOneThatEnds checks that what was already being deleted when its Tenant went, or when the syncer began,
// has a receipt.
func TestReceiptOfOneThatEnds(t *testing.T) {
	ends := hostSpace()
	ends.DeletionTimestamp, ends.Finalizers = new(metav1.Now()), []string{"kubernetes"}
	w := newWorld(t, ends)
	look := func(want ...string) {
		t.Helper()
		if err := w.syncHostNamespace(t.Context(), item{kind: hostNamespaceItem, tenant: "acme", name: home.Host()}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.receipts(); err != nil {
			t.Error(err)
		}
		if diff := cmp.Diff(want, w.recorded()); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
	look()
	w.lives("next", false) // another life of the name
	look(noted)
	w.ends()
}

// TestReceiptAfterEvents checks that what is noted of a tenant does not go with the events, is bounded, and goes with
// the receipt, and that no list of events is asked for.
func TestReceiptAfterEvents(t *testing.T) {
	w := newWorld(t, hostSpace())
	w.forgetNamespace()
	w.lives("", false)
	for n := range maxEnding {
		w.ending.going.Set(types.UID(fmt.Sprint(n)), endingTenant{there: 1})
	}
	i := item{kind: hostNamespaceItem, tenant: "acme", name: home.Host()}
	w.cache(w.hostCaches.namespaces, func() *corev1.Namespace {
		ends := hostSpace()
		ends.DeletionTimestamp = new(metav1.Now())
		return ends
	}())
	look := func(fails bool) {
		t.Helper()
		if err := w.syncHostNamespace(t.Context(), i); err != nil {
			t.Error(err)
		}
		if _, err := w.receipts(); (err != nil) != fails {
			t.Errorf("got %v", err)
		}
	}
	look(false)
	if got := w.noted(); len(got) > 0 {
		t.Errorf("more than %d are noted: %v", maxEnding, got)
	}
	w.ending.going.Delete("0")
	refused := true
	w.space.PrependReactor("*", "configmaps", func(clienttesting.Action) (bool, runtime.Object, error) {
		return refused, nil, errors.New("refused")
	})
	w.ending.enqueue("acme", "t")
	look(true)
	refused = false
	w.ending.enqueue("acme", "t")
	look(false)
	if diff := cmp.Diff(map[string]string{"t": "acme 1"}, w.noted()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	w.expire()
	w.space.ClearActions()
	w.restarts()
	for _, action := range w.space.Actions() {
		if action.GetVerb() != "get" || action.GetResource().Resource != "configmaps" {
			t.Errorf("a restart asks for %v", action)
		}
	}
	w.leaves(true)
	for range 2 { // the other one does not know since when there is no Tenant
		if _, err := w.receipts(); err != nil {
			t.Error(err)
		}
		w.settles()
	}
	if diff := cmp.Diff([]string{written}, w.recorded()); diff != "" || len(w.noted()) > 0 {
		t.Errorf("%v is noted, and (-want +got):\n%s", w.noted(), diff)
	}
}

// TestNoteFails checks that a note that cannot be written keeps neither what a deleted tenant has on the host, nor its
// receipt, and that one that cannot be read is read later.
func TestNoteFails(t *testing.T) {
	w := newWorld(t, hostSpace())
	w.forgetNamespace()
	w.lives("", false)
	verb := "get"
	w.space.PrependReactor("*", "configmaps", func(action clienttesting.Action) (bool, runtime.Object, error) {
		return action.GetVerb() == verb, nil, errors.New("refused")
	})
	if err := w.ending.sync(t.Context(), item{kind: receiptItem}); err == nil {
		t.Error("nothing is read, without an error")
	}
	w.expect(nil, nil)
	verb = "patch"
	if err := w.syncHostNamespace(t.Context(), item{kind: hostNamespaceItem, tenant: "acme", name: home.Host()}); err != nil {
		t.Error(err)
	}
	w.expect([]string{"patch configmaps"}, []string{"delete namespaces h"})
	if _, err := w.receipts(); err == nil {
		t.Error("it is not tried again")
	}
	verb = ""
	w.ends()
}

// TestKept checks that an event says why something of a deleted tenant stays, for as long as it does, and that there is
// a receipt nevertheless when it has gone.
func TestKept(t *testing.T) {
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{
		Namespace: home.Host(), Name: "data", UID: "hc", Labels: home.Labels(), Annotations: home.MarksOf("data", types.UID("c")),
	}}
	for name, tc := range map[string]struct {
		objects []runtime.Object
		limit   int
		why     string
	}{
		"by a claim":   {[]runtime.Object{hostSpace(), claim}, 2, "WorkloadsKept: the host's namespace \"" + home.Host() + "\" is of one that is not in its space"},
		"by the guard": {[]runtime.Object{hostSpace()}, 0, "WorkloadsKept: 1 of 0 objects on the host are made of what no space has"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, tc.objects...)
			w.orphans.limit = tc.limit
			w.forgetNamespace()
			w.lives("", false)
			i := item{kind: hostNamespaceItem, tenant: "acme", name: home.Host()}
			for range 2 {
				w.expire()
				if err := w.syncHostNamespace(t.Context(), i); err == nil {
					t.Error("it goes")
				}
				w.ending.enqueue("acme", "t")
				if _, err := w.receipts(); err != nil {
					t.Error(err)
				}
				if got := w.recorded(); len(got) != 1 || !strings.HasPrefix(got[0], tc.why) {
					t.Errorf("got %q, want %q", got, tc.why)
				}
			}
			w.ends()
		})
	}
}

// TestKeptInTheEnd checks that an event says either that namespaces go, or why one of them stays, and not both.
func TestKeptInTheEnd(t *testing.T) {
	w := newWorld(t, hostSpace())
	w.forgetNamespace()
	w.lives("", false)
	if err := w.ending.note(t.Context(), home); err != nil {
		t.Fatal(err)
	}
	look := func(want string) {
		t.Helper()
		w.ending.enqueue("acme", "t")
		if _, err := w.receipts(); err != nil {
			t.Error(err)
		}
		if diff := cmp.Diff([]string{want}, w.recorded()); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
	look(noted)
	w.ending.keep(home, home.Host(), errors.New("of two claims"))
	look("WorkloadsKept: of two claims")
	w.ending.kept.Delete(home.Host())
	look(noted)
	w.ends()
}

// TestKeptIsRenewed checks that the event says what is so when it is tried again, and is new then, as it would expire.
func TestKeptIsRenewed(t *testing.T) {
	w := newWorld(t, hostSpace())
	w.forgetNamespace()
	w.lives("", false)
	w.ending.keep(home, home.Host(), errors.New("of two claims"))
	if err := w.ending.note(t.Context(), home); err != nil {
		t.Fatal(err)
	}
	one := func(want string) *eventsv1.Event {
		t.Helper()
		w.ending.enqueue("acme", "t")
		if _, err := w.receipts(); err != nil {
			t.Fatal(err)
		}
		list, err := w.space.EventsV1().Events("default").List(t.Context(), metav1.ListOptions{})
		if err != nil || len(list.Items) != 1 || list.Items[0].Note != want {
			t.Fatalf("the events are %v, want one of %q: %v", list.Items, want, err)
		}
		return &list.Items[0]
	}
	first := one("of two claims")
	if again := one("of two claims"); !again.EventTime.Equal(&first.EventTime) {
		t.Error("the event is written again at once")
	}
	w.clock.Step(sayAgain)
	later := one("of two claims")
	if later.EventTime.Equal(&first.EventTime) {
		t.Error("the event is not renewed")
	}
	w.ending.keep(home, home.Host(), errors.New("of one claim"))
	one("of one claim")
}

// TestNoteOfNone checks that there is a receipt of what goes while it is noted.
func TestNoteOfNone(t *testing.T) {
	w := newWorld(t, hostSpace())
	w.lives("", false)
	w.leaves(true)
	if err := w.ending.note(t.Context(), home); err != nil {
		t.Fatal(err)
	}
	w.settles()
	if n, err := w.receipts(); n != 1 || err != nil {
		t.Errorf("it is looked at %d times, with %v", n, err)
	}
}

// TestMadeAgain checks that what was made again under its name while the watch was broken is one that has gone, and
// another.
func TestMadeAgain(t *testing.T) {
	w := newWorld(t, hostSpace())
	h := handler{changed: func(any) {}, updated: w.tenantUpdated, gone: w.tenantGone}
	w.items()
	of := func(uid types.UID) *v1alpha1.Tenant {
		return &v1alpha1.Tenant{ObjectMeta: metav1.ObjectMeta{Name: "acme", UID: uid, ResourceVersion: string(uid)}}
	}
	h.OnUpdate(of("t"), of("next"))
	if diff := cmp.Diff([]item{{kind: hostNamespaceItem, tenant: "acme", name: home.Host()}}, w.items(), cmp.AllowUnexported(item{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if _, seen := w.deleted.of("t"); seen {
		t.Error("somebody was seen to delete it")
	}
	h.OnUpdate(of("next"), func() *v1alpha1.Tenant {
		t := of("next")
		t.ResourceVersion = "2"
		return t
	}())
	if got := w.items(); len(got) > 0 {
		t.Errorf("of one that has changed, %v are looked at", got)
	}
	var told []string
	tell := handler{changed: func(o any) { told = append(told, "changed "+string(o.(metav1.Object).GetUID())) }}
	tell.gone = func(o any, seen bool) {
		told = append(told, fmt.Sprintf("gone %s %v", o.(metav1.Object).GetUID(), seen))
	}
	tell.OnUpdate(of("t"), of("next"))
	if diff := cmp.Diff([]string{"gone t false", "changed next"}, told); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestReceiptOfIdle checks that an idle namespace that goes while its Tenant is being deleted has a receipt, too.
func TestReceiptOfIdle(t *testing.T) {
	w := newWorld(t, hostSpace())
	w.lives("t", true)
	w.idle.left(home.Host())
	w.clock.Step(idleNamespace)
	if err := w.syncHostNamespace(t.Context(), item{kind: hostNamespaceItem, tenant: "acme", name: home.Host()}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{"t": "acme 1"}, w.noted()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
