package clusterip

import (
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/kubernetes/pkg/apis/core"

	"github.com/tenantry/tenantry/internal/tenant"
	"github.com/tenantry/tenantry/internal/workloads/names"
	"github.com/tenantry/tenantry/internal/workloads/translate"
)

// unlabelled is what the host's policy says of a load balancer in a namespace that may have none.
var unlabelled = &apierrors.StatusError{ErrStatus: metav1.Status{
	Status: metav1.StatusFailure, Code: 422, Reason: metav1.StatusReasonInvalid,
	Message: "services \"web\" is forbidden: ValidatingAdmissionPolicy 'tenantry-workloads' with binding 'tenantry-workloads' denied request: " + noBalancers,
}}

func balanced(ports bool) func(*core.Service) {
	return func(s *core.Service) {
		s.Spec.Type, s.Spec.ExternalTrafficPolicy, s.Spec.AllocateLoadBalancerNodePorts = core.ServiceTypeLoadBalancer, core.ServiceExternalTrafficPolicyCluster, &ports
	}
}

// exhaust has the tenant have asked for as many load balancers as it may at once.
func (w *world) exhaust() {
	for range balancersAtOnce {
		if err := w.limits.allow("acme", service(balanced(false)), nil, &corev1.Service{}); err != nil {
			w.t.Fatal(err)
		}
	}
}

func TestCreateLoadBalancer(t *testing.T) {
	for name, tc := range map[string]struct {
		ports, local     bool
		port, healthPort int32
	}{
		"without node ports":         {},
		"with node ports":            {ports: true, port: 30007},
		"with one for health checks": {local: true, healthPort: 30008},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			s := service(balanced(tc.ports))
			if tc.local {
				s.Spec.ExternalTrafficPolicy = core.ServiceExternalTrafficPolicyLocal
			}
			if err := w.create(s, nil); err != nil {
				t.Fatal(err)
			}
			host := w.onTheHost()
			if host.Spec.Type != corev1.ServiceTypeLoadBalancer || *host.Spec.AllocateLoadBalancerNodePorts != tc.ports {
				t.Errorf("the host's is %+v", host.Spec)
			}
			if s.Spec.Ports[0].NodePort != tc.port || s.Spec.HealthCheckNodePort != tc.healthPort {
				t.Errorf("got %+v", s.Spec)
			}
			if same, err := w.isSame(host, s, home); err != nil || !same {
				t.Errorf("the host has not what is stored: %v", err)
			}
		})
	}
}

