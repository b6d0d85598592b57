package sync

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	testingclock "k8s.io/utils/clock/testing"

	"github.com/tenantry/tenantry/api/v1alpha1"
	"github.com/tenantry/tenantry/internal/tenant"
	"github.com/tenantry/tenantry/internal/workloads/network"
	"github.com/tenantry/tenantry/internal/workloads/translate"
)

// TestWriteBudget checks how long changes wait, and that tenants do not wait for each other.
func TestWriteBudget(t *testing.T) {
	clock := testingclock.NewFakeClock(time.Unix(1000, 0))
	s := newWriteBudget(clock, changedBytes, changedAtOnce)
	pod := func(n int) itemWrite {
		return itemWrite{item{podItem, "acme", "acme|shop", fmt.Sprint("web-", n)}, writeUpdate}
	}
	if wait := s.wait(pod(0), changedAtOnce); wait != 0 {
		t.Fatalf("the first waits for %v", wait)
	}
	for i := 1; i < 4; i++ {
		if wait := s.wait(pod(i), changedBytes); wait != time.Duration(i)*time.Second {
			t.Errorf("%d waits for %v", i, wait)
		}
	}
	if wait := s.wait(itemWrite{item{podItem, "globex", "globex|shop", "web-0"}, writeUpdate}, changedBytes); wait != 0 {
		t.Errorf("another tenant waits for %v", wait)
	}
	clock.Step(1500 * time.Millisecond)
	for i, want := range []time.Duration{1: 0, 2: 500 * time.Millisecond, 3: 1500 * time.Millisecond} {
		if wait := s.wait(pod(i), changedBytes); i > 0 && wait != want {
			t.Errorf("%d waits for %v, want %v", i, wait, want)
		}
	}
	clock.Step(1500 * time.Millisecond)
	if wait := s.wait(pod(2), changedBytes); wait != 0 {
		t.Errorf("it waits for %v when it may be made", wait)
	}
	clock.Step(time.Hour)
	s.wait(itemWrite{item{podItem, "initech", "initech|shop", "web-0"}, writeUpdate}, 1)
	if len(s.byTenant) != 1 {
		t.Errorf("of %d tenants it is known what they spent", len(s.byTenant))
	}
}

// TestWriteBudgetGivesBack checks that what is gone costs its tenant nothing more, and that nothing waits for hours.
func TestWriteBudgetGivesBack(t *testing.T) {
	clock := testingclock.NewFakeClock(time.Unix(1000, 0))
	s := newWriteBudget(clock, 1, 10)
	gone := func(n int) item { return item{podItem, "acme", "acme|shop", fmt.Sprint("gone-", n)} }
	for i := range 100 {
		s.wait(itemWrite{gone(i), writeUpdate}, 1)
	}
	for i := 99; i >= 0; i-- {
		s.drop(gone(i))
	}
	if n := len(s.byTenant["acme"].due); n != 0 {
		t.Errorf("%d are known that are gone", n)
	}
	if wait := s.wait(itemWrite{gone(100), writeUpdate}, 1); wait > time.Second {
		t.Errorf("the next one waits for %v", wait)
	}
	for i := range 1000 {
		s.wait(itemWrite{gone(i), writeUpdate}, 1)
	}
	if wait, n := s.wait(itemWrite{gone(1000), writeUpdate}, 1), len(s.byTenant["acme"].due); wait > maxDebt || n > 301 {
		t.Errorf("one waits for %v, behind %d", wait, n)
	}
}

// TestPacedChanges checks that changes of many bytes of the host's pods wait.
func TestPacedChanges(t *testing.T) {
	changed := func(p *corev1.Pod) { bound(p); p.Labels = map[string]string{"a": "b"} }
	w := newWorld(t, hostSpace(), spacePod(changed), hostPod(spacePod(bound), onNode))
	w.writeBudgets[changeBudget].wait(itemWrite{item{podItem, "acme", "acme|shop", "other"}, writeUpdate}, changedAtOnce)
	if err := w.look(); err != nil {
		t.Fatal(err)
	}
	if slices.Contains(did(w.onHost), "patch pods") {
		t.Error("it is changed at once")
	}
	w.clock.Step(time.Second)
	if err := w.look(); err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(did(w.onHost), "patch pods") {
		t.Errorf("it is not changed: %v", did(w.onHost))
	}
}

