package sync

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/util/workqueue"

	"github.com/tenantry/tenantry/api/v1alpha1"
	"github.com/tenantry/tenantry/internal/workloads/names"
	"github.com/tenantry/tenantry/internal/workloads/translate"
)

var webSlices = item{slicesItem, "acme", "acme|shop", "web"}

// slicedWorld is a world with a node, whose host names what it makes as a real one does.
func slicedWorld(t *testing.T, objects ...runtime.Object) *world {
	w := newWorld(t, objects...)
	w.cache(w.hostNodes, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node", Labels: map[string]string{corev1.LabelTopologyZone: "here"}}})
	made := 0
	w.onHost.PrependReactor("*", "endpointslices", func(action clienttesting.Action) (bool, runtime.Object, error) {
		if write, ok := action.(interface{ GetObject() runtime.Object }); ok {
			slice := write.GetObject().(*discoveryv1.EndpointSlice)
			slice.Generation++
			if action.GetVerb() == "create" {
				made++
				slice.Name = fmt.Sprint(slice.GenerateName, made)
			}
			slice.UID = types.UID("u-" + slice.Name)
		}
		return false, nil, nil
	})
	return w
}

// slice has the syncer look at the slices of a Service once.
func (w *world) slice(i item) {
	w.t.Helper()
	if err := w.syncSlices(w.t.Context(), i); err != nil {
		w.t.Fatal(err)
	}
}

// onHostSlices returns the slices of a namespace of the host, by their names.
func (w *world) onHostSlices(namespace string) []discoveryv1.EndpointSlice {
	w.t.Helper()
	list, err := w.onHost.DiscoveryV1().EndpointSlices(namespace).List(w.t.Context(), metav1.ListOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	slices.SortFunc(list.Items, func(a, b discoveryv1.EndpointSlice) int { return cmp.Compare(a.Name, b.Name) })
	return list.Items
}

// adopt has the cache know the slices that there are on the host.
func (w *world) adopt() {
	w.t.Helper()
	list := w.onHostSlices(metav1.NamespaceAll)
	if err := w.hostCaches.slices.GetIndexer().Replace(nil, ""); err != nil {
		w.t.Fatal(err)
	}
	for i := range list {
		w.see(&list[i])
	}
	w.onHost.ClearActions()
}

// said returns what slices say: ports, and addresses with what is said of them.
func said(all []discoveryv1.EndpointSlice) (found []string) {
	for _, slice := range all {
		var ports []string
		for _, p := range slice.Ports {
			ports = append(ports, fmt.Sprintf("%s:%d", *p.Name, *p.Port))
		}
		text := fmt.Sprintf("%s [%s]", slice.AddressType, strings.Join(ports, " "))
		for _, e := range slice.Endpoints {
			text += " " + strings.Join(e.Addresses, ",")
			for _, of := range []struct {
				is   bool
				what string
			}{{*e.Conditions.Ready, "ready"}, {*e.Conditions.Serving, "serving"}, {*e.Conditions.Terminating, "terminating"}} {
				if of.is {
					text += " " + of.what
				}
			}
			if e.Hostname != nil {
				text += " as " + *e.Hostname
			}
			if e.Hints != nil {
				text += " for " + e.Hints.ForZones[0].Name
			}
		}
		found = append(found, text)
	}
	slices.Sort(found)
	return found
}

// webService is a Service of a space as its server completes it.
func webService(change func(*corev1.Service)) *corev1.Service {
	return spaceService(func(s *corev1.Service) {
		s.Spec.Ports[0].TargetPort = intstr.FromInt32(80)
		if change != nil {
			change(s)
		}
	})
}

func labelled(p *corev1.Pod) { p.Labels = map[string]string{"app": "web"} }

// answering is a pod of the host that runs on the node and is ready, or not.
func answering(is corev1.ConditionStatus, addresses ...string) func(*corev1.Pod) {
	return both(onNode, at(addresses...), func(p *corev1.Pod) {
		p.Status.Phase = corev1.PodRunning
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: is}}
		for _, address := range addresses {
			if len(p.Status.PodIPs) < len(addresses) {
				p.Status.PodIPs = append(p.Status.PodIPs, corev1.PodIP{IP: address})
			}
		}
	})
}

// withoutNetwork is a pod whose sandbox has gone: its address may be another's soon.
func withoutNetwork(p *corev1.Pod) {
	p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: corev1.PodReadyToStartContainers, Status: corev1.ConditionFalse})
}

