package sync

import (
	"maps"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/uuid"
	clienttesting "k8s.io/client-go/testing"

	"github.com/tenantry/tenantry/internal/workloads/names"
	"github.com/tenantry/tenantry/internal/workloads/translate"
)

func spaceService(change func(*corev1.Service)) *corev1.Service {
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "acme|shop", UID: "s"},
		Spec: corev1.ServiceSpec{
			Selector: map[string]string{"app": "web"}, ClusterIP: "10.0.0.1", ClusterIPs: []string{"10.0.0.1"}, Ports: []corev1.ServicePort{{Port: 80}},
		},
	}
	if change != nil {
		change(service)
	}
	return service
}

// hostService returns the host's Service for one of the space.
func hostService(of *corev1.Service, change func(*corev1.Service)) *corev1.Service {
	host := translate.Rules{}.Service(of, home)
	host.UID = "hs"
	if change != nil {
		change(host)
	}
	return host
}

// madeAgo dates what the host has by the clock of a world.
func madeAgo(d time.Duration) func(*corev1.Service) {
	return func(s *corev1.Service) { s.CreationTimestamp = metav1.NewTime(time.Unix(1000, 0).Add(-d)) }
}

func (w *world) lookAtService() error {
	return w.syncService(w.t.Context(), item{serviceItem, "acme", "acme|shop", "web"})
}

