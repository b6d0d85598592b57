package sync

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	"github.com/tenantry/tenantry/internal/workloads/canary"
	"github.com/tenantry/tenantry/internal/workloads/names"
	"github.com/tenantry/tenantry/internal/workloads/network"
	"github.com/tenantry/tenantry/internal/workloads/translate"
)

// denyAll is a policy of the space by which nothing reaches its pods.
func denyAll(change func(*networkingv1.NetworkPolicy)) *networkingv1.NetworkPolicy {
	policy := &networkingv1.NetworkPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: "deny", Namespace: "acme|shop", UID: "d"},
		Spec:       networkingv1.NetworkPolicySpec{PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress}},
	}
	if change != nil {
		change(policy)
	}
	return policy
}

// hostPolicy returns the host's policy for one of the space.
func hostPolicy(of *networkingv1.NetworkPolicy, change func(*networkingv1.NetworkPolicy)) *networkingv1.NetworkPolicy {
	policy, err := network.Policy(of, home, network.NewRanges(nil, nil))
	if err != nil {
		panic(err)
	}
	policy.UID = "host-" + of.UID
	if change != nil {
		change(policy)
	}
	return policy
}

// hasOpen is the host's pod, in both directions.
func hasOpen(p *corev1.Pod) { network.Open{Ingress: true, Egress: true}.Label(p.Labels) }

func TestPolicies(t *testing.T) {
	for name, tc := range map[string]struct {
		objects []runtime.Object
		onHost  []string
		fail    string
		// pods is whether the pods of the namespace are looked at afterwards.
		pods bool
	}{
		"a new one":             {objects: []runtime.Object{hostSpace(), denyAll(nil)}, onHost: []string{"create networkpolicies"}, pods: true},
		"one that is there":     {objects: []runtime.Object{hostSpace(), denyAll(nil), hostPolicy(denyAll(nil), nil)}, pods: true},
		"one where no pods are": {objects: []runtime.Object{denyAll(nil)}},
		"one where the syncer has no rights yet": {objects: []runtime.Object{denyAll(nil), func() *corev1.Namespace {
			n := hostSpace()
			delete(n.Annotations, boundAnnotation)
			return n
		}()}},
		"another one": {
			objects: []runtime.Object{hostSpace(), denyAll(func(p *networkingv1.NetworkPolicy) { p.Spec.Ingress = []networkingv1.NetworkPolicyIngressRule{{}} }), hostPolicy(denyAll(nil), nil)},
			onHost:  []string{"update networkpolicies"}, pods: true,
		},
		"one that somebody has changed on the host": {
			objects: []runtime.Object{hostSpace(), denyAll(nil), hostPolicy(denyAll(nil), func(p *networkingv1.NetworkPolicy) {
				p.Spec.Ingress = []networkingv1.NetworkPolicyIngressRule{{}}
				p.Annotations[hashAnnotation] = names.Hash(&denyAll(nil).Spec)
			})},
			onHost: []string{"update networkpolicies"}, pods: true,
		},
		"one that is gone": {objects: []runtime.Object{hostSpace(), hostPolicy(denyAll(nil), nil)}, onHost: []string{"delete networkpolicies host-d"}, pods: true},
		"somebody else's that is gone": {
			objects: []runtime.Object{hostSpace(), hostPolicy(denyAll(nil), func(p *networkingv1.NetworkPolicy) { p.Annotations[names.NamespaceUIDAnnotation] = "other" })}, pods: true,
		},
		"somebody else's in its place": {
			objects: []runtime.Object{hostSpace(), denyAll(nil), hostPolicy(denyAll(nil), func(p *networkingv1.NetworkPolicy) { p.Annotations[names.TenantUIDAnnotation] = "other" })},
			fail:    "is not of this installation",
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, append(tc.objects, spacePod(nil))...)
			err := w.syncPolicy(t.Context(), item{policyItem, "acme", "acme|shop", "deny"})
			if (err != nil) != (tc.fail != "") || err != nil && !strings.Contains(err.Error(), tc.fail) {
				t.Errorf("got error %v, want %q", err, tc.fail)
			}
			w.expect(nil, tc.onHost)
			if looked := w.queue.Len() > 0; looked != tc.pods {
				t.Errorf("the pods are looked at: %v, want %v", looked, tc.pods)
			}
		})
	}
}

