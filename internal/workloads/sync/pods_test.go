package sync

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	metadatafake "k8s.io/client-go/metadata/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	testingclock "k8s.io/utils/clock/testing"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/tenantry/tenantry/api/v1alpha1"
	"github.com/tenantry/tenantry/internal/tenant"
	"github.com/tenantry/tenantry/internal/workloads/names"
	"github.com/tenantry/tenantry/internal/workloads/network"
	"github.com/tenantry/tenantry/internal/workloads/translate"
)

var home = names.Namespace{Installation: "i", Tenant: "acme", TenantUID: "t", Name: "shop", UID: "n"}

// world is a syncer whose caches a test fills, with what it has asked for.
type world struct {
	*syncer
	t             *testing.T
	clock         *testingclock.FakeClock
	space, onHost *fake.Clientset
	// routesInSpace and routesOnHost are where HTTPRoutes are.
	routesInSpace *dynamicfake.FakeDynamicClient
	routesOnHost  *hostRoutes
}

// newWorld returns one with the namespace shop of tenant acme and what is in the space, and on the host.
func newWorld(t *testing.T, objects ...runtime.Object) *world {
	t.Helper()
	w := &world{t: t, clock: testingclock.NewFakeClock(time.Unix(1000, 0))}
	var inSpace, onHost []runtime.Object
	for _, o := range objects {
		if strings.HasPrefix(o.(metav1.Object).GetNamespace(), "tn-") || strings.HasPrefix(o.(metav1.Object).GetName(), "tn-") {
			onHost = append(onHost, o)
		} else {
			inSpace = append(inSpace, o)
		}
	}
	inSpace = append(inSpace, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "acme|shop", UID: "n"}})
	w.space, w.onHost = fake.NewClientset(), fake.NewClientset()
	for _, o := range inSpace {
		w.add(w.space, o)
	}
	for _, o := range onHost {
		w.add(w.onHost, o)
	}
	scheme := metadatafake.NewTestScheme()
	if err := metav1.AddMetaToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	s := &syncer{
		clock: w.clock, clients: clients{installation: "i", spaces: w.space, host: w.onHost, hostMetadata: metadatafake.NewSimpleMetadataClient(scheme)},
		tenants: cache.NewSharedIndexInformer(&cache.ListWatch{}, &v1alpha1.Tenant{}, 0, nil), settings: settings{maxNamespaces: 3},
		pacing: newPacing(w.clock, 4), notes: newNotes(w.clock), guards: newGuards(w.clock, 2, "restart"),
	}
	var err error
	if s.caches, err = newCaches(informers.NewSharedInformerFactory(w.space, 0)); err != nil {
		t.Fatal(err)
	}
	s.dns = newDNSService(w.onHost, DefaultDNSService)
	w.cache(s.dns.informer, &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: names.Platform, Name: "dns"}, Spec: corev1.ServiceSpec{ClusterIPs: []string{"10.43.0.10"}}})
	s.reachable = network.Reachable{Namespace: names.Platform}
	s.hostNodes = newHostNodes(w.onHost)
	w.addRoutes(s)
	if s.hostCaches, err = newHostCaches(w.onHost, s.routes.onHost.informer, "i", names.Owner{}); err != nil {
		t.Fatal(err)
	}
	s.liveTenants = liveTenants{s}
	s.ranges = newHostRanges(s.clients, s.hostNodes, s.hostCaches, nil)
	s.ranges.ranges = network.NewRanges(nil, nil)
	s.ending = newEndings(s.clients, s.tenants, s.hostCaches, s.queue, w.clock)
	w.syncer = s
	w.cache(s.tenants, &v1alpha1.Tenant{ObjectMeta: metav1.ObjectMeta{Name: "acme", UID: "t"}})
	for _, o := range slices.Concat(inSpace, onHost) {
		w.see(o)
		if o, ok := o.(*corev1.Namespace); ok && o.Name == home.Host() {
			for _, guard := range network.Guards(home, s.ranges.current(), s.reachable) {
				network.Own(guard, s.owner)
				guard.UID = types.UID(guard.Name)
				w.add(w.onHost, guard)
				w.see(guard)
			}
		}
	}
	t.Cleanup(s.queue.ShutDown)
	return w
}

// liveTenants are those that the cache has.
type liveTenants struct{ *syncer }

func (l liveTenants) Get(_ context.Context, name string, _ metav1.GetOptions) (*v1alpha1.Tenant, error) {
	t, err := l.tenantNamed(tenant.Name(name))
	if t == nil && err == nil {
		err = apierrors.NewNotFound(v1alpha1.GroupVersion.WithResource("tenants").GroupResource(), name)
	}
	return t, err
}