func TestServices(t *testing.T) {
	other := spaceService(func(s *corev1.Service) { s.Spec.Ports[0].Port = 81 })
	changing := func(s *corev1.Service) { s.Annotations[names.ChangeAnnotation] = "now" }
	for name, tc := range map[string]struct {
		objects         []runtime.Object
		before          func(*world)
		inSpace, onHost []string
		fail            string
	}{
		"one from before": {
			objects: []runtime.Object{hostSpace(), spaceService(nil)}, onHost: []string{"create services"},
		},
		"the first of a namespace": {
			objects: []runtime.Object{spaceService(nil)},
			onHost:  []string{"create namespaces", "create rolebindings", "create rolebindings", "patch namespaces", "create networkpolicies", "create networkpolicies", "create networkpolicies", "create services"},
		},
		"one for which its tenant has too many namespaces": {
			objects: []runtime.Object{spaceService(nil)}, before: func(w *world) { w.maxNamespaces = 0 },
			inSpace: []string{"create events"}, fail: "may not have more",
		},
		"one that a host must not get": {
			objects: []runtime.Object{hostSpace(), spaceService(func(s *corev1.Service) { s.Spec.ExternalIPs = []string{"8.8.8.8"} })},
			inSpace: []string{"patch services/status"},
		},
		"one whose address is another's": {
			objects: []runtime.Object{hostSpace(), spaceService(nil)},
			before: func(w *world) {
				w.onHost.PrependReactor("create", "services", func(clienttesting.Action) (bool, runtime.Object, error) {
					return true, nil, apierrors.NewInvalid(corev1.SchemeGroupVersion.WithKind("Service").GroupKind(), "web", nil)
				})
			},
			inSpace: []string{"patch services/status"}, onHost: []string{"create services"}, fail: "is invalid",
		},
		"one that is as it is to be": {objects: []runtime.Object{hostSpace(), spaceService(nil), hostService(spaceService(nil), nil)}},
		"one that is taken after all": {
			objects: []runtime.Object{hostSpace(), spaceService(func(s *corev1.Service) {
				s.Status.Conditions = []metav1.Condition{{Type: conditionOnHost, Status: metav1.ConditionFalse}}
			}), hostService(spaceService(nil), nil)},
			inSpace: []string{"patch services/status"},
		},
		"one that is ending": {
			objects: []runtime.Object{hostSpace(), spaceService(func(s *corev1.Service) { s.DeletionTimestamp = new(metav1.Now()) }), hostService(spaceService(nil), nil)},
		},
		"one that has changed": {
			objects: []runtime.Object{hostSpace(), other, hostService(spaceService(nil), nil)}, onHost: []string{"update services"},
		},
		"one that selects pods there, as before": {
			objects: []runtime.Object{hostSpace(), spaceService(nil), hostService(spaceService(nil), func(s *corev1.Service) { s.Spec.Selector = map[string]string{"app": "web"} })},
			onHost:  []string{"update services"},
		},
		"one whose ports are not the host's": {
			objects: []runtime.Object{hostSpace(), spaceService(nil), hostService(spaceService(nil), func(s *corev1.Service) { s.Spec.Ports[0].NodePort = 30000 })},
			onHost:  []string{"update services"},
		},
		"one that a server is changing": {
			objects: []runtime.Object{hostSpace(), spaceService(nil), hostService(other, changing)},
		},
		"one that a server has changed": {
			objects: []runtime.Object{hostSpace(), other, hostService(other, changing)}, onHost: []string{"update services"},
		},
		"one that a server has changed, and not stored": {
			objects: []runtime.Object{hostSpace(), spaceService(nil), hostService(other, changing)},
			before: func(w *world) {
				w.making.left("hs") // an earlier change, which was refused
				w.clock.Step(inTheMaking)
			},
			onHost: []string{"update services"},
		},
		"one in the making": {objects: []runtime.Object{hostSpace(), hostService(spaceService(nil), nil)}},
		"one in the making, by a clock that is behind": {
			objects: []runtime.Object{hostSpace(), hostService(spaceService(nil), madeAgo(clocksDiffer))},
		},
		"one that was deleted while nobody looked": {
			objects: []runtime.Object{hostSpace(), hostService(spaceService(nil), madeAgo(inTheMaking+clocksDiffer))},
			onHost:  []string{"delete services hs"},
		},
		"one that was made again while nobody looked": {
			objects: []runtime.Object{hostSpace(), spaceService(func(s *corev1.Service) { s.UID = "next" }), hostService(spaceService(nil), madeAgo(inTheMaking+clocksDiffer))},
			onHost:  []string{"delete services hs", "create services"},
		},
		"too many that were deleted while nobody looked": {
			objects: []runtime.Object{hostSpace(), hostService(spaceService(nil), madeAgo(inTheMaking+clocksDiffer))},
			before:  func(w *world) { w.orphans.limit = 0 },
			fail:    "of what no space has",
		},
		"one that was not stored": {
			objects: []runtime.Object{hostSpace(), hostService(spaceService(nil), nil)},
			before: func(w *world) {
				w.making.left("hs")
				w.clock.Step(inTheMaking)
			},
			onHost: []string{"delete services hs"},
		},
		"too many that were not stored": {
			objects: []runtime.Object{hostSpace(), hostService(spaceService(nil), nil)},
			before: func(w *world) {
				w.making.left("hs")
				w.clock.Step(inTheMaking)
				w.orphans.limit = 0
			},
			fail: "of what no space has",
		},
		"one that was deleted": {
			objects: []runtime.Object{hostSpace(), hostService(spaceService(nil), nil)},
			before: func(w *world) {
				w.deleted.note("s", false)
				w.orphans.limit = 0
			},
			onHost: []string{"delete services hs"},
		},
		"one that was made again": {
			objects: []runtime.Object{hostSpace(), spaceService(func(s *corev1.Service) { s.UID = "next" }), hostService(spaceService(nil), nil)},
			before:  func(w *world) { w.deleted.note("s", false) },
			onHost:  []string{"delete services hs", "create services"},
		},
		"one of which the cache is behind": {
			objects: []runtime.Object{hostSpace(), hostService(spaceService(nil), nil)},
			before: func(w *world) {
				w.deleted.note("s", false)
				w.add(w.space, spaceService(nil))
			},
			fail: "behind",
		},
		"one of an earlier life of its namespace": {
			objects: []runtime.Object{hostSpace(), spaceService(nil), func() *corev1.Service {
				before := home
				before.UID = "before"
				host := translate.Rules{}.Service(spaceService(nil), before)
				host.UID = "hs"
				return host
			}(), func() *corev1.Namespace {
				before := home
				before.UID = "before"
				return hostNamespace(before, "")
			}()},
			fail: "is not where its namespace is",
		},
		"another's in its place": {
			objects: []runtime.Object{hostSpace(), spaceService(nil)},
			before: func(w *world) {
				w.add(w.onHost, &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: home.Host()}})
			},
			inSpace: []string{"patch services/status"}, onHost: []string{"create services"}, fail: "whoever administers the host is to remove it",
		},
		"what an answer was lost of": {
			objects: []runtime.Object{hostSpace(), spaceService(nil)},
			before:  func(w *world) { w.add(w.onHost, hostService(spaceService(nil), nil)) },
			onHost:  []string{"create services"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, tc.objects...)
			if tc.before != nil {
				tc.before(w)
			}
			err := w.lookAtService()
			if (err != nil) != (tc.fail != "") || err != nil && !strings.Contains(err.Error(), tc.fail) {
				t.Errorf("got error %v, want %q", err, tc.fail)
			}
			w.expect(tc.inSpace, tc.onHost)
		})
	}
}