// TestPolicyBeforeLabels checks that a pod is governed only once what governs it is on the host, and that it is
// governed although the host does not take that.
func TestPolicyBeforeLabels(t *testing.T) {
	for name, tc := range map[string]struct {
		err    error
		looked bool
	}{
		"a host that fails":   {err: errors.New("no"), looked: false},
		"a host that refuses": {err: apierrors.NewForbidden(corev1.Resource("networkpolicies"), "deny", errors.New("no")), looked: true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, hostSpace(), denyAll(nil), spacePod(nil))
			w.onHost.PrependReactor("create", "networkpolicies", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, tc.err })
			if err := w.syncPolicy(t.Context(), item{policyItem, "acme", "acme|shop", "deny"}); err == nil {
				t.Error("it is not tried again")
			}
			if looked := w.queue.Len() > 0; looked != tc.looked {
				t.Errorf("the pods are looked at: %v", looked)
			}
		})
	}
}

// TestOpen checks the labels of pods that are made and of those that are there.
func TestOpen(t *testing.T) {

	for name, tc := range map[string]struct {
		policies []runtime.Object
		ingress  bool
	}{
		"no policy":           {ingress: true},
		"one that selects it": {policies: []runtime.Object{denyAll(nil)}},
		"one that does not select it": {ingress: true, policies: []runtime.Object{denyAll(func(p *networkingv1.NetworkPolicy) {
			p.Spec.PodSelector.MatchLabels = map[string]string{"app": "other"}
		})}},
		"more than a host gets": {policies: func() (all []runtime.Object) {
			for i := range network.MaxPolicies + 1 {
				all = append(all, denyAll(func(p *networkingv1.NetworkPolicy) {
					p.Name, p.Spec.PodSelector.MatchLabels = fmt.Sprint("p", i), map[string]string{"app": "other"}
				}))
			}
			return all
		}()},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, append(tc.policies, hostSpace(), spacePod(nil))...)
			if err := w.look(); err != nil {
				t.Fatal(err)
			}
			made, err := w.onHost.CoreV1().Pods(home.Host()).Get(t.Context(), "web-0", metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if _, ok := made.Labels[network.OpenIngressLabel]; ok != tc.ingress {
				t.Errorf("its labels are %v", made.Labels)
			}
			w = newWorld(t, append(tc.policies, hostSpace(), spacePod(bound), hostPod(spacePod(bound), both(onNode, hasOpen)))...)
			if err := w.look(); err != nil {
				t.Fatal(err)
			}
			if patched := slices.Contains(did(w.onHost), "patch pods"); patched == tc.ingress {
				t.Errorf("the pod that is there is patched: %v", patched)
			}
		})
	}
	w := newWorld(t, hostSpace(), denyAll(nil), spacePod(bound))
	if got := patchOf(w.translated(spacePod(bound), translate.Home{Namespace: home}, network.Open{Egress: true}), hostPod(spacePod(bound), nil)); fmt.Sprint(got["metadata"].(map[string]any)["labels"].(map[string]any)[network.OpenIngressLabel]) != "<nil>" {
		t.Errorf("the label stays: %v", got)
	}

}

// TestGuards checks that no pod is made without the guards, and that they come back.
func TestGuards(t *testing.T) {
	w := newWorld(t, hostSpace(), spacePod(nil))
	for _, name := range network.Names {
		if err := w.hostCaches.policies.GetIndexer().Delete(&networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: home.Host()}}); err != nil {
			t.Fatal(err)
		}
		if err := w.onHost.Tracker().Delete(networkingv1.SchemeGroupVersion.WithResource("networkpolicies"), home.Host(), name); err != nil {
			t.Fatal(err)
		}
	}
	no := true
	w.onHost.PrependReactor("create", "networkpolicies", func(action clienttesting.Action) (bool, runtime.Object, error) {
		name := action.(clienttesting.CreateAction).GetObject().(metav1.Object).GetName()
		return no && name == network.Names[2], nil, errors.New("no")
	})
	if err := w.look(); err == nil || slices.Contains(did(w.onHost), "create pods") {
		t.Errorf("got %v, %v", err, did(w.onHost))
	}
	no = false
	w.onHost.ClearActions()
	if err := w.syncHostNamespace(t.Context(), item{kind: hostNamespaceItem, tenant: "acme", name: home.Host()}); err != nil {
		t.Error(err)
	}
	all, err := w.onHost.NetworkingV1().NetworkPolicies(home.Host()).List(t.Context(), metav1.ListOptions{})
	if err != nil || len(all.Items) != len(network.Names) {
		t.Errorf("there are %d, %v", len(all.Items), err)
	}
}

