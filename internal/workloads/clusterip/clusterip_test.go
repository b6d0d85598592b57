package clusterip

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/kubernetes/pkg/apis/core"

	"github.com/tenantry/tenantry/internal/tenant"
	"github.com/tenantry/tenantry/internal/workloads/names"
	"github.com/tenantry/tenantry/internal/workloads/translate"
)

var home = names.Namespace{Installation: "i", Tenant: "acme", TenantUID: "t", Name: "shop", UID: "n"}

var serviceResource = schema.GroupResource{Resource: "services"}

// world is a host, and a space whose store a test writes by the hooks.
type world struct {
	*services
	t      *testing.T
	onHost *fake.Clientset
	store  *registry.Store
	stored map[string]*core.Service
	rules  translate.Rules
	// wanted are the namespaces that the syncer was asked for.
	wanted []string
	// upstream are the hooks of the system space that were called.
	upstream []string
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, onHost: fake.NewClientset(), stored: map[string]*core.Service{}, rules: translate.Rules{NodePorts: true, LoadBalancers: true}}
	w.onHost.PrependReactor("create", "services", func(action clienttesting.Action) (bool, runtime.Object, error) {
		choose(action.(clienttesting.CreateAction).GetObject().(*corev1.Service))
		return false, nil, nil
	})
	w.onHost.PrependReactor("update", "services", func(action clienttesting.Action) (bool, runtime.Object, error) {
		choose(action.(clienttesting.UpdateAction).GetObject().(*corev1.Service))
		return false, nil, nil
	})
	granting, err := newGranting()
	if err != nil {
		t.Fatal(err)
	}
	w.services = &services{
		limits: newLimits(),
		config: Config{
			HomeOf: func(context.Context, tenant.Name, string) (names.Namespace, error) { return home, nil },
			Rules:  func(tenant.Name) translate.Rules { return w.rules },
			Want: func(_ context.Context, n tenant.Name, namespace string) error {
				w.wanted = append(w.wanted, tenant.Flatten(n, namespace).String())
				return nil
			},
		},
		host: w.onHost.CoreV1(), patience: 4 * pause, granting: granting,
		get: func(_ context.Context, name string, _ *metav1.GetOptions) (runtime.Object, error) {
			if stored, ok := w.stored[name]; ok {
				return stored, nil
			}
			return nil, apierrors.NewNotFound(serviceResource, name)
		},
	}
	nothing := func(context.Context, bool) {}
	w.store = &registry.Store{
		BeginCreate: func(context.Context, runtime.Object, *metav1.CreateOptions) (registry.FinishFunc, error) {
			w.upstream = append(w.upstream, "create")
			return nothing, nil
		},
		BeginUpdate: func(context.Context, runtime.Object, runtime.Object, *metav1.UpdateOptions) (registry.FinishFunc, error) {
			w.upstream = append(w.upstream, "update")
			return nothing, nil
		},
		AfterDelete: func(runtime.Object, *metav1.DeleteOptions) { w.upstream = append(w.upstream, "delete") },
	}
	w.hook(w.store)
	return w
}

// choose does what a host's allocators do.
func choose(s *corev1.Service) {
	s.UID = types.UID("host-of-" + s.Annotations[names.UIDAnnotation])
	if s.Spec.Type == corev1.ServiceTypeExternalName {
		s.Spec.ClusterIP, s.Spec.ClusterIPs = "", nil
		return
	}
	if s.Spec.ClusterIP == "" {
		s.Spec.ClusterIP = "10.1.2.3"
	}
	s.Spec.ClusterIPs = []string{s.Spec.ClusterIP}
	s.Spec.IPFamilies, s.Spec.IPFamilyPolicy = []corev1.IPFamily{corev1.IPv4Protocol}, new(corev1.IPFamilyPolicySingleStack)
	for i := range s.Spec.Ports {
		allocates := s.Spec.Type == corev1.ServiceTypeNodePort || s.Spec.Type == corev1.ServiceTypeLoadBalancer && *s.Spec.AllocateLoadBalancerNodePorts
		if allocates && s.Spec.Ports[i].NodePort == 0 {
			s.Spec.Ports[i].NodePort = 30007
		}
	}
	if s.Spec.Type == corev1.ServiceTypeLoadBalancer && s.Spec.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal && s.Spec.HealthCheckNodePort == 0 {
		s.Spec.HealthCheckNodePort = 30008
	}
}