// oneTenant is what the system space says, whatever the cache has.
type oneTenant struct{ *v1alpha1.Tenant }

func (o oneTenant) Get(context.Context, string, metav1.GetOptions) (*v1alpha1.Tenant, error) {
	return o.Tenant, nil
}

// add has a client know an object.
func (w *world) add(client *fake.Clientset, o runtime.Object) {
	w.t.Helper()
	if err := client.Tracker().Add(o); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) cache(informer cache.SharedIndexInformer, o runtime.Object) {
	w.t.Helper()
	if err := informer.GetIndexer().Add(o); err != nil {
		w.t.Fatal(err)
	}
}

// see puts an object into the cache of its side.
func (w *world) see(o runtime.Object) {
	w.t.Helper()
	isHost := strings.HasPrefix(o.(metav1.Object).GetNamespace(), "tn-") || strings.HasPrefix(o.(metav1.Object).GetName(), "tn-")
	core := w.informers.Core().V1()
	switch o := o.(type) {
	case *corev1.Pod:
		if isHost {
			w.cache(w.hostCaches.pods, o)
			return
		}
		w.cache(core.Pods().Informer(), o)
		w.references.set(itemOf(podItem, o), referencesOf(o))
	case *corev1.Service:
		if isHost {
			w.cache(w.hostCaches.services, o)
			return
		}
		w.cache(core.Services().Informer(), o)
	case *discoveryv1.EndpointSlice:
		slim, err := slimSlice(o.DeepCopy())
		if err != nil {
			w.t.Fatal(err)
		}
		if err := w.hostCaches.slices.GetIndexer().Add(slim); err != nil {
			w.t.Fatal(err)
		}
	case *corev1.Namespace:
		if isHost {
			w.cache(w.hostCaches.namespaces, o)
			return
		}
		w.cache(core.Namespaces().Informer(), o)
	case *networkingv1.NetworkPolicy:
		if isHost {
			o = o.DeepCopy()
			slimPolicy(o)
			w.cache(w.hostCaches.policies, o)
			return
		}
		w.cache(w.informers.Networking().V1().NetworkPolicies().Informer(), o)
	case *corev1.PersistentVolumeClaim:
		if isHost {
			w.cache(w.hostCaches.claims, o)
			return
		}
		w.cache(core.PersistentVolumeClaims().Informer(), o)
	case *corev1.PersistentVolume:
		if !isHost {
			w.cache(core.PersistentVolumes().Informer(), o)
		}
	case *corev1.Node:
		w.cache(core.Nodes().Informer(), o)
	case *storagev1.StorageClass:
		w.cache(w.informers.Storage().V1().StorageClasses().Informer(), o)
	case *policyv1.PodDisruptionBudget:
		if isHost {
			o = o.DeepCopy()
			slimBudget(o)
			w.cache(w.hostCaches.budgets, o)
			return
		}
		w.cache(w.informers.Policy().V1().PodDisruptionBudgets().Informer(), o)
	case *networkingv1.Ingress:
		if isHost {
			o = o.DeepCopy()
			slimIngress(o)
			w.cache(w.hostCaches.ingresses, o)
			return
		}
		w.cache(w.informers.Networking().V1().Ingresses().Informer(), o)
	case *unstructured.Unstructured:
		w.cache(w.routes.inSpaces.informer, o)
	case *gatewayv1.HTTPRoute:
		o = o.DeepCopy()
		slimRoute(o)
		w.cache(w.hostCaches.routes, o)
	case *corev1.ConfigMap:
		w.cache(core.ConfigMaps().Informer(), o)
	case *corev1.Secret:
		w.cache(core.Secrets().Informer(), o)
	}
}

// look has the syncer look at the pod web-0 once.
func (w *world) look() error {
	return w.syncPod(w.t.Context(), item{podItem, "acme", "acme|shop", "web-0"})
}

// did returns what was asked for but reads: verb, resource and name, as it was when it is deleted, and how long that
// waits.
func did(client interface{ Actions() []clienttesting.Action }) []string {
	var all []string
	for _, action := range client.Actions() {
		switch a := action.(type) {
		case clienttesting.GetAction, clienttesting.ListAction:
			if a.GetVerb() == "get" || a.GetVerb() == "list" {
				continue
			}
		}
		what := action.GetVerb() + " " + action.GetResource().Resource
		if sub := action.GetSubresource(); sub != "" {
			what += "/" + sub
		}
		if d, ok := action.(clienttesting.DeleteActionImpl); ok {
			if of := d.DeleteOptions.Preconditions; of != nil {
				what += " " + string(*of.UID)
				if of.ResourceVersion != nil {
					what += " at " + *of.ResourceVersion
				}
			}
			if grace := d.DeleteOptions.GracePeriodSeconds; grace != nil {
				what += " " + time.Duration(*grace*int64(time.Second)).String()
			}
		}
		all = append(all, what)
	}
	return all
}

