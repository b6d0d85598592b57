package sync

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"

	"github.com/tenantry/tenantry/api/v1alpha1"
	"github.com/tenantry/tenantry/internal/workloads/names"
)

func TestHostNamespaces(t *testing.T) {
	gone := func(w *world) {
		if err := w.informers.Core().V1().Namespaces().Informer().GetIndexer().Delete(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "acme|shop"}}); err != nil {
			w.t.Fatal(err)
		}
		if err := w.space.Tracker().Delete(corev1.SchemeGroupVersion.WithResource("namespaces"), "", "acme|shop"); err != nil {
			w.t.Fatal(err)
		}
	}
	for name, tc := range map[string]struct {
		objects []runtime.Object
		before  func(*world)
		inSpace []string
		onHost  []string
		fail    string
		// label is that of load balancers afterwards.
		label string
	}{
		"one with a pod":                {objects: []runtime.Object{hostSpace(), spacePod(nil)}},
		"one with a pod that ends":      {objects: []runtime.Object{hostSpace(), hostPod(spacePod(nil), nil)}, before: func(w *world) { w.clock.Step(2 * time.Hour) }},
		"one that has just become idle": {objects: []runtime.Object{hostSpace()}},
		"one that has been idle": {objects: []runtime.Object{hostSpace()}, before: func(w *world) {
			w.idle.left(home.Host())
			w.clock.Step(idleNamespace)
		}, onHost: []string{"delete namespaces h"}},
		"one whose own is gone": {objects: []runtime.Object{hostSpace()}, before: gone, onHost: []string{"delete namespaces h"}},
		"one whose own is gone, with many": {objects: []runtime.Object{hostSpace()}, before: func(w *world) {
			gone(w)
			w.orphans.limit = 0
		}, fail: "of what no space has"},
		"one whose own somebody has deleted": {objects: []runtime.Object{hostSpace()}, before: func(w *world) {
			gone(w)
			w.orphans.limit = 0
			w.deleted.note("n", false)
		}, onHost: []string{"delete namespaces h"}},
		"one of an earlier tenant": {objects: []runtime.Object{hostSpace()}, before: func(w *world) {
			w.cache(w.tenants, &v1alpha1.Tenant{ObjectMeta: metav1.ObjectMeta{Name: "acme", UID: "next"}})
		}, inSpace: []string{"patch configmaps", "create configmaps"}, onHost: []string{"delete namespaces h"}},
		"one of which the cache is behind": {objects: []runtime.Object{hostSpace()}, before: func(w *world) {
			gone(w)
			w.add(w.space, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "acme|shop", UID: "n"}})
		}, fail: "behind"},
		"one of whose Tenant the cache is behind": {objects: []runtime.Object{hostSpace()}, before: func(w *world) {
			w.liveTenants = oneTenant{&v1alpha1.Tenant{ObjectMeta: metav1.ObjectMeta{Name: "acme", UID: "t"}}}
			w.lives("", false)
		}, fail: "the Tenant is there"},
		"one whose Tenant has gone without it": {objects: []runtime.Object{hostSpace()}, before: func(w *world) {
			w.lives("", false)
		}, inSpace: []string{"patch configmaps", "create configmaps"}, onHost: []string{"delete namespaces h"}},
		"one with another level": {objects: []runtime.Object{hostSpace(), spacePod(nil)}, before: func(w *world) {
			w.cache(w.tenants, &v1alpha1.Tenant{ObjectMeta: metav1.ObjectMeta{Name: "acme", UID: "t"},
				Spec: v1alpha1.TenantSpec{Workloads: &v1alpha1.Workloads{PodSecurity: "restricted"}}})
		}, onHost: []string{"patch namespaces"}},
		"one of a Tenant that may have load balancers": {objects: []runtime.Object{hostSpace(), spacePod(nil)}, before: func(w *world) {
			w.may(v1alpha1.Workloads{LoadBalancers: v1alpha1.LoadBalancersAllowed})
		}, onHost: []string{"patch namespaces"}, label: "true"},
		"one with a load balancer of a Tenant that may have no more": {objects: []runtime.Object{func() *corev1.Namespace {
			n := hostSpace()
			n.Labels[names.LoadBalancersLabel] = "true"
			return n
		}(), balanced(nil), hostService(balanced(nil), nil)}, label: "true"},
		"one with a load balancer that was never to be": {objects: []runtime.Object{hostSpace(), balanced(nil), spacePod(nil)}},
		"one of a Tenant that may have no load balancers any more": {objects: []runtime.Object{func() *corev1.Namespace {
			n := hostSpace()
			n.Labels[names.LoadBalancersLabel] = "true"
			return n
		}(), spacePod(nil)}, onHost: []string{"patch namespaces"}},
		"one with others' marks": {objects: []runtime.Object{func() *corev1.Namespace {
			n := hostSpace()
			n.Annotations[names.TenantUIDAnnotation] = "other"
			return n
		}()}, fail: "not the marks of its name"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, tc.objects...)
			if tc.before != nil {
				tc.before(w)
			}
			err := w.syncHostNamespace(t.Context(), item{kind: hostNamespaceItem, tenant: "acme", name: home.Host()})
			if (err != nil) != (tc.fail != "") || err != nil && !strings.Contains(err.Error(), tc.fail) {
				t.Errorf("got error %v, want %q", err, tc.fail)
			}
			w.expect(tc.inSpace, tc.onHost)
			if got, err := w.onHost.CoreV1().Namespaces().Get(t.Context(), home.Host(), metav1.GetOptions{}); err == nil && got.Labels[names.LoadBalancersLabel] != tc.label {
				t.Errorf("it has the labels %v", got.Labels)
			}
		})
	}
}