func in(t *testing.T, n tenant.Name) context.Context {
	return genericapirequest.WithNamespace(tenant.WithSpace(t.Context(), n), "shop")
}

func service(change func(*core.Service)) *core.Service {
	s := &core.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "shop", UID: "s", ResourceVersion: "1"},
		Spec: core.ServiceSpec{
			Type: core.ServiceTypeClusterIP, Selector: map[string]string{"app": "web"}, SessionAffinity: core.ServiceAffinityNone,
			InternalTrafficPolicy: new(core.ServiceInternalTrafficPolicyCluster),
			Ports:                 []core.ServicePort{{Name: "http", Protocol: core.ProtocolTCP, Port: 80, TargetPort: intstr.FromInt32(80)}},
		},
	}
	if change != nil {
		change(s)
	}
	return s
}

// create creates a Service as serviceREST does, and stores it unless fail is set.
func (w *world) create(s *core.Service, fail error) error {
	ctx, m := in(w.t, "acme"), &transaction{}
	finish, err := w.store.BeginCreate(withTransaction(ctx, m), s, &metav1.CreateOptions{})
	if err == nil {
		err = m.afterCreate(nil)(ctx, s.DeepCopy())
	}
	if err == nil {
		finish(ctx, true)
		if err = fail; err == nil {
			w.stored[s.Name] = s
		}
	}
	m.finish(ctx, err)
	return err
}

// update updates a Service as serviceREST does: admission refuses it by refused, and storage by fail.
func (w *world) update(s, before *core.Service, refused, fail error, options *metav1.UpdateOptions) error {
	ctx, m := in(w.t, "acme"), &transaction{}
	finish, err := w.store.BeginUpdate(withTransaction(ctx, m), s, before, options)
	if err == nil {
		err = m.afterUpdate(func(context.Context, runtime.Object, runtime.Object) error { return refused })(ctx, s.DeepCopy(), before.DeepCopy())
	}
	if err == nil {
		finish(ctx, true)
		if err = fail; err == nil && len(options.DryRun) == 0 {
			w.stored[s.Name] = s
		}
	}
	m.finish(ctx, err)
	return err
}

// did returns what was done on the host.
func (w *world) did() []string {
	var all []string
	for _, action := range w.onHost.Actions() {
		what := action.GetVerb()
		if d, ok := action.(clienttesting.DeleteActionImpl); ok {
			what += " " + string(*d.DeleteOptions.Preconditions.UID)
		}
		all = append(all, what)
	}
	w.onHost.ClearActions()
	return all
}

func (w *world) expect(want ...string) {
	w.t.Helper()
	if diff := cmp.Diff(want, w.did()); diff != "" {
		w.t.Errorf("on the host (-want +got):\n%s", diff)
	}
}

func TestCreate(t *testing.T) {
	w := newWorld(t)
	s := service(func(s *core.Service) {
		s.Spec.Type = core.ServiceTypeNodePort
		s.Annotations = map[string]string{names.HostUIDAnnotation: "forged"}
		s.Spec.ExternalTrafficPolicy = core.ServiceExternalTrafficPolicyCluster
	})
	if err := w.create(s, nil); err != nil {
		t.Fatal(err)
	}
	w.expect("create")
	if s.Spec.ClusterIP != "10.1.2.3" || !cmp.Equal(s.Spec.ClusterIPs, []string{"10.1.2.3"}) || s.Spec.Ports[0].NodePort != 30007 ||
		!cmp.Equal(s.Spec.IPFamilies, []core.IPFamily{core.IPv4Protocol}) || s.Annotations[names.HostUIDAnnotation] != "host-of-s" {
		t.Errorf("got %+v", s)
	}
	host, err := w.onHost.CoreV1().Services(home.Host()).Get(t.Context(), "web", metav1.GetOptions{})
	if err != nil || host.Annotations[names.UIDAnnotation] != "s" || host.Labels[names.InstallationLabel] != "i" {
		t.Errorf("the host's is %+v, %v", host, err)
	}
	if len(w.upstream) > 0 {
		t.Errorf("upstream allocates, too: %v", w.upstream)
	}
	w.store.AfterDelete(s, &metav1.DeleteOptions{})
	if len(w.upstream) > 0 {
		t.Errorf("upstream releases what is not its own: %v", w.upstream)
	}
}