// TestSlices checks where the host's Service leads.
func TestSlices(t *testing.T) {
	ready := answering(corev1.ConditionTrue, "10.1.0.7")
	for name, tc := range map[string]struct {
		service    func(*corev1.Service)
		pod, there func(*corev1.Pod)
		want       []string
		fail       string
	}{
		"a ready pod":                      {want: []string{"IPv4 [:80] 10.1.0.7 ready serving"}},
		"one that is not ready":            {there: answering(corev1.ConditionFalse, "10.1.0.7"), want: []string{"IPv4 [:80] 10.1.0.7"}},
		"one that ends, and still serves":  {there: both(ready, ending(30)), want: []string{"IPv4 [:80] 10.1.0.7 serving terminating"}},
		"one that ends in the space first": {pod: ending(30), want: []string{"IPv4 [:80] 10.1.0.7 serving terminating"}},
		"one that has ended":               {there: both(ready, over), want: []string{"IPv4 []"}},
		"one without a network":            {there: both(ready, withoutNetwork), want: []string{"IPv4 []"}},
		"one without an address":           {there: onNode, want: []string{"IPv4 []"}},
		"one of other labels in the space": {pod: func(p *corev1.Pod) { p.Labels = map[string]string{"app": "other"} }, want: []string{"IPv4 []"}},
		"one of other labels on the host":  {there: both(ready, func(p *corev1.Pod) { p.Labels["app"] = "other" }), want: []string{"IPv4 [:80] 10.1.0.7 ready serving"}},
		"one whose own is another by now":  {there: both(ready, func(p *corev1.Pod) { p.Annotations[names.UIDAnnotation] = "before" }), want: []string{"IPv4 []"}},
		"one of which an old backup has another": {
			there: both(ready, func(p *corev1.Pod) { p.Annotations[names.UIDAnnotation] = "of a backup" }), want: []string{"IPv4 [:80] 10.1.0.7 ready serving"},
		},
		"somebody else's":                     {there: both(ready, func(p *corev1.Pod) { p.Annotations[names.TenantAnnotation] = "globex" }), want: []string{"IPv4 []"}},
		"one of an address that a space says": {pod: answering(corev1.ConditionTrue, "10.1.0.9"), there: onNode, want: []string{"IPv4 []"}},
		"one whose node nobody knows":         {there: both(ready, func(p *corev1.Pod) { p.Spec.NodeName = "new" }), want: []string{"IPv4 []"}, fail: "Node new Not Found"},
		"one that is not ready, of a Service that does not mind": {
			service: func(s *corev1.Service) { s.Spec.PublishNotReadyAddresses = true },
			there:   answering(corev1.ConditionFalse, "10.1.0.7"), want: []string{"IPv4 [:80] 10.1.0.7 ready"},
		},
		"a port by its name": {
			service: func(s *corev1.Service) { s.Spec.Ports[0].TargetPort = intstr.FromString("http") },
			pod: func(p *corev1.Pod) {
				p.Spec.Containers[0].Ports = []corev1.ContainerPort{{Name: "http", ContainerPort: 8080}}
			},
			want: []string{"IPv4 [:8080] 10.1.0.7 ready serving"},
		},
		"a port of a sidecar": {
			service: func(s *corev1.Service) { s.Spec.Ports[0].TargetPort = intstr.FromString("http") },
			pod: func(p *corev1.Pod) {
				p.Spec.InitContainers = []corev1.Container{{Name: "s", RestartPolicy: new(corev1.ContainerRestartPolicyAlways), Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: 8081}}}}
			},
			want: []string{"IPv4 [:8081] 10.1.0.7 ready serving"},
		},
		"a port that no container has": {
			service: func(s *corev1.Service) { s.Spec.Ports[0].TargetPort = intstr.FromString("http") },
			want:    []string{"IPv4 [] 10.1.0.7 ready serving"},
		},
		"a headless one": {
			service: func(s *corev1.Service) {
				s.Spec.ClusterIP, s.Spec.ClusterIPs, s.Spec.IPFamilies = "None", []string{"None"}, []corev1.IPFamily{corev1.IPv4Protocol}
			},
			pod:  func(p *corev1.Pod) { p.Spec.Hostname, p.Spec.Subdomain = "web-0", "web" },
			want: []string{"IPv4 [:80] 10.1.0.7 ready serving as web-0"},
		},
		"both families": {
			service: func(s *corev1.Service) {
				s.Spec.IPFamilies = []corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol}
			},
			there: answering(corev1.ConditionTrue, "10.1.0.7", "fd00::7"),
			want:  []string{"IPv4 [:80] 10.1.0.7 ready serving", "IPv6 [:80] fd00::7 ready serving"},
		},
		"a zone that is near": {
			service: func(s *corev1.Service) {
				s.Spec.TrafficDistribution = new(corev1.ServiceTrafficDistributionPreferSameZone)
			},
			want: []string{"IPv4 [:80] 10.1.0.7 ready serving for here"},
		},
		"a name outside": {service: func(s *corev1.Service) {
			s.Spec.Type, s.Spec.ExternalName = corev1.ServiceTypeExternalName, "example.com"
		}},
		"no selector": {service: func(s *corev1.Service) { s.Spec.Selector = nil }},
	} {
		t.Run(name, func(t *testing.T) {
			service, pod, there := webService(tc.service), spacePod(labelled), tc.there
			if tc.pod != nil {
				tc.pod(pod)
			}
			if there == nil {
				there = ready
			}
			w := slicedWorld(t, hostSpace(), service, hostService(service, nil), pod, hostPod(pod, there))
			w.deleted.note("before", true)
			err := w.syncSlices(t.Context(), webSlices)
			if (err != nil) != (tc.fail != "") || err != nil && !strings.Contains(err.Error(), tc.fail) {
				t.Errorf("got error %v, want %q", err, tc.fail)
			}
			made := w.onHostSlices(home.Host())
			if diff := gocmp.Diff(tc.want, said(made)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			for _, slice := range made {
				want := map[string]string{names.InstallationLabel: "i", discoveryv1.LabelServiceName: "web", discoveryv1.LabelManagedBy: sliceManager}
				if service.Spec.ClusterIP == corev1.ClusterIPNone {
					want[corev1.IsHeadlessService] = ""
				}
				if diff := gocmp.Diff(want, slice.Labels); diff != "" {
					t.Errorf("its labels (-want +got):\n%s", diff)
				}
				if owner := metav1.GetControllerOf(&slice); owner == nil || owner.Kind != "Service" || owner.UID != "hs" {
					t.Errorf("it ends with %+v", owner)
				}
				for _, e := range slice.Endpoints {
					if e.TargetRef.UID != "host-p" || e.TargetRef.Namespace != home.Host() || *e.NodeName != "node" || *e.Zone != "here" {
						t.Errorf("it leads to %+v", e)
					}
				}
			}
		})
	}
}