// TestLargePods checks that a pod does not begin on the host which would be too large there.
func TestLargePods(t *testing.T) {
	for name, tc := range map[string]struct {
		bytes, ports int
		runs         bool
	}{
		"a large one": {bytes: maxPodBytes - 4096, runs: true}, "one too large": {bytes: maxPodBytes},
		"one of some ports": {ports: 100, runs: true}, "one of which the host notes too much": {ports: maxPodBytes / translate.EntryBytes},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, hostSpace(), spacePod(func(p *corev1.Pod) {
				p.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "LARGE", Value: strings.Repeat("x", tc.bytes)}}
				for i := range tc.ports {
					p.Spec.Containers[0].Ports = append(p.Spec.Containers[0].Ports, corev1.ContainerPort{ContainerPort: int32(i + 1)})
				}
			}))
			if err := w.look(); err != nil {
				t.Fatal(err)
			}
			if runs := slices.Contains(did(w.onHost), "create pods"); runs != tc.runs {
				t.Errorf("it begins: %v", runs)
			}
			now, err := w.space.CoreV1().Pods("acme|shop").Get(t.Context(), "web-0", metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if told := strings.Contains(fmt.Sprint(now.Status.Conditions), "may have 131072"); told == tc.runs {
				t.Errorf("its conditions are %v", now.Status.Conditions)
			}
		})
	}
}

// TestWriteBudgetOfGrown checks that what grows while it waits is counted as what it is in the end.
func TestWriteBudgetOfGrown(t *testing.T) {
	clock := testingclock.NewFakeClock(time.Unix(1000, 0))
	s := newWriteBudget(clock, 100, 1000)
	other := itemWrite{item{podItem, "acme", "acme|shop", "other"}, writeUpdate}
	w := itemWrite{item{podItem, "acme", "acme|shop", "web-0"}, writeUpdate}
	s.wait(other, 1000)
	if wait := s.wait(w, 10); wait != 100*time.Millisecond {
		t.Fatalf("a small one waits for %v", wait)
	}
	clock.Step(100 * time.Millisecond)
	if wait := s.wait(w, 1000); wait != 9900*time.Millisecond {
		t.Fatalf("when it has grown it waits for %v", wait)
	}
	clock.Step(9900 * time.Millisecond)
	if wait := s.wait(w, 500); wait != 0 {
		t.Errorf("when its turn has come it waits for %v", wait)
	}
	if wait := s.wait(w, 100); wait != time.Second {
		t.Errorf("the next one waits for %v", wait)
	}
	s.drop(w.item)
	s.wait(w, 100)
	clock.Step(time.Second)
	s.wait(w, 200)
	s.drop(w.item)
	if wait := s.wait(w, 100); wait > time.Second {
		t.Errorf("after one that was dropped it waits for %v", wait)
	}
}

// TestPacedCreations checks that pods of many bytes wait, and count as often as a host stores them.
func TestPacedCreations(t *testing.T) {
	w := newWorld(t, hostSpace(), spacePod(nil))
	w.writeBudgets[creationBudget].wait(itemWrite{item{podItem, "acme", "acme|shop", "other"}, writeCreation}, createdAtOnce)
	if err := w.look(); err != nil {
		t.Fatal(err)
	}
	w.expect(nil, nil)
	i := itemOf(podItem, spacePod(nil))
	if n := w.writeBudgets[creationBudget].byTenant["acme"].due[itemWrite{i, writeUpdate}].size; n < writesOfPod*1000 {
		t.Errorf("it counts as %d bytes", n)
	}
	w.clock.Step(time.Second)
	if err := w.look(); err != nil {
		t.Fatal(err)
	}
	w.expect(nil, []string{"create pods"})
}