// TestTakenBack checks that what is not stored does not stay on the host, and that what may be stored does.
func TestTakenBack(t *testing.T) {
	for name, tc := range map[string]struct {
		before func(w *world, s *core.Service)
		want   []string
	}{
		"what was refused": {want: []string{"create", "get", "delete host-of-s"}},
		"what was stored":  {before: func(w *world, s *core.Service) { w.stored["web"] = s }, want: []string{"create"}},
		"another one of the name": {before: func(w *world, _ *core.Service) {
			w.stored["web"] = service(func(s *core.Service) { s.UID = "other" })
		}, want: []string{"create", "get", "delete host-of-s"}},
		"what cannot be known": {before: func(w *world, _ *core.Service) {
			w.get = func(context.Context, string, *metav1.GetOptions) (runtime.Object, error) {
				return nil, errors.New("no etcd")
			}
		}, want: []string{"create"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			s, m := service(nil), &transaction{}
			if _, err := w.store.BeginCreate(withTransaction(in(t, "acme"), m), s, &metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
			if err := m.askHost(in(t, "acme")); err != nil {
				t.Fatal(err)
			}
			if tc.before != nil {
				tc.before(w, s)
			}
			m.finish(in(t, "acme"), errors.New("quota exceeded"))
			w.expect(tc.want...)
		})
	}
}

// TestTriedAgain checks that one request leaves one Service on the host, however often upstream tries.
func TestTriedAgain(t *testing.T) {
	w, m := newWorld(t), &transaction{}
	ctx := withTransaction(in(t, "acme"), m)
	for _, uid := range []types.UID{"s", "again"} {
		if _, err := w.store.BeginCreate(ctx, service(func(s *core.Service) { s.UID = uid }), &metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		if err := m.askHost(ctx); err != nil {
			t.Fatal(err)
		}
	}
	m.finish(ctx, nil)
	w.expect("create", "get", "delete host-of-s", "create")
}

// TestChangedOtherwise checks that an attempt after one that chose, and was not stored, asks for nothing of that.
func TestChangedOtherwise(t *testing.T) {
	w, m := newWorld(t), &transaction{}
	before := service(nil)
	if err := w.create(before, nil); err != nil {
		t.Fatal(err)
	}
	w.onHost.ClearActions()
	ctx, changed, other := withTransaction(in(t, "acme"), m), before.DeepCopy(), before.DeepCopy()
	asNodePort(changed)
	other.Spec.Selector = map[string]string{"app": "other"}
	for _, attempt := range []*core.Service{changed, other} {
		if _, err := w.store.BeginUpdate(ctx, attempt, before.DeepCopy(), &metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		if err := m.askHost(ctx); err != nil {
			t.Fatal(err)
		}
	}
	w.expect("get", "update", "get", "update")
	if host := w.onTheHost(); host.Spec.Type != corev1.ServiceTypeClusterIP {
		t.Errorf("the host's is %+v", host)
	}
}

// TestAskedLast checks that the host is not asked for what admission refuses.
func TestAskedLast(t *testing.T) {
	w, m := newWorld(t), &transaction{}
	ctx, no := withTransaction(in(t, "acme"), m), errors.New("a policy does not allow it")
	if _, err := w.store.BeginCreate(ctx, service(nil), &metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := m.afterCreate(func(context.Context, runtime.Object) error { return no })(ctx, service(nil)); !errors.Is(err, no) {
		t.Errorf("got %v", err)
	}
	m.finish(ctx, no)
	w.expect()
	before := service(nil)
	if err := w.create(before, nil); err != nil {
		t.Fatal(err)
	}
	w.onHost.ClearActions()
	changed := before.DeepCopy()
	asNodePort(changed)
	if err := w.update(changed, before, no, nil, &metav1.UpdateOptions{}); !errors.Is(err, no) {
		t.Errorf("got %v", err)
	}
	w.expect()
}

// onTheHost returns the one Service of the host.
func (w *world) onTheHost() *corev1.Service {
	w.t.Helper()
	host, err := w.onHost.CoreV1().Services(home.Host()).Get(w.t.Context(), "web", metav1.GetOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	return host
}

// TestPutBack checks that a change that is not stored does not stay on the host, and that one that may be stored does.
func TestPutBack(t *testing.T) {
	refused := errors.New("beyond the tenant's quota")
	for name, tc := range map[string]struct {
		before func(w *world, changed *core.Service)
		want   []string
		left   corev1.ServiceType
	}{
		"what was refused": {want: []string{"get", "update", "get", "update"}, left: corev1.ServiceTypeClusterIP},
		"what was stored": {before: func(w *world, changed *core.Service) { w.stored["web"] = changed },
			want: []string{"get", "update", "get"}, left: corev1.ServiceTypeNodePort},
		"what cannot be known": {before: func(w *world, _ *core.Service) {
			w.get = func(context.Context, string, *metav1.GetOptions) (runtime.Object, error) {
				return nil, errors.New("no etcd")
			}
		}, want: []string{"get", "update", "get"}, left: corev1.ServiceTypeNodePort},
		"what others have changed since": {before: func(w *world, _ *core.Service) {
			host := w.onTheHost()
			host.Annotations[names.ChangeAnnotation] = "later"
			if err := w.onHost.Tracker().Update(corev1.SchemeGroupVersion.WithResource("services"), host, home.Host()); err != nil {
				w.t.Fatal(err)
			}
		}, want: []string{"get", "update", "get", "get"}, left: corev1.ServiceTypeNodePort},
	} {
		t.Run(name, func(t *testing.T) {
			w, m := newWorld(t), &transaction{}
			before := service(nil)
			if err := w.create(before, nil); err != nil {
				t.Fatal(err)
			}
			w.onHost.ClearActions()
			ctx, changed := withTransaction(in(t, "acme"), m), before.DeepCopy()
			asNodePort(changed)
			if _, err := w.store.BeginUpdate(ctx, changed, before, &metav1.UpdateOptions{}); err != nil {
				t.Fatal(err)
			}
			if err := m.askHost(ctx); err != nil {
				t.Fatal(err)
			}
			if tc.before != nil {
				tc.before(w, changed)
			}
			m.finish(ctx, refused)
			w.expect(tc.want...)
			host := w.onTheHost()
			if host.Spec.Type != tc.left || (host.Annotations[names.ChangeAnnotation] != "") != (tc.left == corev1.ServiceTypeNodePort) {
				t.Errorf("the host's is %+v", host)
			}
		})
	}
}

// TestChangedByAnother checks that a change is not made upon one of another request, which may be refused: nobody would
// put back what there was before both.
func TestChangedByAnother(t *testing.T) {
	w, m := newWorld(t), &transaction{}
	before := service(nil)
	if err := w.create(before, nil); err != nil {
		t.Fatal(err)
	}
	first := before.DeepCopy()
	asNodePort(first)
	if _, err := w.store.BeginUpdate(withTransaction(in(t, "acme"), m), first, before, &metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := m.askHost(in(t, "acme")); err != nil {
		t.Fatal(err)
	}
	second := before.DeepCopy()
	second.Spec.Type, second.Spec.ExternalName = core.ServiceTypeExternalName, "example.com"
	if err := w.update(second, before, nil, nil, &metav1.UpdateOptions{}); !apierrors.IsConflict(err) {
		t.Errorf("got %v", err)
	}
	w.stored["web"] = first
	third := first.DeepCopy()
	third.Spec.Type, third.Spec.ExternalTrafficPolicy, third.Spec.Ports[0].NodePort = core.ServiceTypeClusterIP, "", 0
	if err := w.update(third, first, nil, nil, &metav1.UpdateOptions{}); err != nil {
		t.Errorf("a change after one that is stored: %v", err)
	}
}

// TestAnsweredLate checks that what the host has made does not stay if its answer is lost.
func TestAnsweredLate(t *testing.T) {
	w := newWorld(t)
	w.onHost.PrependReactor("create", "services", func(action clienttesting.Action) (bool, runtime.Object, error) {
		s := action.(clienttesting.CreateAction).GetObject().(*corev1.Service).DeepCopy()
		choose(s)
		w.add(s)
		return true, nil, context.DeadlineExceeded
	})
	if err := w.create(service(nil), nil); !apierrors.IsServiceUnavailable(err) {
		t.Errorf("got %v", err)
	}
	w.expect("create", "get", "delete host-of-s")
	// It may take a moment until it is there.
	looked := false
	w.onHost.PrependReactor("get", "services", func(clienttesting.Action) (bool, runtime.Object, error) {
		defer func() { looked = true }()
		return !looked, nil, apierrors.NewNotFound(serviceResource, "web")
	})
	if err := w.create(service(nil), nil); !apierrors.IsServiceUnavailable(err) {
		t.Errorf("got %v", err)
	}
	w.expect("create", "get", "get", "delete host-of-s")
}

func TestRefused(t *testing.T) {
	fails := func(err error) func(*world) {
		return func(w *world) {
			w.onHost.PrependReactor("create", "services", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, err })
		}
	}
	noRights := apierrors.NewForbidden(serviceResource, "web", errors.New(`User "x" cannot create resource "services" in API group "" in the namespace "tn-x"`))
	for name, tc := range map[string]struct {
		change   func(*core.Service)
		before   func(*world)
		want     string
		code     int32
		retries  bool
		noHost   bool
		isWanted bool
	}{
		"what is not valid":        {change: func(s *core.Service) { s.Spec.Ports[0].Port = 0 }, want: "spec.ports[0].port: Invalid value", code: http.StatusUnprocessableEntity, noHost: true},
		"what a webhook has added": {change: withExternalIP, want: "spec.externalIPs: Forbidden", code: http.StatusForbidden, noHost: true},
		"what there is already": {before: func(w *world) { w.stored["web"] = service(func(s *core.Service) { s.UID = "other" }) },
			want: "already exists", code: http.StatusConflict, noHost: true},
		"an address of another's": {before: fails(apierrors.NewInvalid(core.Kind("Service"), "web", nil)), want: `Service "web" is invalid`, code: http.StatusUnprocessableEntity},
		"beyond the host's quota": {before: fails(apierrors.NewForbidden(serviceResource, "web", errors.New("exceeded quota in "+home.Host()))),
			want: "the host cluster does not take it", code: http.StatusForbidden},
		"no answer":    {before: fails(errors.New("connection refused at 10.9.9.9")), want: "cannot be reached", code: http.StatusServiceUnavailable, retries: true},
		"no namespace": {before: fails(apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, home.Host())), want: "no place for Services of this namespace yet", code: http.StatusServiceUnavailable, retries: true, isWanted: true},
		"load balancers that may not be": {change: balanced(false), before: func(w *world) { w.rules = translate.Rules{NodePorts: true} },
			want: "spec.type: Forbidden: load balancers of the host are not for this Tenant", code: http.StatusForbidden, noHost: true},
		"node ports of a load balancer": {change: balanced(true), before: func(w *world) { w.rules = translate.Rules{LoadBalancers: true} },
			want: "spec.allocateLoadBalancerNodePorts: Forbidden", code: http.StatusForbidden, noHost: true},
		"load balancers that the host does not know of": {change: balanced(false), before: fails(unlabelled),
			want: "no place for Services of this namespace yet", code: http.StatusServiceUnavailable, retries: true, isWanted: true},
		"too many load balancers": {change: balanced(false), before: func(w *world) { w.exhaust() }, want: "a tenant has one load balancer made or changed in 6s", code: http.StatusTooManyRequests, retries: true, noHost: true},
		"no rights in it yet":     {before: fails(noRights), want: "no place for Services of this namespace yet", code: http.StatusServiceUnavailable, retries: true, isWanted: true},
		"a predecessor that stays": {before: func(w *world) {
			w.add(translate.Rules{}.Service(&corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "web", UID: "before"}}, home))
		}, want: "that there was before is still on the host cluster", code: http.StatusServiceUnavailable, retries: true},
		"a predecessor that is looked at when the wait ends": {before: func(w *world) {
			w.add(translate.Rules{}.Service(&corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "web", UID: "before"}}, home))
			w.onHost.PrependReactor("get", "services", func(clienttesting.Action) (bool, runtime.Object, error) {
				time.Sleep(w.patience + 1)
				return true, nil, context.DeadlineExceeded
			})
		}, want: "that there was before is still on the host cluster", code: http.StatusServiceUnavailable, retries: true},
		"somebody else's": {before: func(w *world) {
			w.add(&corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: home.Host()}})
		}, want: "the host cluster has another Service in its place", code: http.StatusForbidden},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				if tc.before != nil {
					tc.before(w)
				}
				err := w.create(service(tc.change), nil)
				var status apierrors.APIStatus
				if !errors.As(err, &status) {
					t.Fatalf("got %v", err)
				}
				got := status.Status()
				if got.Code != tc.code || !strings.Contains(got.Message, tc.want) {
					t.Errorf("got %d %q, want %d %q", got.Code, got.Message, tc.code, tc.want)
				}
				if seconds, _ := apierrors.SuggestsClientDelay(err); (seconds > 0) != tc.retries {
					t.Errorf("to be tried again after %d s", seconds)
				}
				if strings.Contains(got.Message, home.Host()) || strings.Contains(got.Message, "10.9.9.9") {
					t.Errorf("it tells of the host: %q", got.Message)
				}
				if did := w.did(); (len(did) == 0) != tc.noHost {
					t.Errorf("on the host: %v", did)
				}
				if wanted := len(w.wanted) == 1 && w.wanted[0] == "acme|shop"; wanted != tc.isWanted {
					t.Errorf("wanted %v", w.wanted)
				}
			})
		})
	}
}