// TestSlicesAreAsTheyAreToBe checks that what is right is not written again, by this syncer or the next, and that what
// is wrong is.
func TestSlicesAreAsTheyAreToBe(t *testing.T) {
	pod := spacePod(labelled)
	objects := []runtime.Object{hostSpace(), webService(nil), hostService(webService(nil), nil), pod, hostPod(pod, answering(corev1.ConditionTrue, "10.1.0.7"))}
	w := slicedWorld(t, objects...)
	w.slice(webSlices)
	w.expect(nil, []string{"create endpointslices"})
	if err := w.syncSlices(t.Context(), webSlices); err == nil || !strings.Contains(err.Error(), "the cache is behind") {
		t.Errorf("before the cache has what was written: %v", err)
	}
	w.adopt()
	w.slice(webSlices)
	w.expect(nil, nil)

	made := w.onHostSlices(home.Host())[0]
	next := slicedWorld(t, append(objects, &made)...)
	next.slice(webSlices)
	next.expect(nil, nil)
	changed := made.DeepCopy()
	changed.Endpoints[0].Addresses = []string{"10.9.9.9"}
	next.see(changed)
	next.slice(webSlices)
	next.expect(nil, []string{"update endpointslices"})
	if got := said(next.onHostSlices(home.Host())); got[0] != "IPv4 [:80] 10.1.0.7 ready serving" {
		t.Errorf("it says %v", got)
	}

	next.see(spacePod(nil)) // which is not selected any more
	next.adopt()
	next.slice(webSlices)
	next.expect(nil, []string{"update endpointslices"})
	if got := said(next.onHostSlices(home.Host())); got[0] != "IPv4 []" {
		t.Errorf("it says %v", got)
	}
	next.see(webService(func(s *corev1.Service) {
		s.Spec.Type, s.Spec.ExternalName = corev1.ServiceTypeExternalName, "example.com"
	}))
	next.adopt()
	next.slice(webSlices)
	next.expect(nil, []string{"delete endpointslices u-web-1"})
}

// TestLeftSlices checks that a Service of a host that had a selector loses it, and what the host's controllers have
// made for it when there is what leads to its pods.
func TestLeftSlices(t *testing.T) {
	left := func(name, manager string) *discoveryv1.EndpointSlice {
		return &discoveryv1.EndpointSlice{
			ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: home.Host(), UID: types.UID("u-" + name), Labels: map[string]string{
				names.InstallationLabel: "i", discoveryv1.LabelServiceName: "web", discoveryv1.LabelManagedBy: manager,
			}},
			AddressType: discoveryv1.AddressTypeIPv4,
		}
	}
	pod := spacePod(labelled)
	before := hostService(webService(nil), func(s *corev1.Service) {
		s.Spec.Selector, s.Annotations[names.HashAnnotation] = map[string]string{"app": "web"}, "of before"
	})
	w := slicedWorld(t, hostSpace(), webService(nil), before, pod, hostPod(pod, answering(corev1.ConditionTrue, "10.1.0.7")),
		left("made", "endpointslice-controller.k8s.io"), left("mirrored", "endpointslicemirroring-controller.k8s.io"), left("theirs", "somebody"))
	w.slice(webSlices)
	w.expect(nil, []string{"create endpointslices"})
	w.adopt()
	w.slice(webSlices)
	w.expect(nil, nil)
	if err := w.lookAtService(); err != nil {
		t.Fatal(err)
	}
	w.expect(nil, []string{"update services"})
	now, err := w.onHost.CoreV1().Services(home.Host()).Get(t.Context(), "web", metav1.GetOptions{})
	if err != nil || len(now.Spec.Selector) > 0 {
		t.Fatalf("it selects %v, %v", now.Spec.Selector, err)
	}
	w.see(now)
	w.slice(webSlices)
	got := did(w.onHost)
	slices.Sort(got)
	want := []string{"delete endpoints", "delete endpoints", "delete endpointslices u-made", "delete endpointslices u-mirrored"}
	if diff := gocmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	w.adopt()
	w.slice(webSlices)
	w.expect(nil, nil)
	if n := len(w.onHostSlices(home.Host())); n != 2 {
		t.Errorf("there are %d slices", n)
	}

	// Where there is nothing yet that leads to its pods, that comes first.
	all := slicedWorld(t, hostSpace(), webService(nil), hostService(webService(nil), nil), pod, hostPod(pod, answering(corev1.ConditionTrue, "10.1.0.7")), left("made", "endpointslice-controller.k8s.io"))
	all.slice(webSlices)
	all.expect(nil, []string{"create endpointslices", "delete endpoints", "delete endpointslices u-made"})
}

// TestSlicesOfWhatIsGone checks that nothing is written for a Service that is gone, and nothing counted.
func TestSlicesOfWhatIsGone(t *testing.T) {
	pod := spacePod(labelled)
	running := hostPod(pod, answering(corev1.ConditionTrue, "10.1.0.7"))
	for name, objects := range map[string][]runtime.Object{
		"in the space":      {hostService(webService(nil), nil)},
		"on the host":       {webService(nil)},
		"and is another's":  {webService(func(s *corev1.Service) { s.UID = "next" }), hostService(webService(nil), nil)},
		"on the host, soon": {webService(nil), hostService(webService(nil), func(s *corev1.Service) { s.DeletionTimestamp = new(metav1.Now()) })},
	} {
		t.Run(name, func(t *testing.T) {
			w := slicedWorld(t, append(objects, hostSpace(), pod, running)...)
			w.writeBudgets[sliceBudget].wait(itemWrite{webSlices, writeUpdate}, slicedAtOnce)
			w.writeBudgets[sliceBudget].wait(itemWrite{webSlices, writeUpdate}, slicedAtOnce)
			w.batches.note(webSlices)
			w.slice(webSlices)
			w.expect(nil, nil)
			if len(w.writeBudgets[sliceBudget].byTenant["acme"].due) > 0 || len(w.batches.byItem) > 0 {
				t.Error("something is known of it")
			}
		})
	}
}

