package sync

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tenantry/tenantry/api/v1alpha1"
	"github.com/tenantry/tenantry/internal/workloads/names"
	"github.com/tenantry/tenantry/internal/workloads/translate"
)

const internal = "service.beta.kubernetes.io/aws-load-balancer-internal"

var mayBalance = v1alpha1.Workloads{LoadBalancers: v1alpha1.LoadBalancersAllowed, LoadBalancerAnnotations: []string{internal}}

// balanced is a Service with a load balancer.
func balanced(change func(*corev1.Service)) *corev1.Service {
	return spaceService(func(s *corev1.Service) {
		s.Annotations = map[string]string{internal: "true"}
		s.Spec.Type, s.Spec.AllocateLoadBalancerNodePorts = corev1.ServiceTypeLoadBalancer, new(false)
		if change != nil {
			change(s)
		}
	})
}

// onHostBalanced has the host have one for a Service of the space, as its components have made it.
func onHostBalanced(w *world, of *corev1.Service, change func(*corev1.Service)) {
	host := translate.RulesOf(&mayBalance, nil).Service(of, home)
	host.UID, host.Finalizers = "hs", []string{"service.kubernetes.io/load-balancer-cleanup"}
	host.Annotations["example.com/from"], host.Spec.LoadBalancerClass = "pool", new("example.com/x")
	if change != nil {
		change(host)
	}
	w.add(w.onHost, host.DeepCopy())
	slimmed, err := slim(host)
	if err != nil {
		w.t.Fatal(err)
	}
	w.see(slimmed.(*corev1.Service))
}

func addressed(all ...string) func(*corev1.Service) {
	return func(s *corev1.Service) {
		s.Status.LoadBalancer.Ingress = nil
		for _, ip := range all {
			s.Status.LoadBalancer.Ingress = append(s.Status.LoadBalancer.Ingress, corev1.LoadBalancerIngress{IP: ip, IPMode: new(corev1.LoadBalancerIPModeVIP)})
		}
	}
}

func TestLoadBalancers(t *testing.T) {
	var many []string
	for n := range maxAddresses + 1 {
		many = append(many, fmt.Sprintf("192.0.2.%d", n))
	}
	withHost := func(change func(*corev1.Service)) func(*world) {
		return func(w *world) { onHostBalanced(w, balanced(nil), change) }
	}
	status, update := []string{"patch services/status"}, []string{"update services"}
	other := balanced(func(s *corev1.Service) { s.Spec.LoadBalancerSourceRanges = []string{"192.0.2.0/24"} })
	nothing, noAnnotations := v1alpha1.Workloads{}, v1alpha1.Workloads{LoadBalancers: v1alpha1.LoadBalancersAllowed}
	for name, tc := range map[string]struct {
		may             *v1alpha1.Workloads
		service         *corev1.Service
		before          func(*world)
		inSpace, onHost []string
		// at are the addresses in the space afterwards, sources those that the host's lets in.
		at, sources []string
		// refused is whether the space is told that the host has not what it says.
		refused bool
	}{
		"one from before":                      {service: balanced(nil), onHost: []string{"patch namespaces", "create services"}},
		"one from before, of a Tenant without": {may: &nothing, service: balanced(nil), inSpace: status, refused: true},
		"one with an address":                  {service: balanced(nil), before: withHost(addressed("192.0.2.7")), inSpace: status, at: []string{"192.0.2.7"}},
		"one whose address is known":           {service: balanced(addressed("192.0.2.7")), before: withHost(addressed("192.0.2.7")), at: []string{"192.0.2.7"}},
		"one with a name": {service: balanced(nil), before: withHost(func(s *corev1.Service) {
			s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{Hostname: "b.example.com"}}
		}), inSpace: status, at: []string{"b.example.com"}},
		"one of a host of before": {service: balanced(addressed("192.0.2.7")), before: withHost(func(s *corev1.Service) {
			s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "192.0.2.7"}}
		}), at: []string{"192.0.2.7"}},
		"one with many addresses":            {service: balanced(nil), before: withHost(addressed(many...)), inSpace: status, at: many[:maxAddresses]},
		"an address that the host has not":   {service: balanced(addressed("192.0.2.8")), before: withHost(nil), inSpace: status},
		"an address of what has no balancer": {service: spaceService(nil), before: func(w *world) { onHostBalanced(w, spaceService(nil), addressed("192.0.2.7")) }},
		"one that has changed":               {service: other, before: withHost(nil), onHost: update, sources: []string{"192.0.2.0/24"}},
		"one that has changed, without a grant": {may: &nothing, service: balanced(func(s *corev1.Service) {
			s.Annotations = nil
			s.Spec.LoadBalancerSourceRanges = []string{"192.0.2.0/24"}
		}), before: withHost(nil), onHost: update, sources: []string{"192.0.2.0/24"}},
		"one that loses its grant":                     {may: &nothing, service: balanced(func(s *corev1.Service) { s.Annotations = nil }), before: func(w *world) { onHostBalanced(w, balanced(func(s *corev1.Service) { s.Annotations = nil }), nil) }},
		"one whose annotation is not granted any more": {may: &noAnnotations, service: balanced(nil), before: withHost(nil), inSpace: status, refused: true},
		"one of many changes": {service: other, before: func(w *world) {
			withHost(nil)(w)
			for n := range routesAtOnce {
				w.writeBudgets[routeBudget].wait(itemWrite{item{ingressItem, "acme", "acme|shop", fmt.Sprint(n)}, writeUpdate}, 1)
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, hostSpace(), tc.service)
			w.may(mayBalance)
			if tc.may != nil {
				w.may(*tc.may)
			}
			if tc.before != nil {
				tc.before(w)
			}
			if err := w.lookAtService(); err != nil {
				t.Fatal(err)
			}
			w.expect(tc.inSpace, tc.onHost)
			got, err := w.space.CoreV1().Services("acme|shop").Get(t.Context(), "web", metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			var at []string
			for _, a := range got.Status.LoadBalancer.Ingress {
				at = append(at, a.IP+a.Hostname)
			}
			if diff := cmp.Diff(tc.at, at); diff != "" {
				t.Errorf("addresses in the space (-want +got):\n%s", diff)
			}
			if refused := len(got.Status.Conditions) > 0; refused != tc.refused {
				t.Errorf("the space is told %v", got.Status.Conditions)
			}
			if !cmp.Equal(tc.onHost, update) {
				return
			}
			host, err := w.onHost.CoreV1().Services(home.Host()).Get(t.Context(), "web", metav1.GetOptions{})
			if err != nil || host.Spec.Type != corev1.ServiceTypeLoadBalancer || !cmp.Equal(host.Spec.LoadBalancerSourceRanges, tc.sources) ||
				len(host.Finalizers) != 1 || *host.Spec.LoadBalancerClass != "example.com/x" || host.Annotations["example.com/from"] != "pool" {
				t.Errorf("the host's is %+v, %v", host, err)
			}
		})
	}
}