func withExternalIP(s *core.Service) {
	s.Spec.ExternalIPs, s.Spec.ExternalTrafficPolicy = []string{"8.8.8.8"}, core.ServiceExternalTrafficPolicyCluster
}

func (w *world) add(s *corev1.Service) {
	w.t.Helper()
	if err := w.onHost.Tracker().Add(s); err != nil {
		w.t.Fatal(err)
	}
}

// TestNamespaceComes checks that a Service waits for its namespace.
func TestNamespaceComes(t *testing.T) {
	w, first := newWorld(t), true
	w.patience = time.Minute
	w.onHost.PrependReactor("create", "services", func(clienttesting.Action) (bool, runtime.Object, error) {
		defer func() { first = false }()
		return first, nil, apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, home.Host())
	})
	if err := w.create(service(nil), nil); err != nil {
		t.Fatal(err)
	}
	if !cmp.Equal(w.wanted, []string{"acme|shop"}) {
		t.Errorf("wanted %v", w.wanted)
	}
}

// TestPredecessorStays checks that the host is asked once to create what it has already, and seldom whether it has.
func TestPredecessorStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.patience = defaultPatience
		w.add(translate.Rules{}.Service(&corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "web", UID: "before"}}, home))
		if err := w.create(service(nil), nil); !apierrors.IsServiceUnavailable(err) {
			t.Fatal(err)
		}
		asked := w.did()
		if creations := len(asked) - len(slices.DeleteFunc(slices.Clone(asked), func(verb string) bool { return verb == "create" })); creations != 1 || len(asked) > 12 {
			t.Errorf("%d creations among %v", creations, asked)
		}
	})
}