// TestSlicesThatAHostRefuses checks that the space is told.
func TestSlicesThatAHostRefuses(t *testing.T) {
	w := slicedWorld(t, hostSpace(), webService(nil), hostService(webService(nil), nil))
	w.onHost.PrependReactor("create", "endpointslices", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewForbidden(discoveryv1.Resource("endpointslices"), "", nil)
	})
	if err := w.syncSlices(t.Context(), webSlices); err == nil {
		t.Error("no error")
	}
	w.expect([]string{"create events"}, []string{"create endpointslices"})
	ports := webService(func(s *corev1.Service) { s.Spec.Ports = make([]corev1.ServicePort, maxSlicedPorts+1) })
	w = slicedWorld(t, hostSpace(), ports, hostService(ports, nil))
	w.slice(webSlices)
	w.expect([]string{"create events"}, nil)
}

// manyServices returns Services of one pod, and those of the host.
func manyServices(n int) (objects []runtime.Object, items []item) {
	for i := range n {
		service := webService(func(s *corev1.Service) {
			s.Name = fmt.Sprint("web-", i)
			s.UID = types.UID(s.Name)
		})
		objects = append(objects, service, hostService(service, func(s *corev1.Service) { s.UID = types.UID("h" + s.Name) }))
		items = append(items, itemOf(slicesItem, service))
	}
	return objects, items
}

// TestServicesOfOnePod checks what 500 Services of one pod cost whose readiness changes all the time: within the bounds
// of their tenant, and not at the cost of another one's.
func TestServicesOfOnePod(t *testing.T) {
	const seconds, period = 40, 4
	pod := spacePod(labelled)
	objects, items := manyServices(500)
	w := slicedWorld(t, append(objects, hostSpace(), pod)...)
	other := names.Namespace{Installation: "i", Tenant: "globex", TenantUID: "t2", Name: "shop", UID: "n2"}
	theirs := webService(func(s *corev1.Service) { s.Namespace = "globex|shop" })
	theirPod := spacePod(both(labelled, func(p *corev1.Pod) { p.Namespace = "globex|shop" }))
	theirHost := translate.Rules{}.Service(theirs, other)
	theirHost.UID = "theirs"
	theirHostPod := hostPod(theirPod, answering(corev1.ConditionTrue, "10.1.0.8"))
	theirHostPod.Namespace, theirHostPod.Annotations = other.Host(), other.MarksOf("web-0", "p")
	w.cache(w.tenants, &v1alpha1.Tenant{ObjectMeta: metav1.ObjectMeta{Name: "globex", UID: "t2"}})
	for _, o := range []runtime.Object{
		hostNamespace(other, ""), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "globex|shop", UID: "n2"}}, theirs, theirPod, theirHost, theirHostPod,
	} {
		w.see(o)
	}

	bytes, writes := 0, 0
	for change := range seconds / period {
		is := []corev1.ConditionStatus{corev1.ConditionTrue, corev1.ConditionFalse}[change%2]
		w.see(hostPod(pod, answering(is, "10.1.0.7")))
		for _, i := range items {
			_ = w.syncSlices(t.Context(), i)
		}
		for _, action := range w.onHost.Actions() {
			if write, ok := action.(interface{ GetObject() runtime.Object }); ok {
				bytes += write.GetObject().(*discoveryv1.EndpointSlice).Size()
				writes++
			}
		}
		w.adopt()
		w.clock.Step(period * time.Second)
	}
	most := (slicedAtOnce + seconds*slicedBytes) / leastCopy
	if writes > most || writes < slicedAtOnce/leastCopy || bytes > slicedAtOnce+seconds*slicedBytes {
		t.Errorf("in %d seconds there are %d writes of %d bytes, at most %d were to be", seconds, writes, bytes, most)
	}
	for _, i := range items {
		w.enqueueSlices(i)
	}
	w.hostPodUpdated(hostPod(theirPod, nil), theirHostPod)
	w.enqueueSlices(itemOf(slicesItem, theirs))
	for n := 0; ; n++ {
		i, _ := w.queue.Get()
		w.queue.finished(i, time.Millisecond)
		if i.kind == slicesItem && i.tenant == "globex" {
			w.slice(i)
			break
		}
		if n == 10 {
			t.Fatal("another tenant's waits for all of these")
		}
	}
	if got := said(w.onHostSlices(other.Host())); len(got) != 1 || got[0] != "IPv4 [:80] 10.1.0.8 ready serving" {
		t.Errorf("another tenant's say %v", got)
	}
}

// TestComparisonsWait checks that Services of many pods, of which none changes, are compared within a bound.
func TestComparisonsWait(t *testing.T) {
	w := slicedWorld(t, hostSpace(), webService(nil), hostService(webService(nil), nil))
	w.writeBudgets[comparisonBudget].wait(itemWrite{item{slicesItem, "acme", "acme|shop", "other"}, writeUpdate}, comparedAtOnce)
	w.slice(webSlices)
	w.expect(nil, nil)
	w.clock.Step(time.Second)
	w.slice(webSlices)
	w.expect(nil, []string{"create endpointslices"})
	if few, many := comparisons(950, 1), comparisons(950, 100); few != 1901 || many < 300*few {
		t.Errorf("%d of one port, %d of a hundred", few, many)
	}
}