// TestLoadBalancerGoes checks that the host's namespace is looked at when a Service has no load balancer any more.
func TestLoadBalancerGoes(t *testing.T) {
	w := newWorld(t, hostSpace())
	looksAt := func() (all []kind) {
		for w.queue.Len() > 0 {
			i, _ := w.queue.Get()
			w.queue.Done(i)
			all = append(all, i.kind)
		}
		return all
	}
	w.serviceUpdated(spaceService(nil), balanced(nil))
	if diff := cmp.Diff([]kind{serviceItem, slicesItem}, looksAt()); diff != "" {
		t.Errorf("when one comes (-want +got):\n%s", diff)
	}
	w.serviceUpdated(balanced(nil), spaceService(nil))
	if diff := cmp.Diff([]kind{serviceItem, hostNamespaceItem}, looksAt()); diff != "" {
		t.Errorf("when one goes (-want +got):\n%s", diff)
	}
}

// TestLoadBalancersGranted checks that Services are looked at when their Tenant may have load balancers.
func TestLoadBalancersGranted(t *testing.T) {
	w := newWorld(t, hostSpace(), balanced(nil))
	w.tenantUpdated(tenantWith(v1alpha1.Workloads{}), tenantWith(mayBalance))
	if !slices.Contains(w.items(), item{serviceItem, "acme", "acme|shop", "web"}) {
		t.Error("they are not looked at")
	}
}

// TestAddressOfNone checks that a Service shows no address whose host's is gone and is not made again: it may be
// another's by then.
func TestAddressOfNone(t *testing.T) {
	w := newWorld(t, hostSpace(), balanced(addressed("192.0.2.7")))
	w.may(v1alpha1.Workloads{})
	if err := w.lookAtService(); err != nil {
		t.Fatal(err)
	}
	got, err := w.space.CoreV1().Services("acme|shop").Get(t.Context(), "web", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Status.LoadBalancer.Ingress) > 0 {
		t.Errorf("still %v, conditions %v", got.Status.LoadBalancer.Ingress, got.Status.Conditions)
	}
}