// TestVariablesCount checks that what a pod has of Services counts, and what the host notes of each of them.
func TestVariablesCount(t *testing.T) {
	w := newWorld(t, hostSpace(), spacePod(nil), spaceService(func(s *corev1.Service) {
		for port := range 100 {
			s.Spec.Ports = append(s.Spec.Ports, corev1.ServicePort{Name: fmt.Sprint("p", port), Port: int32(1000 + port), Protocol: corev1.ProtocolTCP})
		}
	}))
	if err := w.look(); err != nil {
		t.Fatal(err)
	}
	made, err := w.onHost.CoreV1().Pods(home.Host()).Get(t.Context(), "web-0", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	stored, err := made.Marshal() // with who has written what
	if err != nil {
		t.Fatal(err)
	}
	counted := createdAtOnce - int(w.writeBudgets[creationBudget].byTenant["acme"].limiter.TokensAt(w.clock.Now()))
	if len(made.ManagedFields) == 0 || len(made.Spec.Containers[0].Env) < 100 || counted < writesOfPod*len(stored) {
		t.Errorf("%d variables, %d bytes are counted for %d times %d", len(made.Spec.Containers[0].Env), counted, writesOfPod, len(stored))
	}
}

// TestUsualCreations checks that a thousand usual pods wait for nothing.
func TestUsualCreations(t *testing.T) {
	s := newWriteBudget(testingclock.NewFakeClock(time.Unix(1000, 0)), createdBytes, createdAtOnce)
	for i := range 1000 {
		if wait := s.wait(itemWrite{item{podItem, "acme", "acme|shop", fmt.Sprint("web-", i)}, writeCreation}, writesOfPod*10_000); wait > 0 {
			t.Fatalf("%d waits for %v", i, wait)
		}
	}
}

// TestPacedPolicies checks that policies of many bytes wait, with the pods that follow them, and that one that is as it
// is to be counts nothing.
func TestPacedPolicies(t *testing.T) {
	policy := denyAll(nil)
	w := newWorld(t, hostSpace(), spacePod(bound), policy)
	i := item{policyItem, "acme", "acme|shop", policy.Name}
	w.writeBudgets[smallBudget].wait(itemWrite{item{policyItem, "acme", "acme|shop", "other"}, writeUpdate}, smallAtOnce)
	if err := w.syncPolicy(t.Context(), i); err != nil {
		t.Fatal(err)
	}
	w.expect(nil, nil)
	if w.queue.Len() > 0 {
		t.Errorf("%d are looked at before it is there", w.queue.Len())
	}
	w.clock.Step(time.Second)
	if err := w.syncPolicy(t.Context(), i); err != nil {
		t.Fatal(err)
	}
	w.expect(nil, []string{"create networkpolicies"})
	w.see(hostPolicy(policy, nil))
	w.writeBudgets[smallBudget].wait(itemWrite{item{policyItem, "acme", "acme|shop", "other"}, writeUpdate}, smallAtOnce)
	if err := w.syncPolicy(t.Context(), i); err != nil {
		t.Fatal(err)
	}
	if due := w.writeBudgets[smallBudget].byTenant["acme"].due[itemWrite{i, writeUpdate}]; due.size > 0 {
		t.Errorf("what is as it is to be counts as %d bytes", due.size)
	}
}

// TestPacedClaims checks that claims of many bytes wait, count as often as a host stores them, and grow no more often
// than that is paced.
func TestPacedClaims(t *testing.T) {
	i, other := itemOf(claimItem, spaceClaim()), item{claimItem, "acme", "acme|shop", "other"}
	w := newWorld(t, hostSpace(), atOnce, spaceClaim(finalized))
	w.writeBudgets[smallBudget].wait(itemWrite{other, writeUpdate}, smallAtOnce)
	look := func(onHost ...string) {
		t.Helper()
		if err := w.lookAtClaim(); err != nil {
			t.Fatal(err)
		}
		w.expect(nil, onHost)
		w.onHost.ClearActions()
	}
	look()
	if n, size := w.writeBudgets[smallBudget].byTenant["acme"].due[itemWrite{i, writeUpdate}].size, hostClaim(spaceClaim()).Size(); n < writesOfClaim*size {
		t.Errorf("it counts as %d bytes, and is stored %d times with %d", n, writesOfClaim, size)
	}
	w.clock.Step(time.Second)
	look("create persistentvolumeclaims")

	larger := spaceClaim(finalized, func(c *corev1.PersistentVolumeClaim) { c.Spec.Resources.Requests = storage("2Gi") })
	w.see(larger)
	w.see(hostClaim(spaceClaim()))
	w.writeBudgets[resizeBudget].wait(itemWrite{other, writeResources}, resizesAtOnce)
	look()
	w.clock.Step(time.Second / resizesPerSecond)
	look("patch persistentvolumeclaims")

	w.see(hostClaim(spaceClaim(), func(c *corev1.PersistentVolumeClaim) { c.Spec.StorageClassName = new(strings.Repeat("x", resizeBytes)) }))
	w.writeBudgets[resizeBudget].wait(itemWrite{other, writeResources}, resizesAtOnce)
	look()
	if n := w.writeBudgets[resizeBudget].byTenant["acme"].due[itemWrite{i, writeUpdate}].size; n != 1+writesOfClaim {
		t.Errorf("one of %d bytes counts as %d", resizeBytes, n)
	}
}

// TestPacedSmall checks that what is small waits if there is much of it, and that what is as it is to be counts
// nothing.
func TestPacedSmall(t *testing.T) {
	ports := func(s *corev1.Service) {
		for port := range 100 {
			s.Spec.Ports = append(s.Spec.Ports, corev1.ServicePort{Name: fmt.Sprint("p", port), Port: int32(1000 + port), Protocol: corev1.ProtocolTCP})
		}
	}
	budget := spaceBudget(3, nil)
	web := item{budgetItem, "acme", "acme|shop", "web"}
	labelled := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "acme|shop", UID: "n", Labels: map[string]string{"a": "b"}}}
	for name, tc := range map[string]struct {
		objects []runtime.Object
		look    func(*world) error
		onHost  string
		// waits is an error with which it waits.
		waits string
	}{
		"a Service":                  {objects: []runtime.Object{hostSpace(), spaceService(ports)}, look: (*world).lookAtService, onHost: "create services"},
		"a Service that has changed": {objects: []runtime.Object{hostSpace(), spaceService(ports), hostService(spaceService(nil), nil)}, look: (*world).lookAtService, onHost: "update services"},
		"a budget": {
			objects: []runtime.Object{hostSpace(), budget}, onHost: "create poddisruptionbudgets", look: func(w *world) error { return w.syncBudget(w.t.Context(), web) },
		},
		"labels of a namespace": {objects: []runtime.Object{hostSpace(), spacePod(nil)}, onHost: "patch namespaces", look: func(w *world) error {
			w.see(labelled)
			return w.syncHostNamespace(w.t.Context(), item{kind: hostNamespaceItem, tenant: "acme", name: home.Host()})
		}},
		"a namespace": {objects: []runtime.Object{spacePod(nil)}, look: (*world).look, onHost: "create namespaces", waits: "its namespace is made when its turn comes"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, tc.objects...)
			w.writeBudgets[smallBudget].wait(itemWrite{item{policyItem, "acme", "acme|shop", "other"}, writeUpdate}, smallAtOnce)
			if err := tc.look(w); (err != nil) != (tc.waits != "") || err != nil && !strings.Contains(err.Error(), tc.waits) {
				t.Fatalf("got %v, want %q", err, tc.waits)
			}
			if got := did(w.onHost); len(got) > 0 {
				t.Errorf("at once: %v", got)
			}
			w.clock.Step(time.Second)
			if err := tc.look(w); err != nil {
				t.Fatal(err)
			}
			if got := did(w.onHost); len(got) == 0 || got[0] != tc.onHost {
				t.Errorf("when its turn has come: %v", got)
			}
		})
	}
}