var staleItemOfHome = item{staleItem, "acme", "acme|shop", home.Host()}

// TestStaleSlices checks that addresses which no pod of theirs has any more are taken out of slices, whatever their
// Services wait for, and whether their space has these. Beyond the rate, slices are deleted, and made again.
func TestStaleSlices(t *testing.T) {
	now := func(changes ...func(*corev1.Pod)) *corev1.Pod { return hostPod(spacePod(labelled), both(changes...)) }
	for name, tc := range map[string]struct {
		now   *corev1.Pod
		stale bool
	}{
		"a pod that is not ready":  {now(answering(corev1.ConditionFalse, "10.1.0.1")), false},
		"a pod that ends":          {now(answering(corev1.ConditionTrue, "10.1.0.1"), func(p *corev1.Pod) { p.DeletionTimestamp = new(metav1.Now()) }), false},
		"a pod at another address": {now(answering(corev1.ConditionTrue, "10.1.0.2")), true},
		"another pod":              {now(answering(corev1.ConditionTrue, "10.1.0.1"), func(p *corev1.Pod) { p.UID = "another" }), true},
		"a pod that has ended":     {now(answering(corev1.ConditionFalse, "10.1.0.1"), func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }), true},
		"a pod without a network":  {now(answering(corev1.ConditionTrue, "10.1.0.1"), withoutNetwork), true},
		"no pod":                   {nil, true},
	} {
		for what, spent := range map[string]int{"written": 0, "deleted": staleAtOnce} {
			t.Run(name+", "+what, func(t *testing.T) {
				w := slicedWorld(t, hostSpace(), webService(nil), hostService(webService(nil), nil), spacePod(labelled), now(answering(corev1.ConditionTrue, "10.1.0.1")))
				w.slice(webSlices)
				w.adopt()
				if err := w.hostCaches.pods.GetIndexer().Delete(now()); err != nil {
					t.Fatal(err)
				}
				if tc.now != nil {
					w.see(tc.now)
				}
				w.staleBytes.Take(w.clock.Now(), "acme", spent)
				for range 2 {
					if n := len(w.onHostSlices(home.Host())[0].Endpoints); n != 1 {
						t.Fatalf("%d endpoints are left after a first look", n)
					}
					if err := w.removeStale(t.Context(), staleItemOfHome); err != nil {
						t.Fatal(err)
					}
				}
				left, again := w.onHostSlices(home.Host()), w.batches.byItem[webSlices].waits
				switch {
				case !tc.stale:
					if n := len(w.onHost.Actions()); n != 3 || len(left) != 1 { // the lists of this test
						t.Errorf("%d slices are left by %v", len(left), w.onHost.Actions())
					}
				case spent == 0:
					if len(left) != 1 || len(left[0].Endpoints) != 0 || len(left[0].Ports) != 1 || again {
						t.Errorf("there is %v; its Service is looked at again: %t", left, again)
					}
				case len(left) != 0 || !again:
					t.Errorf("there is %v; its Service is looked at again: %t", left, again)
				}
			})
		}
	}
}

// TestStaleSlicesThatAHostRefuses checks that slices whose host takes no change of them do not stay as they are.
func TestStaleSlicesThatAHostRefuses(t *testing.T) {
	w := slicedWorld(t, hostSpace(), webService(nil), hostService(webService(nil), nil), spacePod(labelled), hostPod(spacePod(labelled), answering(corev1.ConditionTrue, "10.1.0.1")))
	w.slice(webSlices)
	w.adopt()
	if err := w.hostCaches.pods.GetIndexer().Delete(hostPod(spacePod(labelled), nil)); err != nil {
		t.Fatal(err)
	}
	refused := apierrors.NewForbidden(discoveryv1.Resource("endpointslices"), "web", nil)
	w.onHost.PrependReactor("update", "endpointslices", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, refused })
	for range 2 {
		if err := w.removeStale(t.Context(), staleItemOfHome); err != nil {
			t.Errorf("removeStale: %v", err)
		}
	}
	if n := len(w.onHostSlices(home.Host())); n != 0 {
		t.Errorf("%d slices are left", n)
	}
}

// TestStaleSlicesAreBehind checks that slices which the cache does not have as they are are looked at again.
func TestStaleSlicesAreBehind(t *testing.T) {
	w := slicedWorld(t, hostSpace(), webService(nil), hostService(webService(nil), nil), spacePod(labelled), hostPod(spacePod(labelled), answering(corev1.ConditionTrue, "10.1.0.1")))
	w.slice(webSlices)
	w.adopt()
	if err := w.hostCaches.pods.GetIndexer().Delete(hostPod(spacePod(labelled), nil)); err != nil {
		t.Fatal(err)
	}
	conflict := apierrors.NewConflict(discoveryv1.Resource("endpointslices"), "web", nil)
	w.onHost.PrependReactor("update", "endpointslices", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, conflict })
	for _, want := range []error{nil, conflict} {
		if err := w.removeStale(t.Context(), staleItemOfHome); !errors.Is(err, want) {
			t.Errorf("removeStale: %v, want %v", err, want)
		}
	}
}

