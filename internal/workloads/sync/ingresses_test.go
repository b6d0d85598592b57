package sync

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/util/cert"

	"github.com/tenantry/tenantry/api/v1alpha1"
	"github.com/tenantry/tenantry/internal/workloads/names"
	"github.com/tenantry/tenantry/internal/workloads/network"
	"github.com/tenantry/tenantry/internal/workloads/translate"
)

const rewrite = "nginx.ingress.kubernetes.io/rewrite-target"

var hasNames = v1alpha1.Workloads{HostNames: []string{"*.acme.example.com"}, IngressClasses: []string{"nginx"}, IngressAnnotations: []string{rewrite}}

func spaceIngress(change func(*networkingv1.Ingress)) *networkingv1.Ingress {
	ingress := &networkingv1.Ingress{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "acme|shop", UID: "iu", Annotations: map[string]string{rewrite: "/"}},
		Spec: networkingv1.IngressSpec{IngressClassName: new("nginx"), Rules: []networkingv1.IngressRule{{Host: "shop.acme.example.com", IngressRuleValue: networkingv1.IngressRuleValue{
			HTTP: &networkingv1.HTTPIngressRuleValue{Paths: []networkingv1.HTTPIngressPath{{Path: "/", Backend: networkingv1.IngressBackend{Service: &networkingv1.IngressServiceBackend{Name: "web"}}}}},
		}}}},
	}
	if change != nil {
		change(ingress)
	}
	return ingress
}

// refusing has a host refuse Ingresses, and compares what the space is told.
func refusing(tells string, err error) func(*world) {
	return func(w *world) {
		w.onHost.PrependReactor("create", "ingresses", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, err })
		w.space.PrependReactor("create", "events", func(action clienttesting.Action) (bool, runtime.Object, error) {
			if told := action.(clienttesting.CreateAction).GetObject().(*corev1.Event).Message; !strings.Contains(told, tells) || strings.Contains(told, "globex") {
				w.t.Errorf("the tenant is told: %s", told)
			}
			return false, nil, nil
		})
	}
}

// onHostIngress is the host's of one of a space.
func onHostIngress(w *world, of *networkingv1.Ingress, change func(*networkingv1.Ingress)) *networkingv1.Ingress {
	host := rulesOf(tenantWith(hasNames)).Ingress(of, home)
	host.UID = "hi"
	if change != nil {
		change(host)
	}
	w.add(w.onHost, host)
	w.see(host)
	return host
}

func tenantWith(own v1alpha1.Workloads) *v1alpha1.Tenant {
	return &v1alpha1.Tenant{ObjectMeta: metav1.ObjectMeta{Name: "acme", UID: "t"}, Spec: v1alpha1.TenantSpec{Workloads: &own}}
}

// may has the Tenant say what it may.
func (w *world) may(own v1alpha1.Workloads) { w.cache(w.tenants, tenantWith(own)) }

var theIngress = item{ingressItem, "acme", "acme|shop", "web"}

func served(i *networkingv1.Ingress) {
	i.Status.LoadBalancer.Ingress = []networkingv1.IngressLoadBalancerIngress{{IP: "203.0.113.7"}}
}

func servedAtMany(i *networkingv1.Ingress) {
	for n := range maxAddresses + 1 {
		i.Status.LoadBalancer.Ingress = append(i.Status.LoadBalancer.Ingress, networkingv1.IngressLoadBalancerIngress{IP: fmt.Sprintf("192.0.2.%d", n)})
	}
}