// TestServicesCount checks that a Service counts with what the host notes of its ports.
func TestServicesCount(t *testing.T) {
	w := newWorld(t, hostSpace(), spaceService(func(s *corev1.Service) {
		for port := range 100 {
			s.Spec.Ports = append(s.Spec.Ports, corev1.ServicePort{Name: fmt.Sprint("p", port), Port: int32(1000 + port), Protocol: corev1.ProtocolTCP})
		}
	}))
	if err := w.lookAtService(); err != nil {
		t.Fatal(err)
	}
	made, err := w.onHost.CoreV1().Services(home.Host()).Get(t.Context(), "web", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	counted := smallAtOnce - int(w.writeBudgets[smallBudget].byTenant["acme"].limiter.TokensAt(w.clock.Now()))
	if stored := made.Size(); len(made.ManagedFields) == 0 || counted < stored {
		t.Errorf("%d bytes are counted for %d", counted, stored)
	}
}

// TestLevelDoesNotWait checks that the level of a namespace's pods is on the host at once, whatever waits with it.
func TestLevelDoesNotWait(t *testing.T) {
	w := newWorld(t, hostSpace(), spacePod(nil))
	w.see(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "acme|shop", UID: "n", Labels: map[string]string{"a": "b"}}})
	w.may(v1alpha1.Workloads{PodSecurity: "restricted"})
	w.writeBudgets[smallBudget].wait(itemWrite{item{policyItem, "acme", "acme|shop", "other"}, writeUpdate}, smallAtOnce)
	if err := w.syncHostNamespace(t.Context(), item{kind: hostNamespaceItem, tenant: "acme", name: home.Host()}); err != nil {
		t.Fatal(err)
	}
	now, err := w.onHost.CoreV1().Namespaces().Get(t.Context(), home.Host(), metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if labels := fmt.Sprint(now.Labels); !strings.Contains(labels, "enforce:restricted") || strings.Contains(labels, network.LabelPrefix) {
		t.Errorf("its labels are %s", labels)
	}
}