// TestByEndpoint checks that slices which have the same endpoint come after each other, and no slices that have none.
func TestByEndpoint(t *testing.T) {
	var all []*hostSlice
	for n := range 30 {
		ids := []endpointID{endpointID(n % 5), 10, endpointID(n%5 + 20)}
		slices.SortFunc(ids, func(a, b endpointID) int { return int(b) - int(a) })
		all = append(all, &hostSlice{endpoints: ids})
	}
	var got []endpointID
	for _, slice := range byEndpoint(all, func(id endpointID) bool { return id != 10 && id%5 != 3 }) {
		got = append(got, slice.endpoints[2])
	}
	if want := slices.Concat(slices.Repeat([]endpointID{0}, 6), slices.Repeat([]endpointID{1}, 6), slices.Repeat([]endpointID{2}, 6), slices.Repeat([]endpointID{4}, 6)); !slices.Equal(got, want) {
		t.Errorf("in the order of %v, want %v", got, want)
	}
}

// delayed notes what is to be looked at after some time.
type delayed struct {
	workqueue.TypedRateLimitingInterface[item]
	after time.Duration
	all   []item
}

func (d *delayed) AddAfter(i item, after time.Duration) {
	if after == d.after {
		d.all = append(d.all, i)
	}
}

// TestWhatMakesSlicesStale checks after what slices are looked at for stale addresses.
func TestWhatMakesSlicesStale(t *testing.T) {
	ready := hostPod(spacePod(labelled), answering(corev1.ConditionTrue, "10.1.0.1"))
	want := []item{staleItemOfHome}
	for name, happens := range map[string]func(*world){
		"a pod goes": func(w *world) { w.hostPodGone(ready, true) },
		"a pod ends": func(w *world) {
			w.hostPodUpdated(ready, hostPod(spacePod(labelled), both(answering(corev1.ConditionFalse, "10.1.0.1"), func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed })))
		},
		"a pod gets another address": func(w *world) {
			w.hostPodUpdated(ready, hostPod(spacePod(labelled), both(answering(corev1.ConditionTrue, "10.1.0.2"), func(p *corev1.Pod) { p.ResourceVersion = "2" })))
		},
		"a pod has no network any more": func(w *world) {
			w.hostPodUpdated(ready, hostPod(spacePod(labelled), both(answering(corev1.ConditionTrue, "10.1.0.1"), withoutNetwork)))
		},
		"a slice is written": func(w *world) {
			w.hostSliceChanged(&hostSlice{ObjectMeta: metav1.ObjectMeta{Name: "s", Namespace: home.Host()}})
		},
		"the syncer begins": func(w *world) { w.enqueueHostNamespaces() },
	} {
		t.Run(name, func(t *testing.T) {
			w := slicedWorld(t, hostSpace(), webService(nil), hostService(webService(nil), nil), spacePod(labelled), ready)
			found := &delayed{after: stalePeriod}
			w.stale = &queue{TypedRateLimitingInterface: found}
			happens(w)
			if !slices.Equal(found.all, want) {
				t.Errorf("looked at are %v, want %v", found.all, want)
			}
		})
	}
}

// TestSlicesThatNeverCome checks that slices which a host has answered of after their end are not waited for without
// end.
func TestSlicesThatNeverCome(t *testing.T) {
	w := slicedWorld(t, hostSpace(), webService(nil), hostService(webService(nil), nil), spacePod(labelled), hostPod(spacePod(labelled), answering(corev1.ConditionTrue, "10.1.0.1")))
	w.sliceTracker.Update(&discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{
		Name: "gone", Namespace: home.Host(), UID: "gone", Generation: 1, Labels: map[string]string{discoveryv1.LabelServiceName: "web"},
	}})
	waits := &delayed{TypedRateLimitingInterface: w.queue.TypedRateLimitingInterface, after: behindPeriod}
	w.queue.TypedRateLimitingInterface = waits
	for _, made := range []int{0, 0, 1} {
		err := w.syncSlices(t.Context(), webSlices)
		if n := len(w.onHostSlices(home.Host())); n != made || (err == nil) != (made > 0) {
			t.Fatalf("%d slices are made, want %d: %v", n, made, err)
		}
		w.clock.Step(behindPeriod/2 + time.Second)
		waits.after = behindPeriod/2 - time.Second
	}
	if want := []item{webSlices, webSlices}; !slices.Equal(waits.all, want) {
		t.Errorf("looked at when it is time are %v, want %v", waits.all, want)
	}
}

// TestManySlices checks that the pods of a Service are looked at again while many slices of it are written.
func TestManySlices(t *testing.T) {
	objects := []runtime.Object{hostSpace()}
	service := webService(func(s *corev1.Service) { s.Spec.Ports[0].TargetPort = intstr.FromString("http") })
	objects = append(objects, service, hostService(service, nil))
	const all = writtenSlices + 50
	for n := range all { // each has its port, so a slice of its own
		pod := spacePod(both(labelled, func(p *corev1.Pod) {
			p.Name = fmt.Sprint("p", n)
			p.UID = types.UID(p.Name)
			p.Spec.Containers[0].Ports = []corev1.ContainerPort{{Name: "http", ContainerPort: int32(1000 + n)}}
		}))
		objects = append(objects, pod, hostPod(pod, answering(corev1.ConditionTrue, fmt.Sprint("10.1.0.", n))))
	}
	w := slicedWorld(t, objects...)
	w.items()
	for _, want := range []int{writtenSlices, all} {
		w.slice(webSlices)
		if n := len(w.onHostSlices(home.Host())); n != want {
			t.Fatalf("there are %d slices, want %d", n, want)
		}
		if waits := w.batches.byItem[webSlices].waits; waits != (want < all) {
			t.Errorf("with %d slices, the Service is looked at again: %t", want, waits)
		}
		w.adopt()
	}
}