func TestIngresses(t *testing.T) {
	withHost := func(change func(*networkingv1.Ingress)) func(*world) {
		return func(w *world) { onHostIngress(w, spaceIngress(nil), change) }
	}
	moved := spaceIngress(func(i *networkingv1.Ingress) { i.Spec.Rules[0].Host = "cart.acme.example.com" })
	foreign := func(i *networkingv1.Ingress) { i.Annotations = map[string]string{names.UIDAnnotation: "iu"} }
	nothing := v1alpha1.Workloads{}
	for name, tc := range map[string]struct {
		may             *v1alpha1.Workloads
		ingress         *networkingv1.Ingress
		before          func(*world)
		inSpace, onHost []string
		fail            string
		// host is the host of the host's, empty if there is none.
		host string
	}{
		"a new one":                   {ingress: spaceIngress(nil), onHost: []string{"create ingresses"}, host: "shop.acme.example.com"},
		"one of a Tenant without":     {may: &nothing, ingress: spaceIngress(nil)},
		"one that is there":           {ingress: spaceIngress(nil), before: withHost(nil), host: "shop.acme.example.com"},
		"one that has changed":        {ingress: moved, before: withHost(nil), onHost: []string{"update ingresses"}, host: "cart.acme.example.com"},
		"one that somebody changed":   {ingress: spaceIngress(nil), before: withHost(func(i *networkingv1.Ingress) { i.Spec.Rules[0].Host = "" }), onHost: []string{"update ingresses"}, host: "shop.acme.example.com"},
		"an annotation was changed":   {ingress: spaceIngress(nil), before: withHost(func(i *networkingv1.Ingress) { i.Annotations[rewrite] = "/x" }), onHost: []string{"update ingresses"}, host: "shop.acme.example.com"},
		"one that is served":          {ingress: spaceIngress(nil), before: withHost(served), inSpace: []string{"patch ingresses/status"}, host: "shop.acme.example.com"},
		"one that is served at many":  {ingress: spaceIngress(nil), before: withHost(servedAtMany), inSpace: []string{"patch ingresses/status"}, host: "shop.acme.example.com"},
		"one that is known as served": {ingress: spaceIngress(served), before: withHost(served), host: "shop.acme.example.com"},
		"one that was made again":     {ingress: spaceIngress(func(i *networkingv1.Ingress) { i.UID = "next" }), before: withHost(nil), onHost: []string{"update ingresses"}, host: "shop.acme.example.com"},
		"one whose predecessor is served": {
			ingress: spaceIngress(func(i *networkingv1.Ingress) { i.UID = "next" }), before: withHost(served), onHost: []string{"update ingresses"}, host: "shop.acme.example.com",
		},
		"one that is ending":         {ingress: spaceIngress(func(i *networkingv1.Ingress) { i.DeletionTimestamp = new(metav1.Now()) })},
		"one that must not be there": {ingress: spaceIngress(func(i *networkingv1.Ingress) { i.Spec.Rules[0].Host = "shop.globex.example.com" }), inSpace: []string{"create events"}},
		"one that becomes another's": {
			ingress: spaceIngress(func(i *networkingv1.Ingress) { i.Spec.Rules[0].Host = "shop.globex.example.com" }),
			before:  withHost(nil), inSpace: []string{"create events"}, onHost: []string{"delete ingresses hi"},
		},
		"one whose Tenant has lost its names": {
			may: &nothing, ingress: spaceIngress(served), before: withHost(served), inSpace: []string{"create events", "patch ingresses/status"}, onHost: []string{"delete ingresses hi"},
		},
		"one of which nobody can be told": {
			may: &nothing, ingress: spaceIngress(nil), before: func(w *world) {
				withHost(nil)(w)
				w.space.PrependReactor("create", "events", func(clienttesting.Action) (bool, runtime.Object, error) {
					return true, nil, apierrors.NewServiceUnavailable("busy")
				})
			}, inSpace: []string{"create events"}, onHost: []string{"delete ingresses hi"}, fail: "busy",
		},
		"one that is gone": {
			before: func(w *world) { withHost(nil)(w); w.deleted.note("iu", false); w.orphans.limit = 0 }, onHost: []string{"delete ingresses hi"},
		},
		"one that nobody has seen go":      {before: withHost(nil), onHost: []string{"delete ingresses hi"}},
		"too many that nobody has":         {before: func(w *world) { withHost(nil)(w); w.orphans.limit = 0 }, fail: "of what no space has", host: "shop.acme.example.com"},
		"one of which the cache is behind": {before: func(w *world) { withHost(nil)(w); w.add(w.space, spaceIngress(nil)) }, fail: "behind", host: "shop.acme.example.com"},
		"somebody else's":                  {ingress: spaceIngress(nil), before: withHost(foreign), fail: "not of this installation", host: "shop.acme.example.com"},
		"somebody else's without one":      {before: withHost(foreign), host: "shop.acme.example.com"},
		"one that the host refuses": {
			ingress: spaceIngress(nil), before: refusing("spec.x", apierrors.NewInvalid(networkingv1.SchemeGroupVersion.WithKind("Ingress").GroupKind(), "web", field.ErrorList{field.Required(field.NewPath("spec", "x"), "")})),
			inSpace: []string{"create events"}, onHost: []string{"create ingresses"}, fail: "spec.x",
		},
		"one that a webhook of the host refuses": {
			ingress: spaceIngress(nil), before: refusing("a policy or webhook", apierrors.NewBadRequest("it is defined in ingress tn-globex-shop/web")),
			inSpace: []string{"create events"}, onHost: []string{"create ingresses"}, fail: "tn-globex-shop",
		},
		"one that a policy of the host refuses": {
			ingress: spaceIngress(nil), before: refusing("a policy or webhook", &apierrors.StatusError{ErrStatus: metav1.Status{
				Reason: metav1.StatusReasonInvalid, Message: "tn-globex-shop has it", Details: &metav1.StatusDetails{Causes: []metav1.StatusCause{{Message: "tn-globex-shop has it"}}}}}),
			inSpace: []string{"create events"}, onHost: []string{"create ingresses"}, fail: "tn-globex-shop",
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, hostSpace())
			w.may(hasNames)
			if tc.may != nil {
				w.may(*tc.may)
			}
			if tc.ingress != nil {
				w.add(w.space, tc.ingress)
				w.see(tc.ingress)
			}
			if tc.before != nil {
				tc.before(w)
			}
			err := w.syncIngress(t.Context(), theIngress)
			if (err != nil) != (tc.fail != "") || err != nil && !strings.Contains(err.Error(), tc.fail) {
				t.Errorf("got error %v, want %q", err, tc.fail)
			}
			w.expect(tc.inSpace, tc.onHost)
			host := ""
			if got, err := w.onHost.NetworkingV1().Ingresses(home.Host()).Get(t.Context(), "web", metav1.GetOptions{}); err == nil {
				host = got.Spec.Rules[0].Host
			}
			if host != tc.host {
				t.Errorf("on the host is %q, want %q", host, tc.host)
			}
			if tc.ingress == nil || tc.inSpace == nil || tc.inSpace[len(tc.inSpace)-1] != "patch ingresses/status" {
				return
			}
			got, err := w.space.NetworkingV1().Ingresses("acme|shop").Get(t.Context(), "web", metav1.GetOptions{})
			if err != nil || len(got.Status.LoadBalancer.Ingress) > 0 != (tc.may == nil) || len(got.Status.LoadBalancer.Ingress) > maxAddresses {
				t.Errorf("it is shown as %+v, %v", got.Status, err)
			}
		})
	}
}