// TestNamespacesShareABudget checks that who changes much in some namespaces keeps no writes of another one away, and
// that what is known of waiting writes does not become more and more.
func TestNamespacesShareABudget(t *testing.T) {
	clock := testingclock.NewFakeClock(time.Unix(1000, 0))
	s := newWriteBudget(clock, smallBytes, smallAtOnce)
	of := func(namespace, name string) itemWrite {
		return itemWrite{itemFor(policyItem, tenant.Flatten("acme", namespace), name), writeUpdate}
	}
	next := map[int]time.Time{}
	longest := time.Duration(0)
	turn := func() {
		for i := range 900 { // each is changed again as soon as it is written
			if !clock.Now().Before(next[i]) {
				wait := s.wait(of(fmt.Sprint("dev-", i%5), fmt.Sprint(i)), 64<<10)
				longest = max(longest, wait)
				next[i] = clock.Now().Add(max(wait, time.Second))
			}
		}
		clock.Step(time.Second)
	}
	for range 3600 {
		turn()
	}
	if longest > 2*maxDebt {
		t.Errorf("one waits for %v", longest)
	}
	began, wait := clock.Now(), time.Duration(1)
	for wait > 0 && clock.Since(began) < time.Hour {
		for wait = s.wait(of("shop", "deny-all"), leastCopy); wait > 0; wait -= time.Second {
			turn()
		}
		wait = s.wait(of("shop", "deny-all"), leastCopy)
	}
	if waited := clock.Since(began); waited > 2*maxDebt {
		t.Errorf("one of another namespace waits for %v", waited)
	}

	for i := range 1000 {
		s.wait(of("shop", fmt.Sprint("gone-", i)), leastCopy)
	}
	clock.Step(time.Hour)
	s.wait(of("shop", "large"), smallAtOnce)
	s.wait(of("shop", "next"), leastCopy)
	if known := s.byTenant["acme"]; len(known.due) != 1 || len(known.until) != 1 {
		t.Errorf("%d writes and %d namespaces are known", len(known.due), len(known.until))
	}
}