// expect checks what was done on both sides.
func (w *world) expect(inSpace, onHost []string) {
	w.t.Helper()
	if diff := cmp.Diff(inSpace, did(w.space)); diff != "" {
		w.t.Errorf("in the space (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(onHost, did(w.onHost)); diff != "" {
		w.t.Errorf("on the host (-want +got):\n%s", diff)
	}
	w.space.ClearActions()
	w.onHost.ClearActions()
}

func spacePod(change func(*corev1.Pod)) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "web-0", Namespace: "acme|shop", UID: "p"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}},
		Status:     corev1.PodStatus{Phase: corev1.PodPending},
	}
	if change != nil {
		change(pod)
	}
	return pod
}

// hostPod returns the host's pod for one of the space, as the cache has it.
func hostPod(of *corev1.Pod, change func(*corev1.Pod)) *corev1.Pod {
	s := &syncer{dns: newDNSService(nil, "")}
	pod := s.translated(of, translate.Home{Namespace: home, HostUID: "h"}, network.Open{Ingress: true, Egress: true})
	pod.UID = types.UID("host-" + string(of.UID))
	pod.Spec = corev1.PodSpec{NodeName: pod.Spec.NodeName}
	pod.Status.Phase = corev1.PodPending
	if change != nil {
		change(pod)
	}
	return pod
}

func hostSpace() *corev1.Namespace {
	n := hostNamespace(home, "")
	n.UID = "h"
	n.Annotations[boundAnnotation] = "true"
	return n
}

func bound(p *corev1.Pod) {
	p.Spec.NodeName, p.Annotations = "node", map[string]string{names.HostUIDAnnotation: "host-p"}
}

// ranIn says in which namespace of the host a pod was, by its UID.
func ranIn(uid string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Annotations[names.HostNamespaceUIDAnnotation] = uid }
}

func over(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }

func onNode(p *corev1.Pod) { p.Spec.NodeName = "node" }

func ending(grace int64) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.DeletionTimestamp, p.DeletionGracePeriodSeconds = &metav1.Time{Time: time.Unix(1000+grace, 0)}, &grace
	}
}

// gate sets the condition of a readiness gate, and setGate adds the gate.
func gate(is corev1.ConditionStatus) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Status.Conditions = []corev1.PodCondition{{Type: "example.com/gate", Status: is}}
	}
}

func setGate(is corev1.ConditionStatus) func(*corev1.Pod) {
	return both(gate(is), func(p *corev1.Pod) {
		p.Spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: "example.com/gate"}}
	})
}

func both(changes ...func(*corev1.Pod)) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		for _, change := range changes {
			change(p)
		}
	}
}

func TestBegin(t *testing.T) {
	w := newWorld(t, spacePod(nil))
	if err := w.look(); err != nil {
		t.Fatal(err)
	}
	w.expect(nil, []string{"create namespaces", "create rolebindings", "create rolebindings", "patch namespaces",
		"create networkpolicies", "create networkpolicies", "create networkpolicies", "create pods"})
	made, err := w.onHost.CoreV1().Pods(home.Host()).Get(t.Context(), "web-0", metav1.GetOptions{})
	if err != nil || made.Annotations[names.UIDAnnotation] != "p" {
		t.Errorf("made is %+v, %v", made, err)
	}
	namespace, err := w.onHost.CoreV1().Namespaces().Get(t.Context(), home.Host(), metav1.GetOptions{})
	if err != nil || namespace.Labels["pod-security.kubernetes.io/enforce"] != "baseline" {
		t.Errorf("its namespace is %+v, %v", namespace, err)
	}
	w.onHost.ClearActions()
	// The cache does not have it yet, as after a restart: it is made once.
	w.see(namespace)
	if err := w.look(); err != nil {
		t.Fatal(err)
	}
	w.expect(nil, []string{"create networkpolicies", "create networkpolicies", "create networkpolicies", "create pods"})
}

// scheduled says since when a pod is scheduled.
func scheduled(second int64) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Unix(second, 0)}}
	}
}