// TestIngressKeepsWhatIsTheHosts checks that a change leaves what components of the host need, and takes away what the
// space has not any more.
func TestIngressKeepsWhatIsTheHosts(t *testing.T) {
	w := newWorld(t, hostSpace(), spaceIngress(func(i *networkingv1.Ingress) { i.Annotations = nil }))
	w.may(hasNames)
	onHostIngress(w, spaceIngress(nil), func(i *networkingv1.Ingress) {
		i.Finalizers, i.Annotations["example.com/balancer"] = []string{"example.com/balancer"}, "b"
	})
	if err := w.syncIngress(t.Context(), theIngress); err != nil {
		t.Fatal(err)
	}
	w.expect(nil, []string{"update ingresses"})
	got, err := w.onHost.NetworkingV1().Ingresses(home.Host()).Get(t.Context(), "web", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	want := home.MarksOf("web", "iu")
	want["example.com/balancer"] = "b"
	if diff := cmp.Diff(want, got.Annotations); diff != "" || len(got.Finalizers) != 1 || got.UID != "hi" {
		t.Errorf("it is %+v (-want +got):\n%s", got, diff)
	}
}

// TestIngressCertificates checks that the host has the certificates of the Ingresses on it, and of no other, before
// these.
func TestIngressCertificates(t *testing.T) {
	secured := spaceIngress(func(i *networkingv1.Ingress) {
		i.Spec.TLS = []networkingv1.IngressTLS{{Hosts: []string{"shop.acme.example.com"}, SecretName: "cert"}}
	})
	w := newWorld(t, hostSpace(), secured, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "cert", Namespace: "acme|shop", UID: "cu", ResourceVersion: "1"}, Type: corev1.SecretTypeTLS, Data: pair(t, "shop.acme.example.com", "cart.acme.example.com"),
	})
	w.may(hasNames)
	if err := w.syncIngress(t.Context(), theIngress); err != nil {
		t.Fatal(err)
	}
	w.expect(nil, []string{"create secrets", "create ingresses"})
	ref, in := reference{certificateItem, "acme|shop", "cert"}, w.copiesOf(home)
	in.have[ref] = copied{in.have[ref].version, in.have[ref].hash, "copy", nil} // the fake gives no UIDs
	got, err := w.onHost.CoreV1().Secrets(home.Host()).Get(t.Context(), "tnc-cert", metav1.GetOptions{})
	if err != nil || got.Type != corev1.SecretTypeTLS || len(got.Data) != 2 {
		t.Errorf("got %+v, %v", got, err)
	}
	host, err := w.onHost.NetworkingV1().Ingresses(home.Host()).Get(t.Context(), "web", metav1.GetOptions{})
	if err != nil || host.Spec.TLS[0].SecretName != "tnc-cert" {
		t.Errorf("got %+v, %v", host, err)
	}
	w.see(host)

	w.may(v1alpha1.Workloads{HostNames: []string{"shop.acme.example.com"}, IngressClasses: []string{"nginx"}, IngressAnnotations: []string{rewrite}})
	if err := w.syncIngress(t.Context(), theIngress); err != nil {
		t.Fatal(err)
	}
	w.expect([]string{"create events"}, nil)
	if in.have[ref].uid != "" {
		t.Error("a certificate for a name that the Tenant has not any more is on the host")
	}
	w.may(v1alpha1.Workloads{})
	if err := w.syncIngress(t.Context(), theIngress); err != nil {
		t.Fatal(err)
	}
	if w.references.has(ref) {
		t.Error("the Secret of an Ingress that is not to be on the host is named")
	}
}