// TestSliceBytes checks that the slices of a tenant have a bound of bytes on the host.
func TestSliceBytes(t *testing.T) {
	for name, tc := range map[string]struct {
		there int
		made  int
	}{
		"as many as there may be": {maxSliceBytes, 0},
		"fewer":                   {maxSliceBytes - leastSlice, 1},
		"nearly as many":          {maxSliceBytes - 10_000, 0},
	} {
		t.Run(name, func(t *testing.T) {
			w := slicedWorld(t, hostSpace(), webService(nil), hostService(webService(nil), nil), spacePod(labelled), hostPod(spacePod(labelled), answering(corev1.ConditionTrue, "10.1.0.1")))
			if err := w.hostCaches.slices.GetIndexer().Add(&hostSlice{ObjectMeta: metav1.ObjectMeta{Name: "large", Namespace: home.Host()}, stored: tc.there}); err != nil {
				t.Fatal(err)
			}
			later := &delayed{TypedRateLimitingInterface: w.queue.TypedRateLimitingInterface, after: noRoomPeriod}
			w.queue.TypedRateLimitingInterface = later
			w.slice(webSlices)
			if n := len(w.onHostSlices(home.Host())); n != tc.made {
				t.Errorf("%d are made", n)
			}
			if n := len(later.all); n != 1-tc.made {
				t.Errorf("it is looked again %d times", n)
			}
		})
	}
}

// TestSlicesCountWhole checks that a slice counts as what a host stores of it.
func TestSlicesCountWhole(t *testing.T) {
	objects := []runtime.Object{hostSpace(), webService(nil), hostService(webService(nil), nil)}
	for i := range 90 {
		pod := spacePod(both(labelled, func(p *corev1.Pod) { p.Name = fmt.Sprint(strings.Repeat("x", 200), i); p.UID = types.UID(p.Name) }))
		objects = append(objects, pod, hostPod(pod, answering(corev1.ConditionTrue, fmt.Sprint("10.1.0.", i))))
	}
	w := slicedWorld(t, objects...)
	w.slice(webSlices)
	made := w.onHostSlices(home.Host())[0]
	counted := slicedAtOnce - int(w.writeBudgets[sliceBudget].byTenant["acme"].limiter.TokensAt(w.clock.Now()))
	if stored := made.Size(); len(made.Endpoints) != 90 || counted < stored || counted > stored+1024 {
		t.Errorf("%d bytes are counted for %d", counted, stored)
	}
}

// TestBatches checks that the first change of slices is looked at at once, and those that follow together.
func TestBatches(t *testing.T) {
	w := slicedWorld(t, hostSpace(), webService(nil), hostService(webService(nil), nil))
	w.enqueueSlices(webSlices)
	w.enqueueSlices(webSlices)
	if got := w.items(); len(got) != 1 {
		t.Errorf("at first %v", got)
	}
	w.slice(webSlices)
	if after, waits := w.batches.next(webSlices); after != batchPeriod || waits {
		t.Errorf("then after %v, waits: %t", after, waits)
	}
	if _, waits := w.batches.next(webSlices); !waits {
		t.Error("what waits is looked at twice")
	}
	w.clock.Step(batchPeriod)
	w.batches.begin(webSlices)
	if after, _ := w.batches.next(webSlices); after > 0 {
		t.Errorf("after quiet it waits for %v", after)
	}
	w.batches.begin(webSlices)
	for i := range 10 {
		w.batches.note(item{slicesItem, "acme", "acme|shop", fmt.Sprint(i)})
	}
	w.clock.Step(2 * time.Minute)
	w.batches.note(webSlices)
	if n := len(w.batches.byItem); n != 1 {
		t.Errorf("%d are known", n)
	}
	w.enqueueSlices(item{kind: slicesItem, namespace: "shop", name: "web"})
	if got := w.items(); len(got) > 0 {
		t.Errorf("of the system space %v", got)
	}
}