// TestForeignNamespace checks that a namespace of the host is not taken that has not the marks, or is another owner's,
// and that the space's gets another name there.
func TestForeignNamespace(t *testing.T) {
	for name, change := range map[string]func(*corev1.Namespace){
		"without marks": func(n *corev1.Namespace) { n.Labels, n.Annotations = nil, nil },
		"of another life": func(n *corev1.Namespace) {
			n.Annotations[names.NamespaceUIDAnnotation] = "before"
		},
		"of another owner": func(n *corev1.Namespace) {
			n.Labels[names.ControlPlaneNamespaceLabel], n.Labels[names.ControlPlaneLabel] = "team-b", "two"
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, spacePod(nil))
			foreign := hostSpace()
			change(foreign)
			w.add(w.onHost, foreign)
			if err := w.look(); err == nil || !strings.Contains(err.Error(), "somebody else has the name") {
				t.Errorf("got %v", err)
			}
			w.expect([]string{"patch namespaces", "update pods/status", "create events"}, []string{"create namespaces"})
			now, err := w.space.CoreV1().Namespaces().Get(t.Context(), "acme|shop", metav1.GetOptions{})
			if err != nil || now.Annotations[names.SaltAnnotation] == "" {
				t.Fatalf("the namespace has %v, %v", now.Annotations, err)
			}
			w.see(now)
			if err := w.look(); err != nil {
				t.Fatal(err)
			}
			another := home
			another.Salt = now.Annotations[names.SaltAnnotation]
			pod, err := w.onHost.CoreV1().Pods(another.Host()).Get(t.Context(), "web-0", metav1.GetOptions{})
			if err != nil || another.Host() == home.Host() {
				t.Fatalf("there is no pod in %s: %v", another.Host(), err)
			}
			if of, _, ok := sourceOf(pod); !ok || of != another {
				t.Errorf("it has the marks of %v", of)
			}
		})
	}
}

// TestForeignNamespaceOfPods checks that a namespace keeps its name on the host for as long as there is something of it
// there, as far as the space knows: somebody may have taken the labels away.
func TestForeignNamespaceOfPods(t *testing.T) {
	for name, begun := range map[string]runtime.Object{
		"a pod": spacePod(both(bound, func(p *corev1.Pod) { p.Name, p.UID = "web-1", "q" })), "a claim": spaceClaim(boundInSpace),
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, spacePod(nil), begun)
			w.add(w.onHost, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: home.Host()}})
			if err := w.look(); err == nil || !strings.Contains(err.Error(), "give it back its labels") {
				t.Errorf("got %v", err)
			}
			w.expect([]string{"update pods/status", "create events"}, []string{"create namespaces"})
		})
	}
}

// TestNamespaceRefusedByHost checks that the space is told, in its own names.
func TestNamespaceRefusedByHost(t *testing.T) {
	w := newWorld(t, spacePod(nil))
	w.onHost.PrependReactor("create", "namespaces", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewForbidden(corev1.Resource("namespaces"), home.Host(), context.DeadlineExceeded)
	})
	if err := w.look(); err == nil {
		t.Error("it is not tried again")
	}
	now, err := w.space.CoreV1().Pods("acme|shop").Get(t.Context(), "web-0", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if told := fmt.Sprint(now.Status.Conditions); !strings.Contains(told, "the host cluster does not take its namespace") || strings.Contains(told, home.Host()) {
		t.Errorf("the space is told %s", told)
	}
}

// TestManyNamespaces checks that a tenant does not fill the host with namespaces, and that its pods say why they wait.
func TestManyNamespaces(t *testing.T) {
	var objects []runtime.Object
	for i := range 3 {
		other := home
		other.Name, other.UID = fmt.Sprint("other-", i), types.UID(fmt.Sprint(i))
		objects = append(objects, hostNamespace(other, ""))
	}
	w := newWorld(t, append(objects, spacePod(nil))...)
	if err := w.look(); !errors.As(err, new(errNamespace)) {
		t.Errorf("got %v", err)
	}
	w.expect([]string{"update pods/status", "create events"}, nil)
	w.maxNamespaces++
	if err := w.look(); err != nil {
		t.Error(err)
	}
}