func TestPods(t *testing.T) {
	old := spacePod(func(p *corev1.Pod) { p.UID = "old" })
	for name, tc := range map[string]struct {
		objects         []runtime.Object
		before          func(*world)
		inSpace, onHost []string
		fail            string
	}{
		"what waits for a gate": {objects: []runtime.Object{spacePod(func(p *corev1.Pod) { p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "g"}} })}},
		"what is over":          {objects: []runtime.Object{spacePod(func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded })}},
		"what runs elsewhere":   {objects: []runtime.Object{spacePod(func(p *corev1.Pod) { p.Spec.NodeName = "node" })}},
		"what ends by itself":   {objects: []runtime.Object{spacePod(ending(30))}},
		"what a host must not get": {
			objects: []runtime.Object{spacePod(func(p *corev1.Pod) { p.Spec.HostNetwork = true })},
			inSpace: []string{"update pods/status", "create events"},
		},
		"a binding": {
			objects: []runtime.Object{hostSpace(), spacePod(nil), hostPod(spacePod(nil), onNode)},
			inSpace: []string{"create pods/binding"},
		},
		"a binding of what runs already": {
			objects: []runtime.Object{hostSpace(), spacePod(nil), hostPod(spacePod(nil), func(p *corev1.Pod) { p.Spec.NodeName, p.Status.Phase = "node", corev1.PodRunning })},
			inSpace: []string{"create pods/binding"},
		},
		"a status of which the binding has told": {
			objects: []runtime.Object{hostSpace(), spacePod(both(bound, scheduled(2))), hostPod(spacePod(bound), both(onNode, scheduled(1)))},
		},
		"a status": {
			objects: []runtime.Object{hostSpace(), spacePod(bound), hostPod(spacePod(bound), func(p *corev1.Pod) { p.Spec.NodeName, p.Status.Phase = "node", corev1.PodRunning })},
			inSpace: []string{"update pods/status"},
		},
		"nothing new": {objects: []runtime.Object{hostSpace(), spacePod(bound), hostPod(spacePod(bound), onNode)}},
		"another label": {
			objects: []runtime.Object{hostSpace(), spacePod(func(p *corev1.Pod) { p.Labels = map[string]string{"a": "b"} }), hostPod(spacePod(nil), nil)},
			onHost:  []string{"patch pods"},
		},
		"a readiness gate": {
			objects: []runtime.Object{hostSpace(), spacePod(both(bound, setGate(corev1.ConditionTrue))), hostPod(spacePod(setGate(corev1.ConditionTrue)), both(onNode, gate(corev1.ConditionFalse)))},
			onHost:  []string{"patch pods/status"},
		},
		"a readiness gate that is the same": {
			objects: []runtime.Object{hostSpace(), spacePod(both(bound, setGate(corev1.ConditionTrue))), hostPod(spacePod(setGate(corev1.ConditionTrue)), both(onNode, gate(corev1.ConditionTrue)))},
		},
		"a deletion": {
			objects: []runtime.Object{hostSpace(), spacePod(both(bound, ending(30))), hostPod(spacePod(nil), onNode)},
			onHost:  []string{"delete pods host-p 30s"},
		},
		"a deletion at once": {
			objects: []runtime.Object{hostSpace(), spacePod(both(bound, ending(0))), hostPod(spacePod(nil), both(onNode, ending(30)))},
			onHost:  []string{"delete pods host-p 1s"},
		},
		"a deletion that takes years": {
			objects: []runtime.Object{hostSpace(), spacePod(both(bound, ending(315360000))), hostPod(spacePod(nil), onNode)},
			onHost:  []string{"delete pods host-p 1h0m0s"},
		},
		"a deletion that the host takes years for": {
			objects: []runtime.Object{hostSpace(), spacePod(both(bound, ending(315360000))), hostPod(spacePod(nil), both(onNode, ending(315360000)))},
			onHost:  []string{"delete pods host-p 1h0m0s"},
		},
		"what is over while the host's runs": {
			objects: []runtime.Object{hostSpace(), spacePod(both(bound, over)), hostPod(spacePod(nil), onNode)},
			onHost:  []string{"delete pods host-p 1s"},
		},
		"what is over and ends while the host's runs": {
			objects: []runtime.Object{hostSpace(), spacePod(both(bound, over, ending(30))), hostPod(spacePod(nil), both(onNode, ending(30)))},
			onHost:  []string{"delete pods host-p 1s"},
		},
		"what is over and ends at once": {
			objects: []runtime.Object{hostSpace(), spacePod(both(bound, over)), hostPod(spacePod(nil), both(onNode, ending(1)))},
		},
		"what is over on both sides": {
			objects: []runtime.Object{hostSpace(), spacePod(both(bound, over)), hostPod(spacePod(both(bound, over)), both(onNode, over))},
		},
		"a deletion under way": {objects: []runtime.Object{hostSpace(), spacePod(both(bound, ending(30))), hostPod(spacePod(nil), both(onNode, ending(30)))}},
		"a deletion that has come to its end": {
			objects: []runtime.Object{hostSpace(), spacePod(both(bound, ending(30)))},
			inSpace: []string{"delete pods p 0s"},
		},
		"a deletion on the host": {
			objects: []runtime.Object{hostSpace(), spacePod(bound), hostPod(spacePod(bound), both(onNode, ending(5)))},
			inSpace: []string{"delete pods p 5s"},
		},
		"what the host has lost": {
			objects: []runtime.Object{hostSpace(), spacePod(bound)},
			inSpace: []string{"delete pods p 0s"},
		},
		"more than a host loses": {
			objects: []runtime.Object{hostSpace(), spacePod(bound)},
			before: func(w *world) {
				for _, n := range []tenant.Name{"globex", "initech"} {
					if err := w.losses.allow(n, uuid.NewUUID(), 1); err != nil {
						w.t.Fatal(err)
					}
				}
			},
			fail: "3 of 3 pods of spaces have run on a host, and are not on this one: ",
		},
		"more than a host loses of a tenant": {
			objects: []runtime.Object{hostSpace(), spacePod(bound)},
			before: func(w *world) {
				if err := w.losses.allow("acme", uuid.NewUUID(), 1); err != nil {
					w.t.Fatal(err)
				}
			},
			fail: `are of the tenant "acme": the host has lost many pods`,
		},
		"what was seen to go, beyond that": {
			objects: []runtime.Object{hostSpace(), spacePod(bound)},
			before: func(w *world) {
				_ = w.losses.allow("acme", uuid.NewUUID(), 1)
				w.hostPodGone(hostPod(spacePod(nil), onNode), true)
				w.items()
			},
			inSpace: []string{"delete pods p 0s"},
		},
		"what was not seen to go, beyond that": {
			objects: []runtime.Object{hostSpace(), spacePod(bound)},
			before: func(w *world) {
				_ = w.losses.allow("acme", uuid.NewUUID(), 1)
				w.hostPodGone(hostPod(spacePod(nil), onNode), false)
				w.items()
			},
			fail: "the host has lost many pods",
		},
		"what this host has had, beyond that": {
			objects: []runtime.Object{hostSpace(), spacePod(both(bound, ranIn("h")))},
			before:  func(w *world) { _ = w.losses.allow("acme", uuid.NewUUID(), 1) },
			inSpace: []string{"delete pods p 0s"},
		},
		"what another host has had, in a namespace of the same name": {
			objects: []runtime.Object{hostSpace(), spacePod(both(bound, ranIn("of-another")))},
			before:  func(w *world) { _ = w.losses.allow("acme", uuid.NewUUID(), 1) },
			fail:    "the host has lost many pods",
		},
		"what no host has had, by an old backup": {
			objects: []runtime.Object{hostSpace(), spacePod(both(bound, ranIn("h")))},
			before: func(w *world) {
				_ = w.losses.allow("acme", uuid.NewUUID(), 1)
				_ = w.orphans.begin(map[tenant.Name]int{"acme": 100}, 100)
			},
			fail: "the host has lost many pods",
		},
		"what others have lost as well": {
			objects: []runtime.Object{hostSpace(), spacePod(bound)},
			before: func(w *world) {
				for range 2 {
					_ = w.losses.allow("globex", uuid.NewUUID(), 1)
				}
			},
			inSpace: []string{"delete pods p 0s"},
		},
		"a predecessor": {
			objects: []runtime.Object{hostSpace(), spacePod(nil), hostPod(old, nil)},
			onHost:  []string{"delete pods host-old", "create pods"},
		},
		"what somebody has deleted": {
			objects: []runtime.Object{hostSpace(), hostPod(old, nil)},
			before: func(w *world) {
				w.orphans.limit = 0
				w.deleted.note("old", false)
			},
			onHost: []string{"delete pods host-old"},
		},
		"what somebody has deleted by force": {
			objects: []runtime.Object{hostSpace(), hostPod(old, nil)},
			before:  func(w *world) { w.deleted.note("old", true) },
			onHost:  []string{"delete pods host-old 1s"},
		},
		"what is gone while the host's ends in years": {
			objects: []runtime.Object{hostSpace(), hostPod(old, both(onNode, ending(315360000)))},
			before:  func(w *world) { w.deleted.note("old", true) },
			onHost:  []string{"delete pods host-old 1s"},
		},
		"what is gone while the host's ends at once": {
			objects: []runtime.Object{hostSpace(), hostPod(old, both(onNode, ending(1)))},
			before:  func(w *world) { w.deleted.note("old", true) },
		},
		"more than go by themselves": {
			objects: []runtime.Object{hostSpace(), hostPod(old, nil)},
			before:  func(w *world) { w.orphans.limit = 0 },
			fail:    "of what no space has",
		},
		"what halted at the start": {
			objects: []runtime.Object{hostSpace(), hostPod(old, nil)},
			before: func(w *world) {
				if w.orphans.begin(map[tenant.Name]int{"acme": 3}, 3) == nil {
					w.t.Error("three of three may go")
				}
			},
			fail: "3 of 3 objects",
		},
		"somebody else's": {objects: []runtime.Object{hostSpace(), spacePod(func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }), hostPod(old, func(p *corev1.Pod) { p.Annotations[names.NamespaceUIDAnnotation] = "other" })}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, tc.objects...)
			if tc.before != nil {
				tc.before(w)
			}
			err := w.look()
			if (err != nil) != (tc.fail != "") || err != nil && !strings.Contains(err.Error(), tc.fail) {
				t.Errorf("got error %v, want %q", err, tc.fail)
			}
			w.expect(tc.inSpace, tc.onHost)
		})
	}
}