// TestUnfitCertificate checks that each Ingress is told once why the host does not get a version of its certificate,
// which is read once.
func TestUnfitCertificate(t *testing.T) {
	of := func(name string) *networkingv1.Ingress {
		return spaceIngress(func(i *networkingv1.Ingress) {
			i.Name, i.UID, i.Spec.TLS = name, types.UID(name), []networkingv1.IngressTLS{{Hosts: []string{"shop.acme.example.com"}, SecretName: "cert"}}
		})
	}
	cert := func(version string) *corev1.Secret {
		return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "cert", Namespace: "acme|shop", UID: "cu", ResourceVersion: version}, Type: corev1.SecretTypeTLS, Data: pair(t, "shop.globex.example.com")}
	}
	w := newWorld(t, hostSpace(), of("a"), of("b"), cert("1"))
	w.may(hasNames)
	for _, name := range []string{"a", "b", "a", "b"} {
		if err := w.syncIngress(t.Context(), item{ingressItem, "acme", "acme|shop", name}); err != nil {
			t.Fatal(err)
		}
	}
	reads := func() (n int) {
		for _, action := range w.space.Actions() {
			if action.Matches("get", "secrets") {
				n++
			}
		}
		return n
	}
	if n := reads(); n != 1 {
		t.Errorf("it is read %d times", n)
	}
	if told := did(w.space); len(told) != 2 {
		t.Errorf("did %v", told)
	}
	w.space.ClearActions()
	if err := w.space.Tracker().Update(corev1.SchemeGroupVersion.WithResource("secrets"), cert("2"), "acme|shop"); err != nil {
		t.Fatal(err)
	}
	w.see(cert("2"))
	if err := w.syncCopy(t.Context(), item{certificateItem, "acme", "acme|shop", "cert"}); err != nil || reads() != 1 || len(did(w.space)) > 0 {
		t.Errorf("another version is read %d times, %v", reads(), err)
	}
	in, ref := w.copiesOf(home), reference{certificateItem, "acme|shop", "cert"}
	w.ingressGone(of("a"), true)
	w.ingressGone(of("b"), true)
	if err := w.syncCopy(t.Context(), item{certificateItem, "acme", "acme|shop", "cert"}); err != nil || len(in.have) > 0 {
		t.Errorf("what nobody names is known: %v, %v", in.have[ref], err)
	}
}