// TestChangeLoadBalancer checks which changes ask the host, and that what its components have put on the Service stays.
func TestChangeLoadBalancer(t *testing.T) {
	for name, tc := range map[string]struct {
		from, change func(*core.Service)
		asks         bool
		// left is the type on the host afterwards.
		left corev1.ServiceType
	}{
		"its sources": {from: balanced(false), change: func(s *core.Service) { s.Spec.LoadBalancerSourceRanges = []string{"192.0.2.0/24"} }, left: corev1.ServiceTypeLoadBalancer},
		"a port more": {from: balanced(false), change: func(s *core.Service) {
			s.Spec.Ports = append(s.Spec.Ports, core.ServicePort{Name: "more", Protocol: core.ProtocolTCP, Port: 81, TargetPort: s.Spec.Ports[0].TargetPort})
		}, left: corev1.ServiceTypeLoadBalancer},
		"a port more, with node ports": {from: balanced(true), change: func(s *core.Service) {
			s.Spec.Ports = append(s.Spec.Ports, core.ServicePort{Name: "more", Protocol: core.ProtocolTCP, Port: 81, TargetPort: s.Spec.Ports[0].TargetPort})
		}, asks: true, left: corev1.ServiceTypeLoadBalancer},
		"node ports after all": {from: balanced(false), change: func(s *core.Service) { s.Spec.AllocateLoadBalancerNodePorts = new(true) }, asks: true, left: corev1.ServiceTypeLoadBalancer},
		"a node port":          {from: balanced(false), change: func(s *core.Service) { s.Spec.Ports[0].NodePort = 30005 }, asks: true, left: corev1.ServiceTypeLoadBalancer},
		"health checks":        {from: balanced(false), change: func(s *core.Service) { s.Spec.ExternalTrafficPolicy = core.ServiceExternalTrafficPolicyLocal }, asks: true, left: corev1.ServiceTypeLoadBalancer},
		"from none":            {change: balanced(false), asks: true, left: corev1.ServiceTypeLoadBalancer},
		"to none": {from: balanced(false), change: func(s *core.Service) {
			s.Spec.Type, s.Spec.ExternalTrafficPolicy, s.Spec.AllocateLoadBalancerNodePorts = core.ServiceTypeClusterIP, "", nil // as upstream does
		}, asks: true, left: corev1.ServiceTypeClusterIP},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			before := service(tc.from)
			if err := w.create(before, nil); err != nil {
				t.Fatal(err)
			}
			host := w.onTheHost()
			host.Finalizers, host.Annotations["example.com/from"] = []string{"service.kubernetes.io/load-balancer-cleanup"}, "pool"
			if host.Spec.Type == corev1.ServiceTypeLoadBalancer {
				host.Spec.LoadBalancerClass = new("example.com/x")
			}
			if err := w.onHost.Tracker().Update(corev1.SchemeGroupVersion.WithResource("services"), host, home.Host()); err != nil {
				t.Fatal(err)
			}
			w.onHost.ClearActions()
			changed := before.DeepCopy()
			tc.change(changed)
			if err := w.update(changed, before, nil, nil, &metav1.UpdateOptions{}); err != nil {
				t.Fatal(err)
			}
			var want []string
			if tc.asks {
				want = []string{"get", "update"}
			}
			w.expect(want...)
			host = w.onTheHost()
			keepsClass := host.Spec.LoadBalancerClass != nil && *host.Spec.LoadBalancerClass == "example.com/x"
			if host.Spec.Type != tc.left || len(host.Finalizers) != 1 || (host.Annotations["example.com/from"] == "pool") != (tc.from != nil) ||
				keepsClass != (tc.from != nil && tc.left == corev1.ServiceTypeLoadBalancer) {
				t.Errorf("the host's is %+v", host)
			}
			if !tc.asks {
				return
			}
			if same, err := w.isSame(host, changed, home); err != nil || !same {
				t.Errorf("the host has not what is stored, %+v: %v", changed.Spec, err)
			}
		})
	}
}

// TestAnnotationNotGrantedAnyMore checks that no change opens to everybody what an annotation has closed.
func TestAnnotationNotGrantedAnyMore(t *testing.T) {
	const internal = "service.beta.kubernetes.io/aws-load-balancer-internal"
	w := newWorld(t)
	w.rules.LoadBalancerAnnotations = []string{internal}
	before := service(func(s *core.Service) { balanced(false)(s); s.Annotations = map[string]string{internal: "true"} })
	if err := w.create(before, nil); err != nil {
		t.Fatal(err)
	}
	w.rules.LoadBalancerAnnotations = nil
	for _, want := range []bool{true, false} { // the error, and then none
		changed := before.DeepCopy()
		changed.Spec.AllocateLoadBalancerNodePorts = new(true)
		if !want {
			delete(changed.Annotations, internal)
		}
		if err := w.update(changed, before, nil, nil, &metav1.UpdateOptions{}); apierrors.IsForbidden(err) != want {
			t.Errorf("got %v", err)
		}
		if _, has := w.onTheHost().Annotations[internal]; has != want {
			t.Errorf("the host's has %v", w.onTheHost().Annotations)
		}
	}
}