// TestSlimTenant checks that the cache keeps all that rules for pods are made of.
func TestSlimTenant(t *testing.T) {
	whole := &v1alpha1.Tenant{ObjectMeta: metav1.ObjectMeta{Name: "acme"}, Spec: v1alpha1.TenantSpec{
		Quota:     corev1.ResourceList{"requests.example.com/gpu": resource.MustParse("4")},
		Workloads: &v1alpha1.Workloads{PodSecurity: "restricted", NodePorts: v1alpha1.NodePortsAllowed},
	}}
	slim, err := slimTenant(whole)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(rulesOf(whole), rulesOf(slim.(*v1alpha1.Tenant))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	w := newWorld(t, spacePod(nil))
	other := whole.DeepCopy()
	other.Spec.Quota["requests.example.com/gpu"] = resource.MustParse("5")
	w.tenantUpdated(whole, other)
	if len(w.taken()) == 0 {
		t.Error("pods are not looked at when the devices of their tenant are others")
	}
}

// TestOwnNamespace checks that a namespace of the host says whose it is and where the API is, and that its rights are
// its owner's.
func TestOwnNamespace(t *testing.T) {
	w := newWorld(t)
	w.owner = names.Owner{Namespace: "team-a", ControlPlane: "one"}
	w.subjects = []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: "team-a", Name: w.owner.Syncer()}}
	w.options.API = netip.MustParseAddrPort("10.43.0.7:443")
	tenant := &v1alpha1.Tenant{ObjectMeta: metav1.ObjectMeta{Name: "acme", UID: "t"}}
	if _, err := w.ensureNamespace(t.Context(), home, tenant); err != nil {
		t.Fatal(err)
	}
	made, err := w.onHost.CoreV1().Namespaces().Get(t.Context(), home.Host(), metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for label, want := range map[string]string{names.ControlPlaneNamespaceLabel: "team-a", names.ControlPlaneLabel: "one", names.InstallationLabel: "i"} {
		if made.Labels[label] != want {
			t.Errorf("%s is %q", label, made.Labels[label])
		}
	}
	if made.Annotations[names.APIAnnotation] != "10.43.0.7:443" {
		t.Errorf("the annotations are %v", made.Annotations)
	}
	policies, err := w.onHost.NetworkingV1().NetworkPolicies(home.Host()).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	admits := 0
	for _, policy := range policies.Items {
		for _, rule := range policy.Spec.Ingress {
			for _, peer := range rule.From {
				if peer.NamespaceSelector != nil && peer.NamespaceSelector.MatchLabels[names.ControlPlaneLabel] == "one" {
					admits++
				}
			}
		}
	}
	if admits != 1 {
		t.Errorf("the policies are %v", policies.Items)
	}
	for role, account := range map[string]string{namespaceRole: "one.syncer.tenantry.io", connectRole: "one.connect.tenantry.io"} {
		binding, err := w.onHost.RbacV1().RoleBindings(home.Host()).Get(t.Context(), role, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if len(binding.Subjects) != 1 || binding.Subjects[0].Namespace != "team-a" || binding.Subjects[0].Name != account {
			t.Errorf("%s is bound to %v", role, binding.Subjects)
		}
	}
	w.options.API = netip.MustParseAddrPort("10.43.0.8:443")
	if err := w.markNamespace(t.Context(), item{}, made, w.wantedNamespace(home, tenant)); err != nil {
		t.Fatal(err)
	}
	made, err = w.onHost.CoreV1().Namespaces().Get(t.Context(), home.Host(), metav1.GetOptions{})
	if err != nil || made.Annotations[names.APIAnnotation] != "10.43.0.8:443" || made.Annotations[names.TenantAnnotation] != "acme" {
		t.Errorf("the annotations are %v, %v", made.Annotations, err)
	}
}

// TestReady checks what the host's kubelet is told.
func TestReady(t *testing.T) {
	var none *syncer
	if none.ready() == nil {
		t.Error("a syncer is ready that has not looked whether it has its rights")
	}
	w := newWorld(t)
	w.isolated = &isolation{clock: w.clock, why: unenforced}
	if err := w.ready(); err != nil {
		t.Errorf("one that waits for another: %v", err)
	}
	w.leads.Store(true)
	if err := w.ready(); err == nil || err.Error() != unenforced {
		t.Errorf("one whose host enforces nothing: %v", err)
	}
	w.isolated.note(nil)
	if err := w.ready(); err != nil {
		t.Errorf("one whose host does: %v", err)
	}
}