// TestPredecessorGoes checks that a Service waits for the end of the one that there was before.
func TestPredecessorGoes(t *testing.T) {
	w := newWorld(t)
	w.patience = time.Minute
	before := translate.Rules{}.Service(&corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "web", UID: "before"}}, home)
	w.add(before)
	w.onHost.PrependReactor("get", "services", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, before, w.onHost.Tracker().Delete(corev1.SchemeGroupVersion.WithResource("services"), home.Host(), "web")
	})
	if err := w.create(service(nil), nil); err != nil {
		t.Fatal(err)
	}
	w.expect("create", "get", "get", "create")
}

// TestLostAnswer checks that a Service that the host has made already is taken.
func TestLostAnswer(t *testing.T) {
	w := newWorld(t)
	there := translate.Rules{}.Service(&corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "web", UID: "s"}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{}}}}, home)
	there.UID, there.Spec.ClusterIP, there.Spec.ClusterIPs = "hs", "10.1.2.9", []string{"10.1.2.9"}
	there.Spec.IPFamilies, there.Spec.IPFamilyPolicy = []corev1.IPFamily{corev1.IPv4Protocol}, new(corev1.IPFamilyPolicySingleStack)
	w.add(there)
	s := service(nil)
	if err := w.create(s, nil); err != nil || s.Spec.ClusterIP != "10.1.2.9" || s.Annotations[names.HostUIDAnnotation] != "hs" {
		t.Errorf("got %+v, %v", s, err)
	}
}