// TestCertificateOfBefore checks that a copy that hosts do not get any more goes when the syncer reads it.
func TestCertificateOfBefore(t *testing.T) {
	secured := spaceIngress(func(i *networkingv1.Ingress) {
		i.Spec.TLS = []networkingv1.IngressTLS{{Hosts: []string{"shop.acme.example.com"}, SecretName: "cert"}}
	})
	data := pair(t, "shop.acme.example.com")
	data["tls.key"] = pair(t, "shop.acme.example.com")["tls.key"]
	source := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "cert", Namespace: "acme|shop", UID: "cu", ResourceVersion: "1"}, Type: corev1.SecretTypeTLS, Data: data}
	w := newWorld(t, hostSpace(), secured, source)
	w.may(hasNames)
	onHostIngress(w, secured, nil)
	w.nameCertificates()
	in, ref := w.copiesOf(home), reference{certificateItem, "acme|shop", "cert"}
	in.read = true
	in.have[ref] = copied{version: "cu/1/" + names.Hash([]any{hasNames.HostNames, 0}), hash: "h", uid: "copy"}
	if err := w.syncCopy(t.Context(), item{certificateItem, "acme", "acme|shop", "cert"}); err != nil {
		t.Fatal(err)
	}
	if has := in.have[ref]; has.uid != "" || has.unfit == nil {
		t.Errorf("the host has %+v", has)
	}
}

// TestManyIngresses checks that there are so many of a tenant on the host, and that changes of them wait.
func TestManyIngresses(t *testing.T) {
	w := newWorld(t, hostSpace(), spaceIngress(nil))
	w.may(hasNames)
	for n := range routesAtOnce {
		w.writeBudgets[routeBudget].wait(itemWrite{item{ingressItem, "acme", "acme|shop", fmt.Sprint(n)}, writeUpdate}, 1)
	}
	if err := w.syncIngress(t.Context(), theIngress); err != nil {
		t.Fatal(err)
	}
	w.expect(nil, nil)
	w.clock.Step(1e9)
	for n := range maxIngresses {
		onHostIngress(w, spaceIngress(func(i *networkingv1.Ingress) { i.Name = fmt.Sprint(n) }), nil)
	}
	if err := w.syncIngress(t.Context(), theIngress); err != nil {
		t.Fatal(err)
	}
	w.expect([]string{"create events"}, nil)
	last := onHostIngress(w, spaceIngress(func(i *networkingv1.Ingress) { i.Name = "last" }), nil)
	for _, want := range []int{2, 1} { // nobody else was refused since
		w.andRoom(w.hostIngressChanged)(last, true)
		if all := w.taken(); len(all) != want {
			t.Errorf("when one goes, %v are looked at", all)
		}
	}
}