// TestBoundAlready checks that a cache which does not have the binding yet is no failure, after which a pod would wait.
func TestBoundAlready(t *testing.T) {
	w := newWorld(t, hostSpace(), spacePod(nil), hostPod(spacePod(nil), onNode))
	w.space.PrependReactor("create", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewConflict(corev1.Resource("pods/binding"), "web-0", errors.New("pod web-0 is already assigned to node"))
	})
	if err := w.look(); err != nil {
		t.Error(err)
	}
	w.expect([]string{"create pods/binding"}, nil)
}

// TestBehind checks that nothing is deleted of which the cache alone says that it is gone.
func TestBehind(t *testing.T) {
	w := newWorld(t, hostSpace(), hostPod(spacePod(nil), nil))
	w.add(w.space, spacePod(nil))
	if err := w.look(); err == nil || !strings.Contains(err.Error(), "behind") {
		t.Errorf("got %v", err)
	}
	w.expect(nil, nil)

	w = newWorld(t, hostSpace(), spacePod(bound))
	w.add(w.onHost, hostPod(spacePod(nil), nil))
	if err := w.look(); err != nil {
		t.Error(err)
	}
	w.expect(nil, nil)
}

// TestAnotherLife checks that what runs for a namespace is not taken for its successor's.
func TestAnotherLife(t *testing.T) {
	w := newWorld(t, hostSpace(), hostPod(spacePod(nil), nil), spacePod(nil))
	w.see(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "acme|shop", UID: "other"}})
	if err := w.look(); err == nil || !strings.Contains(err.Error(), "is not where its namespace is") {
		t.Errorf("got %v", err)
	}
	w.expect(nil, nil)
}