// TestNoneOnTheHostYet checks that what is a load balancer in the space alone gets none without a grant.
func TestNoneOnTheHostYet(t *testing.T) {
	w := newWorld(t, hostSpace(), balanced(func(s *corev1.Service) { s.Annotations = nil }))
	w.may(v1alpha1.Workloads{})
	onHostBalanced(w, spaceService(nil), nil)
	if err := w.lookAtService(); err != nil {
		t.Fatal(err)
	}
	host, err := w.onHost.CoreV1().Services(home.Host()).Get(t.Context(), "web", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if host.Spec.Type == corev1.ServiceTypeLoadBalancer {
		t.Errorf("the host's is a load balancer; label: %q", w.wantedNamespace(home, tenantWith(v1alpha1.Workloads{})).Labels[names.LoadBalancersLabel])
	}
}

// TestLabelsOfComponents checks that a change leaves the label by which a component knows its own.
func TestLabelsOfComponents(t *testing.T) {
	w := newWorld(t, hostSpace(), balanced(func(s *corev1.Service) { s.Spec.Selector = map[string]string{"app": "other"} }))
	w.may(mayBalance)
	onHostBalanced(w, balanced(nil), func(s *corev1.Service) { s.Labels["implementation"] = "kube-vip" })
	if err := w.lookAtService(); err != nil {
		t.Fatal(err)
	}
	host, err := w.onHost.CoreV1().Services(home.Host()).Get(t.Context(), "web", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if host.Labels["implementation"] == "" {
		t.Errorf("labels are %v", host.Labels)
	}
}

// TestForgetsBalancer checks that what is left of a load balancer goes when components have taken that away, and with
// what they write afterwards, and that a Service that never had one keeps what they put on it.
func TestForgetsBalancer(t *testing.T) {
	update := []string{"update services"}
	w := newWorld(t, hostSpace(), spaceService(nil))
	w.may(mayBalance)
	for n := range 1000 { // others wait for the address
		w.writeBudgets[smallBudget].wait(itemWrite{item{serviceItem, "acme", "acme|shop", fmt.Sprint(n)}, writeUpdate}, smallBytes)
	}
	onHostBalanced(w, spaceService(nil), func(s *corev1.Service) {
		s.Spec.LoadBalancerClass, s.Labels["implementation"], s.Annotations[names.BalancerAnnotation] = nil, "kube-vip", "true"
	})
	looks := func(change func(*corev1.Service), wants []string, marked, ends bool) {
		t.Helper()
		host, err := w.onHost.CoreV1().Services(home.Host()).Get(t.Context(), "web", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if change != nil {
			change(host)
			if err := w.onHost.Tracker().Update(corev1.SchemeGroupVersion.WithResource("services"), host.DeepCopy(), home.Host()); err != nil {
				t.Fatal(err)
			}
		}
		slimmed, err := slim(host)
		if err != nil {
			t.Fatal(err)
		}
		w.see(slimmed.(*corev1.Service))
		w.onHost.ClearActions()
		if err := w.lookAtService(); err != nil {
			t.Fatal(err)
		}
		w.expect(nil, wants)
		if host, err = w.onHost.CoreV1().Services(home.Host()).Get(t.Context(), "web", metav1.GetOptions{}); err != nil {
			t.Fatal(err)
		}
		if (host.Labels["implementation"] != "") != marked || (host.Annotations[names.BalancerAnnotation] != "") != ends {
			t.Errorf("it has %v, %v", host.Labels, host.Annotations)
		}
	}
	late := func(s *corev1.Service) { s.Labels["implementation"] = "kube-vip" }
	looks(nil, nil, true, true) // its finalizer is there
	looks(func(s *corev1.Service) { s.Finalizers = nil }, update, false, true)
	looks(nil, nil, false, true)
	looks(late, update, false, true)
	w.clock.Step(inTheMaking)
	looks(late, update, false, false)
	looks(nil, nil, false, false)
	looks(late, nil, true, false)
}

// TestBalancerOfAChange checks that what is left of a load balancer does not wait until a change counts as none.
func TestBalancerOfAChange(t *testing.T) {
	w := newWorld(t, hostSpace(), spaceService(nil))
	w.may(mayBalance)
	onHostBalanced(w, spaceService(nil), func(s *corev1.Service) {
		s.Finalizers, s.Spec.LoadBalancerClass, s.Annotations[names.BalancerAnnotation], s.Annotations[names.ChangeAnnotation] = nil, nil, "true", "now"
	})
	if err := w.lookAtService(); err != nil {
		t.Fatal(err)
	}
	w.expect(nil, []string{"update services"})
}