// TestForeignGuard checks that a pod is not made where somebody else's policy is in the guard's place.
func TestForeignGuard(t *testing.T) {
	w := newWorld(t, spacePod(nil))
	w.add(w.onHost, &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Name: network.Names[0], Namespace: home.Host()}})
	if err := w.look(); err == nil || !strings.Contains(err.Error(), "is not of this installation") || slices.Contains(did(w.onHost), "create pods") {
		t.Errorf("got %v, %v", err, did(w.onHost))
	}
}

// TestNamespaceLabels checks that the host's namespace has what selectors of policies ask for, and nothing else of it.
func TestNamespaceLabels(t *testing.T) {
	old := hostSpace()
	old.Labels[network.LabelPrefix+"old"], old.Labels["other"] = "x", "y"
	w := newWorld(t, old, spacePod(nil))
	w.see(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "acme|shop", UID: "n", Labels: map[string]string{"team": "a", "pod-security.kubernetes.io/enforce": "privileged"}}})
	if err := w.syncHostNamespace(t.Context(), item{kind: hostNamespaceItem, tenant: "acme", name: home.Host()}); err != nil {
		t.Fatal(err)
	}
	now, err := w.onHost.CoreV1().Namespaces().Get(t.Context(), home.Host(), metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for key, value := range network.NamespaceLabels(map[string]string{"team": "a"}) {
		if now.Labels[key] != value {
			t.Errorf("%s is %q, want %q", key, now.Labels[key], value)
		}
	}
	if _, ok := now.Labels[network.LabelPrefix+"old"]; ok || now.Labels["other"] != "y" || now.Labels["pod-security.kubernetes.io/enforce"] != "baseline" {
		t.Errorf("got %v", now.Labels)
	}
}

// TestIsolation checks what a pod waits for, and what the results of tests say.
func TestIsolation(t *testing.T) {
	w := newWorld(t, hostSpace(), spacePod(nil))
	w.isolated = &isolation{clock: w.clock, why: beingTested}
	for _, step := range []struct {
		what string
		err  error
		wait time.Duration
		want string
	}{
		{what: "nothing is known", want: beingTested, err: errNothing},
		{what: "it is not enforced", err: fmt.Errorf("a test: %w", canary.ErrUnenforced), want: unenforced},
		{what: "nothing is known any more", err: errNothing, want: untested},
		{what: "it is enforced"},
		{what: "a test that says nothing", err: errNothing},
		{what: "tests that say nothing for long", err: errNothing, wait: 2 * provenFor, want: untested},
		{what: "it is enforced again"},
		{what: "anybody sends in others' names", err: fmt.Errorf("a test: %w", canary.ErrUnchecked), want: unchecked},
		{what: "nobody does any more"},
		{what: "it is not enforced any more", err: canary.ErrUnenforced, want: unenforced},
	} {
		if step.want != beingTested {
			w.clock.Step(step.wait)
			w.isolated.note(step.err)
		}
		if got := w.isolated.refusal(); got != step.want {
			t.Errorf("%s: got %q, want %q", step.what, got, step.want)
		}
		w.space.ClearActions()
		if err := w.look(); err != nil {
			t.Error(err)
		}
		told := slices.Contains(did(w.space), "update pods/status")
		if runs := slices.Contains(did(w.onHost), "create pods"); runs == (step.want != "") || told != (step.want != "") {
			t.Errorf("%s: it runs: %v, it is told: %v", step.what, runs, told)
		}
		w.onHost.ClearActions()
		_ = w.onHost.Tracker().Delete(corev1.SchemeGroupVersion.WithResource("pods"), home.Host(), "web-0")
	}
}

// errNothing is the error of a test that says nothing.
var errNothing = errors.New("the canary is Pending")