// TestForgedMarks checks that a pod in a namespace of somebody else is in nobody's way, whatever marks it has.
func TestForgedMarks(t *testing.T) {
	theirs := home
	theirs.UID = "chosen"
	forged := (&syncer{dns: newDNSService(nil, "")}).translated(spacePod(nil), translate.Home{Namespace: theirs, HostUID: "x"}, network.Open{})
	forged.UID = "forged"
	w := newWorld(t, hostSpace(), spacePod(nil), forged)
	if err := w.look(); err != nil {
		t.Error(err)
	}
	w.expect(nil, []string{"create pods"})
	own := metav1.FormatLabelSelector((names.Owner{Namespace: "team-a", ControlPlane: "one"}).Selector())
	if want := names.ControlPlaneLabel + "=one," + names.ControlPlaneNamespaceLabel + "=team-a"; own != want {
		t.Errorf("the selector is %s, want %s", own, want)
	}
}

// TestForeignInPlace checks that a pod of the host that is nobody's stays, and that the space says so. Nobody says when
// it is gone, so the pod is tried again, and has no place at the scheduler meanwhile.
func TestForeignInPlace(t *testing.T) {
	foreign := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web-0", Namespace: home.Host(), UID: "x"}}
	w := newWorld(t, hostSpace(), spacePod(nil))
	w.add(w.onHost, foreign)
	isTaken := func() {
		t.Helper()
		if err := w.look(); !errors.As(err, new(errTaken)) {
			t.Errorf("got %v, want that its name is taken", err)
		}
	}
	isTaken()
	w.expect([]string{"update pods/status", "create events"}, []string{"create pods"})
	isTaken()
	if len(w.scheduling.byTenant) > 0 {
		t.Error("it has a place at the scheduler")
	}
	if err := w.onHost.Tracker().Delete(corev1.SchemeGroupVersion.WithResource("pods"), home.Host(), "web-0"); err != nil {
		t.Fatal(err)
	}
	if err := w.look(); err != nil {
		t.Errorf("when it is gone: %v", err)
	}
}