func TestDryRun(t *testing.T) {
	w := newWorld(t)
	s := service(nil)
	m := &transaction{}
	finish, err := w.store.BeginCreate(withTransaction(in(t, "acme"), m), s, &metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	if err == nil {
		err = m.askHost(in(t, "acme"))
	}
	if err != nil {
		t.Fatal(err)
	}
	finish(t.Context(), true)
	w.expect()
	if s.Spec.ClusterIP != "192.0.2.1" || s.Annotations[names.HostUIDAnnotation] != "" {
		t.Errorf("got %+v", s)
	}
}

func TestSystem(t *testing.T) {
	w := newWorld(t)
	ctx := in(t, tenant.System)
	if _, err := w.store.BeginCreate(ctx, service(nil), &metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.store.BeginUpdate(ctx, service(nil), service(nil), &metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	w.store.AfterDelete(service(nil), &metav1.DeleteOptions{})
	if want := []string{"create", "update", "delete"}; !cmp.Equal(w.upstream, want) {
		t.Errorf("upstream did %v, want %v", w.upstream, want)
	}
	w.expect()
	if _, err := w.store.BeginCreate(in(t, "acme"), service(nil), &metav1.CreateOptions{}); !apierrors.IsInternalError(err) {
		t.Errorf("what does not take it back makes a Service: %v", err)
	}
	if _, err := w.store.BeginCreate(t.Context(), service(nil), &metav1.CreateOptions{}); err == nil {
		t.Error("a request without a tenant makes a Service")
	}
}

func TestUpdate(t *testing.T) {
	dual := core.IPFamilyPolicyPreferDualStack
	for name, tc := range map[string]struct {
		change   func(*core.Service)
		dryRun   bool
		want     []string
		nodePort int32
		ip       string
	}{
		"another selector":  {change: func(s *core.Service) { s.Spec.Selector = map[string]string{"app": "other"} }},
		"another port":      {change: func(s *core.Service) { s.Spec.Ports[0].Port = 81 }},
		"no place":          {change: func(s *core.Service) { s.Annotations = nil }},
		"a forged place":    {change: func(s *core.Service) { s.Annotations[names.HostUIDAnnotation] = "forged" }},
		"no address":        {change: func(s *core.Service) { s.Spec.ClusterIP, s.Spec.ClusterIPs = "", nil }},
		"node ports":        {change: asNodePort, want: []string{"get", "update"}, nodePort: 30007},
		"a dry run of that": {change: asNodePort, dryRun: true, nodePort: 32769},
		"more families":     {change: func(s *core.Service) { s.Spec.IPFamilyPolicy = &dual }, want: []string{"get", "update"}},
		"a name outside":    {change: func(s *core.Service) { s.Spec.Type, s.Spec.ExternalName = core.ServiceTypeExternalName, "example.com" }, want: []string{"get", "update"}, ip: "none"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			before := service(nil)
			if err := w.create(before, nil); err != nil {
				t.Fatal(err)
			}
			w.onHost.ClearActions()
			changed := before.DeepCopy()
			tc.change(changed)
			options := &metav1.UpdateOptions{}
			if tc.dryRun {
				options.DryRun = []string{metav1.DryRunAll}
			}
			if err := w.update(changed, before, nil, nil, options); err != nil {
				t.Fatal(err)
			}
			w.expect(tc.want...)
			want := "10.1.2.3"
			if tc.ip == "none" {
				want = ""
			}
			if changed.Spec.ClusterIP != want || changed.Spec.Ports[0].NodePort != tc.nodePort || changed.Annotations[names.HostUIDAnnotation] != "host-of-s" {
				t.Errorf("got %+v", changed)
			}
			host, err := w.onHost.CoreV1().Services(home.Host()).Get(t.Context(), "web", metav1.GetOptions{})
			if err != nil || (host.Annotations[names.ChangeAnnotation] != "") != (len(tc.want) > 0) {
				t.Errorf("the host's is %+v, %v", host, err)
			}
		})
	}
}

func asNodePort(s *core.Service) {
	s.Spec.Type, s.Spec.ExternalTrafficPolicy = core.ServiceTypeNodePort, core.ServiceExternalTrafficPolicyCluster
}

// TestUpdateElsewhere checks that a change asks the host for nothing but this Service's own.
func TestUpdateElsewhere(t *testing.T) {
	w := newWorld(t)
	before := service(func(s *core.Service) {
		s.Spec.ClusterIP, s.Spec.ClusterIPs, s.Spec.IPFamilies = "10.1.2.3", []string{"10.1.2.3"}, []core.IPFamily{core.IPv4Protocol}
		s.Spec.IPFamilyPolicy, s.Annotations = new(core.IPFamilyPolicySingleStack), map[string]string{names.HostUIDAnnotation: "hs"}
	})
	w.add(translate.Rules{}.Service(&corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "web", UID: "other"}}, home))
	changed := before.DeepCopy()
	asNodePort(changed)
	err := w.update(changed, before, nil, nil, &metav1.UpdateOptions{})
	if !apierrors.IsServiceUnavailable(err) {
		t.Errorf("got %v", err)
	}
	w.expect("get")
}

// TestStatus checks that a status neither moves a Service nor ends it past the hooks.
func TestStatus(t *testing.T) {
	before := service(func(s *core.Service) { s.Annotations = map[string]string{names.HostUIDAnnotation: "hs"} })
	forged := before.DeepCopy()
	forged.Annotations = map[string]string{names.HostUIDAnnotation: "forged", "a": "b"}
	got, err := keepInStatus(t.Context(), forged, before)
	if err != nil || !cmp.Equal(got.(*core.Service).Annotations, map[string]string{names.HostUIDAnnotation: "hs", "a": "b"}) {
		t.Errorf("got %+v, %v", got, err)
	}
	ending := before.DeepCopy()
	ending.DeletionTimestamp, ending.Finalizers = new(metav1.Now()), []string{"example.com/wait"}
	ended := ending.DeepCopy()
	ended.Finalizers = nil
	if _, err := keepInStatus(t.Context(), ended, ending); !apierrors.IsForbidden(err) {
		t.Errorf("got %v", err)
	}
	elsewhere := ending.DeepCopy()
	elsewhere.Annotations = nil
	if _, err := keepInStatus(t.Context(), ended, elsewhere); err != nil {
		t.Errorf("got %v", err)
	}
}