// TestSelectors checks which Services are looked at for what happens to a pod.
func TestSelectors(t *testing.T) {
	named := func(name string, selector map[string]string) *corev1.Service {
		return webService(func(s *corev1.Service) { s.Name, s.Spec.Selector = name, selector })
	}
	as := func(app string) *corev1.Pod {
		return spacePod(func(p *corev1.Pod) { p.Labels = map[string]string{"app": app} })
	}
	ready, notReady := answering(corev1.ConditionTrue, "10.1.0.7"), answering(corev1.ConditionFalse, "10.1.0.7")
	for name, tc := range map[string]struct {
		happens func(*world)
		want    []string
	}{
		"it is selected by another": {func(w *world) { w.podUpdated(as("a"), as("b")) }, []string{"a", "b"}},
		"and by another after that": {func(w *world) { w.podUpdated(as("a"), as("c")); w.podUpdated(as("c"), as("b")) }, []string{"a", "b", "c"}},
		"it has many labels at once": {func(w *world) {
			for i := range 10 {
				w.podUpdated(as(fmt.Sprint(i)), as("b"))
			}
		}, []string{"a", "b", "c", "d"}},
		"it ends": {func(w *world) {
			w.podUpdated(as("b"), spacePod(both(ending(1), func(p *corev1.Pod) { p.Labels = as("b").Labels })))
		}, []string{"b"}},
		"it is gone":                    {func(w *world) { w.podGone(as("a"), true) }, []string{"a", "b"}},
		"something else of it changes":  {func(w *world) { w.podUpdated(as("b"), as("b")) }, nil},
		"it is gone from the host last": {func(w *world) { w.hostPodGone(hostPod(as("c"), ready), true) }, []string{"b", "c"}},
		"it is on the host":             {func(w *world) { w.hostPodChanged(hostPod(as("b"), nil)) }, nil},
		"it has an address":             {func(w *world) { w.hostPodChanged(hostPod(as("b"), ready)) }, []string{"b"}},
		"it becomes ready": {func(w *world) {
			w.hostPodUpdated(hostPod(as("b"), notReady), hostPod(as("b"), both(ready, version("2"))))
		}, []string{"b"}},
		"it fails": {func(w *world) {
			w.hostPodUpdated(hostPod(as("b"), notReady), hostPod(as("b"), both(notReady, over, version("2"))))
		}, []string{"b"}},
		"its host's status says something else": {func(w *world) {
			w.hostPodUpdated(hostPod(as("b"), ready), hostPod(as("b"), both(ready, version("2"), func(p *corev1.Pod) { p.Status.Message = "m" })))
		}, nil},
		"a pod of the system space": {func(w *world) { w.podGone(spacePod(func(p *corev1.Pod) { p.Namespace = "shop" }), true) }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			outside := named("outside", map[string]string{"app": "b"})
			outside.Spec.Type = corev1.ServiceTypeExternalName
			w := newWorld(t, hostSpace(), as("b"), named("a", map[string]string{"app": "a"}), named("b", map[string]string{"app": "b"}),
				named("c", map[string]string{"app": "c"}), named("d", map[string]string{"app": "d"}), named("none", nil), outside)
			tc.happens(w)
			var got []string
			for _, i := range w.items() {
				if i.kind == slicesItem {
					got = append(got, i.name)
				}
			}
			slices.Sort(got)
			if diff := gocmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if w.selected.Len() > 0 {
				t.Errorf("known is %v", w.selected.All())
			}
		})
	}
}

func version(of string) func(*corev1.Pod) { return func(p *corev1.Pod) { p.ResourceVersion = of } }

// TestHostSlices checks that what others do to slices of the host is seen, and what the syncer does itself is not
// looked at again.
func TestHostSlices(t *testing.T) {
	w := slicedWorld(t, hostSpace(), webService(nil), hostService(webService(nil), nil))
	w.slice(webSlices)
	w.clock.Step(time.Minute)
	made := w.onHostSlices(home.Host())[0]
	slim := func(change func(*discoveryv1.EndpointSlice)) *hostSlice {
		t.Helper()
		slice := made.DeepCopy()
		change(slice)
		of, err := slim(slice)
		if err != nil {
			t.Fatal(err)
		}
		again, err := slim(of)
		if err != nil {
			t.Fatal(err)
		}
		return again.(*hostSlice)
	}
	as := slim(func(*discoveryv1.EndpointSlice) {})
	looks := func(what string, happens func(), want int) {
		t.Helper()
		happens()
		if got := w.items(); len(got) != want || want > 0 && got[0] != webSlices {
			t.Errorf("%s: %v", what, got)
		}
		w.batches.begin(webSlices)
	}
	looks("what was written", func() { w.hostSliceChanged(as) }, 0)
	looks("what somebody changes", func() { w.hostSliceUpdated(as, slim(func(s *discoveryv1.EndpointSlice) { s.Generation++ })) }, 1)
	looks("what somebody labels", func() {
		w.hostSliceUpdated(as, slim(func(s *discoveryv1.EndpointSlice) { s.Labels[discoveryv1.LabelServiceName] = "other" }))
	}, 2)
	looks("what somebody else makes", func() { w.hostSliceChanged(slim(func(s *discoveryv1.EndpointSlice) { s.UID = "theirs" })) }, 1)
	looks("what somebody deletes", func() { w.hostSliceGone(as, true) }, 1)
	w.sliceTracker.ExpectDeletion(&made)
	looks("what was deleted", func() { w.hostSliceGone(as, true) }, 0)
	looks("of a namespace that nobody knows", func() {
		w.hostSliceChanged(slim(func(s *discoveryv1.EndpointSlice) { s.Namespace, s.UID = elsewhere.Host(), "theirs" }))
	}, 0)
	w.sliceTracker.Update(&made)
	w.hostServiceGone(hostService(webService(nil), nil), true)
	if w.sliceTracker.Has(&made) {
		t.Error("it is known after its Service has gone")
	}
}

// TestRefusedSlicesPayNothing checks that slices which have no room, and are looked at again and again, leave the rate
// of their tenant to those that are written.
func TestRefusedSlicesPayNothing(t *testing.T) {
	w := slicedWorld(t, hostSpace(), webService(nil), hostService(webService(nil), nil), spacePod(labelled), hostPod(spacePod(labelled), answering(corev1.ConditionTrue, "10.1.0.1")))
	if err := w.hostCaches.slices.GetIndexer().Add(&hostSlice{ObjectMeta: metav1.ObjectMeta{Name: "large", Namespace: home.Host()}, stored: maxSliceBytes}); err != nil {
		t.Fatal(err)
	}
	for range 1 + slicedAtOnce/leastCopy {
		if err := w.syncSlices(t.Context(), webSlices); err != nil {
			t.Fatal(err)
		}
	}
	if wait := w.writeBudgets[sliceBudget].wait(itemWrite{itemFor(slicesItem, webSlices.namespace, "other"), writeUpdate}, leastCopy); wait > 0 {
		t.Errorf("another Service of the tenant waits %v for what is not written", wait)
	}
}