// TestHandlersAreShort checks that handlers, which all tenants share, do as much when one object changes whatever else
// there is.
func TestHandlersAreShort(t *testing.T) {
	w := newWorld(t, hostSpace())
	w.may(hasNames)
	pod := spacePod(naming)
	for n := range 100 {
		name := fmt.Sprint(n)
		w.see(spaceIngress(func(i *networkingv1.Ingress) { i.Name = name }))
		w.see(spaceRoute(func(u *unstructured.Unstructured) { u.SetName(name) }))
		w.see(spaceBudget(3, func(b *policyv1.PodDisruptionBudget) { b.Name = name }))
		w.see(denyAll(func(p *networkingv1.NetworkPolicy) { p.Name = name }))
		p := pod.DeepCopy()
		p.Name = name
		w.see(p)
		w.see(spaceService(func(s *corev1.Service) { s.Name = name }))
	}
	gone := onHostIngress(w, spaceIngress(nil), nil)
	budget, policy := onHostBudget(spaceBudget(3, nil), nil), &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: home.Host(), Name: names.Copy("deny"),
		Labels: map[string]string{names.InstallationLabel: "i"}, Annotations: home.MarksOf("deny", "d")}}
	for name, happens := range map[string]func(){
		"an Ingress of the host":         func() { w.hostIngressChanged(gone) },
		"one that goes":                  func() { w.andRoom(w.hostIngressChanged)(gone, true) },
		"a budget of the host that goes": func() { w.andRoom(w.hostBudgetChanged)(budget, true) },
		"a policy of the host that goes": func() { w.andRoom(w.hostPolicyChanged)(policy, true) },
		"an HTTPRoute of the host":       func() { w.hostRouteChanged(onHostRoute(w, spaceRoute(), nil)) },
		"one of these that goes":         func() { w.andRoom(w.hostRouteChanged)(onHostRoute(w, spaceRoute(), nil), true) },
		"a namespace of the host":        func() { w.hostNamespaceChanged(hostSpace()) },
		"a claim of the host":            func() { w.hostClaimChanged(hostClaim(spaceClaim())) },
		"a class":                        func() { w.classChanged(atOnce) },
		"a Tenant":                       func() { w.tenantUpdated(tenantWith(v1alpha1.Workloads{}), tenantWith(hasNames)) },
	} {
		w.room.full.Insert(kindIn{policyItem, home.Host()}, kindIn{budgetItem, home.Host()}, kindIn{ingressItem, "acme"}, kindIn{routeItem, "acme"})
		happens()
		if n := w.queue.Len(); n == 0 || n > 2 {
			t.Errorf("%s: %d are looked at by the handler", name, n)
		}
		if n := len(w.taken()); n == 0 && name != "a class" {
			t.Errorf("%s: nothing is looked at", name)
		}
	}
}

// TestCheckedOnce checks that a version of an Ingress is read once by the same rules.
func TestCheckedOnce(t *testing.T) {
	c, rules := &checked{}, rulesOf(tenantWith(hasNames))
	of := func(uid types.UID, version, host string) *networkingv1.Ingress {
		return spaceIngress(func(i *networkingv1.Ingress) { i.UID, i.ResourceVersion, i.Spec.Rules[0].Host = uid, version, host })
	}
	const good, bad = "shop.acme.example.com", "shop.globex.example.com"
	other := rules
	other.HostNames = []string{bad}
	for _, step := range []struct {
		what    string
		ingress *networkingv1.Ingress
		rules   translate.Rules
		fits    bool
	}{
		{"a new one", of("u", "1", bad), rules, false},
		{"the same version, which is not read", of("u", "1", good), rules, false},
		{"another one", of("u", "2", good), rules, true},
		{"other rules", of("u", "2", good), other, false},
		{"another one of its name", of("v", "2", bad), other, true},
	} {
		check := func() error {
			return step.rules.CheckIngress(&step.ingress.ObjectMeta, &step.ingress.Spec, field.NewPath("spec")).ToAggregate()
		}
		if why := c.why(theIngress, step.ingress, step.rules, check); (why == "") != step.fits {
			t.Errorf("%s: %q", step.what, why)
		}
	}
	if c.Delete(theIngress); c.Len() > 0 {
		t.Error("one that is gone is known")
	}
}

// TestCertificatesWithoutRoom checks that the host gets no certificate for an Ingress that it does not get.
func TestCertificatesWithoutRoom(t *testing.T) {
	beyond := spaceIngress(func(i *networkingv1.Ingress) {
		i.Spec.TLS = []networkingv1.IngressTLS{{Hosts: []string{"shop.acme.example.com"}, SecretName: "cert"}}
	})
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "cert", Namespace: "acme|shop", UID: "cu", ResourceVersion: "1"}, Type: corev1.SecretTypeTLS, Data: pair(t, "shop.acme.example.com"),
	}
	w := newWorld(t, hostSpace(), beyond, secret)
	w.may(hasNames)
	for n := range maxIngresses {
		onHostIngress(w, spaceIngress(func(i *networkingv1.Ingress) { i.Name = fmt.Sprint(n) }), nil)
	}
	w.ingressChanged(beyond)
	if err := w.syncIngress(t.Context(), theIngress); err != nil {
		t.Fatal(err)
	}
	if err := w.syncCopy(t.Context(), item{certificateItem, "acme", "acme|shop", "cert"}); err != nil {
		t.Fatal(err)
	}
	w.expect([]string{"create events"}, nil)
}