// TestPredecessor checks that a pod waits until the one of its name has ended on the host.
func TestPredecessor(t *testing.T) {
	old := hostPod(spacePod(func(p *corev1.Pod) { p.UID = "old" }), ending(30))
	w := newWorld(t, hostSpace(), spacePod(nil), old)
	if err := w.look(); err == nil || !strings.Contains(err.Error(), "is still on the host") {
		t.Errorf("got %v", err)
	}
	w.expect(nil, []string{"create pods"})
}

// TestRefusedByHost checks that the space is told, once, in its own names.
func TestRefusedByHost(t *testing.T) {
	w := newWorld(t, hostSpace(), spacePod(nil))
	w.onHost.PrependReactor("create", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewForbidden(corev1.Resource("pods"), "web-0", context.DeadlineExceeded)
	})
	if err := w.look(); err == nil {
		t.Error("it is not tried again")
	}
	w.expect([]string{"update pods/status", "create events"}, []string{"create pods"})
	told, err := w.space.CoreV1().Pods("acme|shop").Get(t.Context(), "web-0", metav1.GetOptions{})
	if err != nil || len(told.Status.Conditions) != 1 || told.Status.Conditions[0].Reason != reasonRefused {
		t.Fatalf("the pod says %+v, %v", told.Status, err)
	}
	told.ResourceVersion = "2"
	w.see(told)
	w.space.ClearActions()
	look := func(after time.Duration, onHost ...string) {
		t.Helper()
		w.clock.Step(after)
		if err := w.look(); (err != nil) != (onHost != nil) {
			t.Errorf("got %v", err)
		}
		w.expect(nil, onHost)
	}
	look(0)
	look(firstBackoff, "create pods")
	look(firstBackoff)
	look(firstBackoff, "create pods")
	told.Labels = map[string]string{"another": "pod"}
	w.see(told)
	look(0, "create pods")
}

// TestSurplus checks that no pod begins while too many run on the host that the space has no more.
func TestSurplus(t *testing.T) {
	w := newWorld(t, hostSpace(), spacePod(nil))
	others := func(count int, pod *corev1.Pod) {
		for i := range count {
			host := hostPod(spacePod(nil), nil)
			w.surplus.note(item{podItem, "acme", "acme|shop", strconv.Itoa(i)}, pod, []*corev1.Pod{host})
		}
	}
	others(fewSurplus, nil)
	if err := w.look(); !errors.Is(err, errSurplus) {
		t.Errorf("got %v", err)
	}
	w.expect([]string{"update pods/status", "create events"}, nil)
	others(fewSurplus, spacePod(over))
	if err := w.look(); !errors.Is(err, errSurplus) {
		t.Errorf("got %v where they are over", err)
	}
	w.expect([]string{"update pods/status"}, nil)
	others(fewSurplus, spacePod(nil))
	w.surplus.note(item{podItem, "globex", "globex|shop", "x"}, nil, []*corev1.Pod{hostPod(spacePod(nil), nil)})
	if err := w.look(); err != nil {
		t.Error(err)
	}
	w.expect(nil, []string{"create pods"})
	for i := range fewSurplus {
		w.surplus.note(item{podItem, "acme", "acme|shop", strconv.Itoa(i)}, nil, nil)
	}
	if len(w.surplus.byTenant) != 1 {
		t.Errorf("of a tenant without pods there is %v", w.surplus.byTenant["acme"])
	}
}

// TestEndsFirst checks that the end of a pod does not wait for its status.
func TestEndsFirst(t *testing.T) {
	w := newWorld(t, hostSpace(), spacePod(both(bound, ending(1))), hostPod(spacePod(nil), both(onNode, func(p *corev1.Pod) { p.Status.Phase = corev1.PodRunning })))
	w.space.PrependReactor("update", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewForbidden(corev1.Resource("pods"), "web-0", context.DeadlineExceeded)
	})
	if err := w.look(); err == nil {
		t.Error("its status is not written again")
	}
	w.expect([]string{"update pods/status"}, []string{"delete pods host-p 1s"})
}

// TestStatusOfAnother checks that the status of a pod that has changed meanwhile, or is another one, is left to what
// the cache says next.
func TestStatusOfAnother(t *testing.T) {
	w := newWorld(t, hostSpace(), spacePod(bound), hostPod(spacePod(nil), both(onNode, func(p *corev1.Pod) { p.Status.Phase = corev1.PodRunning })))
	w.space.PrependReactor("update", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewConflict(corev1.Resource("pods"), "web-0", errors.New("it has changed"))
	})
	if err := w.look(); err != nil {
		t.Error(err)
	}
	w.expect([]string{"update pods/status"}, nil)
}