// TestLoadBalancerPutBack checks that what the host's components have put on a Service, while it had a load balancer
// that was not stored in the end, stays: they need it to take that away.
func TestLoadBalancerPutBack(t *testing.T) {
	w := newWorld(t)
	before := service(nil)
	if err := w.create(before, nil); err != nil {
		t.Fatal(err)
	}
	w.onHost.PrependReactor("get", "services", func(clienttesting.Action) (bool, runtime.Object, error) {
		all, err := w.onHost.Tracker().List(corev1.SchemeGroupVersion.WithResource("services"), corev1.SchemeGroupVersion.WithKind("Service"), home.Host())
		if err != nil {
			return true, nil, err
		}
		host := all.(*corev1.ServiceList).Items[0]
		if host.Spec.Type == corev1.ServiceTypeLoadBalancer {
			host.Finalizers = []string{"service.kubernetes.io/load-balancer-cleanup"}
		}
		return true, &host, nil
	})
	changed := before.DeepCopy()
	balanced(false)(changed)
	if err := w.update(changed, before, nil, apierrors.NewForbidden(serviceResource, "web", nil), &metav1.UpdateOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("got %v", err)
	}
	all, err := w.onHost.Tracker().List(corev1.SchemeGroupVersion.WithResource("services"), corev1.SchemeGroupVersion.WithKind("Service"), home.Host())
	if err != nil {
		t.Fatal(err)
	}
	if host := all.(*corev1.ServiceList).Items[0]; host.Spec.Type != corev1.ServiceTypeClusterIP || len(host.Finalizers) != 1 {
		t.Errorf("the host's is %+v", host)
	}
}

// TestLoadBalancersWait checks that a tenant waits for its own load balancers alone.
func TestLoadBalancersWait(t *testing.T) {
	w := newWorld(t)
	w.exhaust()
	of, plain := service(balanced(false)), service(nil)
	for name, tc := range map[string]struct {
		tenant      tenant.Name
		now, before *core.Service
		waits       bool
	}{
		"one more":        {tenant: "acme", now: of, waits: true},
		"one less":        {tenant: "acme", now: plain, before: of, waits: true},
		"one of others":   {tenant: "globex", now: of},
		"none":            {tenant: "acme", now: plain},
		"none, as before": {tenant: "acme", now: plain, before: plain},
	} {
		if err := w.limits.allow(tc.tenant, tc.now, tc.before, &corev1.Service{}); apierrors.IsTooManyRequests(err) != tc.waits {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

// TestWritesWait checks that a tenant waits whose Services are many bytes on the host, for its own alone, and that it
// is forgotten.
func TestWritesWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, before := newWorld(t), service(nil)
		if err := w.create(before, nil); err != nil {
			t.Fatal(err)
		}
		of := func(n tenant.Name) error { return w.limits.allow(n, service(nil), nil, &corev1.Service{}) }
		written := 1
		for ; written < 2000 && of("acme") == nil; written++ {
		}
		if atOnce := writtenAtOnce / translate.ServiceBytes(&corev1.Service{}); written != atOnce {
			t.Errorf("%d small ones at once, want %d", written, atOnce)
		}
		for name, err := range map[string]error{
			"made":    w.create(service(func(s *core.Service) { s.Name = "api" }), nil),
			"changed": w.update(service(func(s *core.Service) { *s = *before.DeepCopy(); asNodePort(s) }), before, nil, nil, &metav1.UpdateOptions{}),
		} {
			if seconds, _ := apierrors.SuggestsClientDelay(err); !apierrors.IsTooManyRequests(err) || seconds != 1 {
				t.Errorf("one that is %s: %v", name, err)
			}
		}
		if err := of("globex"); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Second)
		if err := of("acme"); err != nil {
			t.Error("a second later:", err)
		}
		time.Sleep(time.Minute)
		large := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{"a": strings.Repeat("a", writtenAtOnce)}}}
		if err := w.limits.allow("initech", service(nil), nil, large); err != nil {
			t.Error("a large one:", err)
		}
		if err := w.limits.allow("initech", service(nil), nil, large); err == nil {
			t.Error("two large ones at once")
		}
		if known := w.limits.written.Len(); known != 1 {
			t.Errorf("%d are known", known)
		}
	})
}

// TestPolicySaysSo checks that the policy of the host says what servers know it by.
func TestPolicySaysSo(t *testing.T) {
	policy, err := os.ReadFile("../../../config/workloads/policy.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(policy), "message: "+noBalancers+"\n") || !strings.Contains(string(policy), "'"+names.LoadBalancersLabel+"'") {
		t.Errorf("it does not say %q", noBalancers)
	}
}