// TestCertificatesOnHostStay checks that those of Ingresses on the host are there when the syncer begins to work.
func TestCertificatesOnHostStay(t *testing.T) {
	secured := spaceIngress(func(i *networkingv1.Ingress) {
		i.Spec.TLS = []networkingv1.IngressTLS{{Hosts: []string{"shop.acme.example.com"}, SecretName: "cert"}}
	})
	w := newWorld(t, hostSpace(), secured)
	onHostIngress(w, secured, nil)
	onHostIngress(w, spaceIngress(func(i *networkingv1.Ingress) { i.Name = "gone" }), nil)
	w.nameCertificates()
	if !w.references.has(reference{certificateItem, "acme|shop", "cert"}) || len(w.references.byItem) != 1 {
		t.Errorf("named are %v", w.references.byItem)
	}
}

// TestIngressControllers checks that what serves Ingresses reaches the pods of tenants that have some.
func TestIngressControllers(t *testing.T) {
	for name, tc := range map[string]struct {
		may  v1alpha1.Workloads
		want bool
	}{"with names": {hasNames, true}, "without": {v1alpha1.Workloads{}, false}} {
		w := newWorld(t)
		w.may(tc.may)
		if err := w.ensureGuards(t.Context(), home); err != nil {
			t.Fatal(err)
		}
		got, err := w.onHost.NetworkingV1().NetworkPolicies(home.Host()).Get(t.Context(), "tenantry-open-ingress", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		from := got.Spec.Ingress[0].From
		if last := from[len(from)-1].NamespaceSelector; (last != nil && last.MatchLabels[network.IngressLabel] == "true") != tc.want {
			t.Errorf("%s: from %+v", name, from)
		}
	}
}

// TestTenantsIngresses checks that what a Tenant may have looked at when that changes, and that nobody's is without
// one.
func TestTenantsIngresses(t *testing.T) {
	w := newWorld(t, hostSpace(), spaceIngress(nil), denyAll(nil))
	w.tenantUpdated(tenantWith(v1alpha1.Workloads{}), tenantWith(hasNames))
	seen := map[item]bool{}
	for _, i := range w.items() {
		seen[i] = true
	}
	for _, want := range []item{theIngress, {policyItem, "acme", "acme|shop", denyAll(nil).Name}, {kind: hostNamespaceItem, tenant: "acme", name: home.Host()}} {
		if !seen[want] {
			t.Errorf("%+v is not looked at", want)
		}
	}
	w = newWorld(t, spaceIngress(nil))
	w.ingressChanged(spaceIngress(nil))
	w.ingressChanged(spaceIngress(func(i *networkingv1.Ingress) { i.Namespace = "shop" }))
	w.hostIngressChanged(&networkingv1.Ingress{ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: home.Host()}})
	if w.queue.Len() > 0 {
		t.Error("what is not on the host, or of others, is looked at")
	}
	w.ingressGone(spaceIngress(nil), true)
	if _, seen := w.deleted.of("iu"); !seen {
		t.Error("the deletion was not seen")
	}
}

// TestOrphanedIngresses checks that Ingresses that no space has count.
func TestOrphanedIngresses(t *testing.T) {
	w := newWorld(t, hostSpace())
	for n := range 3 {
		onHostIngress(w, spaceIngress(func(i *networkingv1.Ingress) { i.Name = fmt.Sprint(n) }), nil)
	}
	if err := w.countOrphans(); err == nil || !strings.Contains(err.Error(), "3 of 3 objects") {
		t.Errorf("got %v", err)
	}
}

// pair returns a certificate for some names, and its key.
func pair(t *testing.T, name string, others ...string) map[string][]byte {
	t.Helper()
	certificate, key, err := cert.GenerateSelfSignedCertKey(name, nil, others)
	if err != nil {
		t.Fatal(err)
	}
	return map[string][]byte{"tls.crt": certificate, "tls.key": key, "other": []byte("x")}
}