// TestCanaries checks what the canaries are asked, and what their ends mean.
func TestCanaries(t *testing.T) {
	for name, tc := range map[string]struct {
		code          int32
		address, also string
		want          error
		// hidden is whether pods have no DNS of their space then.
		hidden bool
	}{
		"enforced":       {code: canary.Enforced},
		"hidden":         {code: canary.Hidden, hidden: true},
		"not enforced":   {code: canary.Unenforced, want: canary.ErrUnenforced},
		"not checked":    {code: canary.Unchecked, want: canary.ErrUnchecked},
		"of IPv6":        {code: canary.Enforced, also: "fd00::9"},
		"not there":      {code: canary.Unconnected, want: canary.ErrUnconnected},
		"something else": {code: 1, want: errors.New("--workloads-image")},
		"outside":        {code: canary.Enforced, address: "11.0.0.9", want: errors.New("addresses such as 11.0.0.9")},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.withNode("node", corev1.NodeSpec{})
			w.image = "localhost/tenantry:1"
			address := cmp.Or(tc.address, "10.0.0.9")
			word := ""
			w.onHost.PrependReactor("create", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
				pod := action.(clienttesting.CreateAction).GetObject().(*corev1.Pod)
				pod.UID = "u"
				word = cmp.Or(word, pod.Spec.Containers[0].Args[3])
				pod.Status = corev1.PodStatus{Phase: corev1.PodRunning, PodIP: address, PodIPs: []corev1.PodIP{{IP: address}}}
				var ipv6 []string
				if tc.also != "" {
					pod.Status.PodIPs = append(pod.Status.PodIPs, corev1.PodIP{IP: tc.also})
					ipv6 = []string{"--ipv6", "[" + tc.also + "]:8083"}
				}
				if slices.Contains(pod.Spec.Containers[0].Args, "dial") {
					pod.Status.ContainerStatuses = []corev1.ContainerStatus{{State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: tc.code}}}}
					if want := slices.Concat([]string{"canary", "dial", "--word", word, "--dns", "10.43.0.10:53"}, ipv6, []string{address + ":8080", address + ":8081", address + ":8082"}); !slices.Equal(pod.Spec.Containers[0].Args, want) {
						t.Errorf("it does %v", pod.Spec.Containers[0].Args)
					}
				}
				return false, nil, nil
			})
			err := w.test(t.Context())
			if !errors.Is(err, tc.want) && (tc.want == nil || !strings.Contains(fmt.Sprint(err), tc.want.Error())) {
				t.Errorf("got %v, want %v", err, tc.want)
			}
			if hidden := len(w.dns.addresses()) == 0; hidden != tc.hidden {
				t.Errorf("pods have no DNS: %t", hidden)
			}
			left, err := w.onHost.CoreV1().Pods("").List(t.Context(), metav1.ListOptions{})
			if err != nil || len(left.Items) > 0 {
				t.Errorf("pods are left: %v, %v", left.Items, err)
			}
		})
	}
}

// TestForeignCanaries checks that canaries run in no namespace that is the syncer's of another owner.
func TestForeignCanaries(t *testing.T) {
	for name, of := range map[string]names.Owner{"another's": {Namespace: "acme", ControlPlane: "theirs"}, "nobody's": {}} {
		w := newWorld(t)
		w.owner = names.Owner{Namespace: "acme", ControlPlane: "ours"}
		marks := map[string]string{names.InstallationLabel: "i"}
		maps.Copy(marks, of.Labels())
		w.add(w.onHost, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: names.Canaries("i"), Labels: marks}})
		if err := w.ensureCanaries(t.Context(), names.Canaries("i")); err == nil || !strings.Contains(err.Error(), "is not of this syncer") {
			t.Errorf("in %s: %v", name, err)
		}
		w.expect(nil, []string{"create namespaces"})
	}
}

// TestManyPolicies checks that one for which there is no room on the host gets there when another one has gone.
func TestManyPolicies(t *testing.T) {
	w := newWorld(t, hostSpace(), denyAll(nil))
	var other *networkingv1.NetworkPolicy
	for i := range network.MaxPolicies { // beside the guards
		name := strconv.Itoa(i)
		other = &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{
			Name: names.Copy(name), Namespace: home.Host(), Labels: map[string]string{names.InstallationLabel: "i"}, Annotations: home.MarksOf(name, "other"),
		}}
		w.cache(w.hostCaches.policies, other)
	}
	deny := item{policyItem, "acme", "acme|shop", "deny"}
	if err := w.syncPolicy(t.Context(), deny); err != nil {
		t.Error(err)
	}
	w.expect([]string{"create events"}, nil)
	if err := w.hostCaches.policies.GetIndexer().Delete(other); err != nil {
		t.Fatal(err)
	}
	w.andRoom(w.hostPolicyChanged)(other, true)
	if got := w.taken(); len(got) != 2 {
		t.Errorf("after one has gone, %v is looked at", got)
	}
	if err := w.syncPolicy(t.Context(), deny); err != nil {
		t.Error(err)
	}
	w.expect(nil, []string{"create networkpolicies"})
}