// TestEndsSooner checks that a pod that is deleted again, with less grace, is so on the host within the budget of
// changes, and in any case when its time has come.
func TestEndsSooner(t *testing.T) {
	const large = 100 << 10
	argument := func(p *corev1.Pod) { p.Spec.Containers[0].Args = []string{strings.Repeat("x", large)} }
	w := newWorld(t, hostSpace(), spacePod(both(both(bound, argument), ending(20))), hostPod(spacePod(bound), both(onNode, ending(30))))
	look := func(onHost ...string) {
		t.Helper()
		if err := w.look(); err != nil {
			t.Error(err)
		}
		w.expect(nil, onHost)
	}
	look("delete pods host-p 20s")
	if wait := w.writeBudgets[changeBudget].wait(itemWrite{item{podItem, "acme", "acme|shop", "counted"}, writeUpdate}, changedAtOnce); wait < time.Second*large/changedBytes {
		t.Errorf("one more waits for %v, as if the host had not stored the pod whole", wait)
	}
	for _, other := range []string{"a", "b"} {
		w.writeBudgets[changeBudget].wait(itemWrite{item{podItem, "acme", "acme|shop", other}, writeUpdate}, changedAtOnce)
	}
	look()
	w.clock.Step(19 * time.Second)
	look()
	w.clock.Step(time.Second)
	look("delete pods host-p 1s")
}

// TestChangeRefusedByHost checks that a change which the host refuses is not written again at once, and that the space
// hears of it, if not at once.
func TestChangeRefusedByHost(t *testing.T) {
	w := newWorld(t, hostSpace(), spacePod(func(p *corev1.Pod) { p.Labels = map[string]string{"a": "b"} }), hostPod(spacePod(nil), nil))
	w.onHost.PrependReactor("patch", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewInvalid(corev1.SchemeGroupVersion.WithKind("Pod").GroupKind(), "web-0", nil)
	})
	full := true
	w.space.PrependReactor("create", "events", func(clienttesting.Action) (bool, runtime.Object, error) {
		defer func() { full = false }()
		return full, nil, apierrors.NewTooManyRequests("full", 1)
	})
	if err := w.look(); err == nil {
		t.Error("nobody hears of it")
	}
	w.expect([]string{"create events"}, []string{"patch pods"})
	if err := w.look(); err != nil {
		t.Error(err)
	}
	w.expect(nil, nil)
	for i, events := range [][]string{{"create events"}, nil} { // the space has no room for the first
		w.clock.Step(firstBackoff << i)
		if err := w.look(); err == nil {
			t.Error("it is not tried again")
		}
		w.expect(events, []string{"patch pods"})
	}
}

// TestDoesNotHold checks that a status that does not become what is written is not written again at once, but what
// the host says next is.
func TestDoesNotHold(t *testing.T) {
	running := func(p *corev1.Pod) { p.Status.Phase = corev1.PodRunning }
	pod := spacePod(bound)
	pod.ResourceVersion = "1"
	w := newWorld(t, hostSpace(), pod, hostPod(spacePod(nil), both(onNode, running)))
	looks := 1
	w.space.PrependReactor("update", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
		looks++
		changed := pod.DeepCopy()
		changed.ResourceVersion, changed.Status.Message = strconv.Itoa(looks), "somebody's"
		w.see(changed) // brings it back at once
		return true, changed, nil
	})
	look := func(after time.Duration, inSpace ...string) {
		t.Helper()
		w.clock.Step(after)
		if err := w.look(); err != nil {
			t.Error(err)
		}
		w.expect(inSpace, nil)
	}
	look(0, "update pods/status")
	look(0)
	look(firstBackoff, "update pods/status")
	look(firstBackoff)
	look(firstBackoff, "update pods/status")
	w.see(hostPod(spacePod(nil), both(onNode, running, func(p *corev1.Pod) { p.ResourceVersion = "2" })))
	look(0, "update pods/status")
	if err := w.informers.Core().V1().Pods().Informer().GetIndexer().Delete(pod); err != nil {
		t.Fatal(err)
	}
	if _ = w.look(); w.backoffs.held.Len() != 0 {
		t.Errorf("of a pod that is gone there is %v", w.backoffs.held.All())
	}
}

// TestBinding checks that a pod has the UIDs of the host's pod and of its namespace from its binding on.
func TestBinding(t *testing.T) {
	pod := spacePod(nil)
	w := newWorld(t, hostSpace(), pod, hostPod(pod, onNode))
	if err := w.look(); err != nil {
		t.Fatal(err)
	}
	for _, action := range w.space.Actions() {
		if create, ok := action.(clienttesting.CreateAction); ok && action.GetSubresource() == "binding" {
			want := map[string]string{names.HostUIDAnnotation: "host-p", names.HostNamespaceUIDAnnotation: "h"}
			if diff := cmp.Diff(want, create.GetObject().(*corev1.Binding).Annotations); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			return
		}
	}
	t.Error("it is not bound")
}