// TestServiceIsReplaced checks that a changed Service keeps what the host needs to take it for the same one.
func TestServiceIsReplaced(t *testing.T) {
	changed := spaceService(func(s *corev1.Service) { s.Spec.Ports[0].Port = 81 })
	w := newWorld(t, hostSpace(), changed, hostService(spaceService(nil), func(s *corev1.Service) { s.ResourceVersion = "7" }))
	if err := w.lookAtService(); err != nil {
		t.Fatal(err)
	}
	for _, action := range w.onHost.Actions() {
		if update, ok := action.(clienttesting.UpdateAction); ok {
			got := update.GetObject().(*corev1.Service)
			if got.UID != "hs" || got.ResourceVersion != "7" || got.Spec.Ports[0].Port != 81 || got.Labels[names.InstallationLabel] != "i" {
				t.Errorf("updated to %+v", got)
			}
			return
		}
	}
	t.Errorf("did %v", did(w.onHost))
}

func TestWanted(t *testing.T) {
	namespace := func(wanted string) *corev1.Namespace {
		return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "acme|shop", UID: "n", Annotations: map[string]string{names.WantedAnnotation: wanted}}}
	}
	all := []string{"create namespaces", "create rolebindings", "create rolebindings", "patch namespaces", "create networkpolicies", "create networkpolicies", "create networkpolicies"}
	for name, tc := range map[string]struct {
		at     time.Duration
		text   string
		ends   bool
		onHost []string
	}{
		"now":               {onHost: all},
		"by another clock":  {at: time.Minute, onHost: all},
		"long ago":          {at: -wantedFor},
		"in a far future":   {at: wantedFor},
		"at no time":        {text: "soon"},
		"by one that ends":  {ends: true},
		"by a tenant's lie": {text: strings.Repeat("9", 1000)},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			text := tc.text
			if text == "" {
				text = w.clock.Now().Add(tc.at).Format(time.RFC3339Nano)
			}
			n := namespace(text)
			if tc.ends {
				n.DeletionTimestamp = new(metav1.Now())
			}
			w.see(n)
			w.namespaceChanged(n)
			if queued := w.queue.Len() > 0; queued != (tc.onHost != nil || tc.ends) {
				t.Errorf("queued: %t", queued)
			}
			if err := w.syncWanted(t.Context(), item{kind: wantedItem, tenant: "acme", namespace: "acme|shop"}); err != nil {
				t.Fatal(err)
			}
			w.expect(nil, tc.onHost)
		})
	}
}

// TestServiceEvents checks who is looked at for what happens to Services, and that nobody is for those of the system
// space.
func TestServiceEvents(t *testing.T) {
	w := newWorld(t, hostSpace())
	system := spaceService(func(s *corev1.Service) { s.Namespace = "shop" })
	w.serviceChanged(system)
	foreign := hostService(spaceService(nil), func(s *corev1.Service) { maps.DeleteFunc(s.Annotations, func(string, string) bool { return true }) })
	w.hostServiceChanged(foreign)
	w.hostServiceGone(foreign, true)
	if w.queue.Len() > 0 {
		t.Error("something of others is looked at")
	}
	w.serviceGone(spaceService(nil), true)
	if _, seen := w.deleted.of("s"); !seen {
		t.Error("the deletion was not seen")
	}
	w.hostServiceGone(hostService(spaceService(nil), nil), true)
	for _, want := range []item{{serviceItem, "acme", "acme|shop", "web"}, {slicesItem, "acme", "acme|shop", "web"}, {kind: hostNamespaceItem, tenant: "acme", name: home.Host()}} {
		if w.queue.Len() == 0 {
			t.Fatalf("%+v is not looked at", want)
		}
		if got, _ := w.queue.Get(); got != want {
			t.Errorf("%+v is looked at, want %+v", got, want)
		}
	}
}

// TestOrphanedServices checks that much that no space has stops the deletion before it begins.
func TestOrphanedServices(t *testing.T) {
	objects := []runtime.Object{hostSpace()}
	for _, name := range []string{"a", "b", "c"} {
		objects = append(objects, hostService(spaceService(func(s *corev1.Service) { s.Name = name }), nil))
	}
	w := newWorld(t, objects...)
	err := w.countOrphans()
	if err == nil || !strings.Contains(err.Error(), "3 of 3 objects") {
		t.Errorf("got %v", err)
	}
	if again := w.orphans.allow("acme", uuid.NewUUID(), 1); again == nil || again.Error() != err.Error() {
		t.Errorf("goes on: %v", again)
	}
}