// TestLooksOnce checks that pods are looked at once for each version of a policy, and what labels of a namespace have
// looked at.
func TestLooksOnce(t *testing.T) {
	w := newWorld(t, hostSpace(), spacePod(nil), denyAll(func(p *networkingv1.NetworkPolicy) { p.ResourceVersion = "1" }))
	for _, step := range []struct {
		what   string
		policy *networkingv1.NetworkPolicy
		pods   bool
	}{
		{what: "a new policy", pods: true},
		{what: "the same one"},
		{what: "another version of it", pods: true, policy: denyAll(func(p *networkingv1.NetworkPolicy) { p.ResourceVersion = "2" })},
		{what: "that one"},
		{what: "another one of its name", pods: true, policy: denyAll(func(p *networkingv1.NetworkPolicy) { p.ResourceVersion, p.UID = "2", "e" })},
	} {
		if step.policy != nil {
			w.see(step.policy)
		}
		if err := w.syncPolicy(t.Context(), item{policyItem, "acme", "acme|shop", "deny"}); err != nil {
			t.Fatal(err)
		}
		if got := w.taken(); slices.Contains(got, podItem) != step.pods {
			t.Errorf("%s: %v is looked at", step.what, got)
		}
	}
	before, now := hostSpace(), hostSpace()
	now.ResourceVersion, now.Labels["x"] = "2", "y"
	w.hostNamespaceUpdated(before, now)
	if got := w.taken(); !slices.Equal(got, []kind{hostNamespaceItem}) {
		t.Errorf("after a label on the host %v is looked at", got)
	}
	delete(before.Annotations, boundAnnotation)
	w.hostNamespaceUpdated(before, now)
	if got := w.taken(); !slices.Contains(got, policyItem) {
		t.Errorf("after the syncer has its rights %v is looked at", got)
	}
	space, labelled := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "acme|shop", UID: "n"}}, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "acme|shop", UID: "n", Labels: map[string]string{"a": "b"}}}
	w.namespaceUpdated(space, labelled)
	if got := w.taken(); !slices.Equal(got, []kind{hostNamespaceItem}) {
		t.Errorf("after a label in the space %v is looked at", got)
	}
}

// taken takes what is in the queue out of it, has those looked at that stand for many others, and returns what the
// others are about.
func (w *world) taken() (kinds []kind) {
	for _, i := range w.items() {
		kinds = append(kinds, i.kind)
	}
	return kinds
}

// items is taken by the items themselves.
func (w *world) items() (all []item) {
	w.t.Helper()
	for w.queue.Len() > 0 {
		i, _ := w.queue.Get()
		if i.kind < tenantItem {
			all = append(all, i)
		} else if err := w.enqueueMany(i); err != nil {
			w.t.Error(err)
		}
		w.queue.finished(i, 0)
	}
	return all
}

// TestWayOut checks that a space whose pods a ControlPlane has run is told of fields of that, and not of flags.
func TestWayOut(t *testing.T) {
	for owner, want := range map[names.Owner]string{
		{}: "accept that with --network-isolation=Unenforced",
		{Namespace: "team-a", ControlPlane: "one"}: "accept that with networkIsolation.mode: Unenforced in spec.workloads of the ControlPlane",
	} {
		w := newWorld(t, hostSpace(), spacePod(nil))
		w.owner, w.isolated = owner, &isolation{clock: w.clock, why: unenforced}
		w.leads.Store(true)
		if err := w.look(); err != nil {
			t.Fatal(err)
		}
		pod, err := w.space.CoreV1().Pods("acme|shop").Get(t.Context(), "web-0", metav1.GetOptions{})
		if err != nil || len(pod.Status.Conditions) != 1 || !strings.HasSuffix(pod.Status.Conditions[0].Message, want) {
			t.Errorf("the pod says %+v, %v", pod.Status.Conditions, err)
		}
		if err := w.ready(); err == nil || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("kubelets are told %v", err)
		}
	}
}
