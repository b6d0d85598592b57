package sync

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	clienttesting "k8s.io/client-go/testing"

	"github.com/tenantry/tenantry/internal/workloads/names"
)

// spaceBudget is one of a space, whose controller has counted so many pods that are to be healthy.
func spaceBudget(desired int32, change func(*policyv1.PodDisruptionBudget)) *policyv1.PodDisruptionBudget {
	budget := &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "acme|shop", UID: "b", Generation: 3},
		Spec: policyv1.PodDisruptionBudgetSpec{
			MaxUnavailable: new(intstr.FromString("25%")), UnhealthyPodEvictionPolicy: new(policyv1.AlwaysAllow),
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
		},
		Status: policyv1.PodDisruptionBudgetStatus{ObservedGeneration: 3, DesiredHealthy: desired},
	}
	if change != nil {
		change(budget)
	}
	return budget
}

// onHostBudget is the host's of spaceBudget.
func onHostBudget(of *policyv1.PodDisruptionBudget, change func(*policyv1.PodDisruptionBudget)) *policyv1.PodDisruptionBudget {
	budget := hostBudget(of, home)
	budget.UID = "host-b"
	if change != nil {
		change(budget)
	}
	return budget
}

func TestBudgets(t *testing.T) {
	three := spaceBudget(3, nil)
	for name, tc := range map[string]struct {
		objects []runtime.Object
		onHost  []string
		// desired is what the host's has, -1 if there is none.
		desired int32
		fail    bool
	}{
		"a new one":                   {objects: []runtime.Object{three}, onHost: []string{"create poddisruptionbudgets"}, desired: 3},
		"one that is there":           {objects: []runtime.Object{three, onHostBudget(three, nil)}, desired: 3},
		"another number":              {objects: []runtime.Object{spaceBudget(2, nil), onHostBudget(three, nil)}, onHost: []string{"update poddisruptionbudgets"}, desired: 2},
		"one that somebody changed":   {objects: []runtime.Object{three, onHostBudget(three, func(b *policyv1.PodDisruptionBudget) { b.Spec.Selector = nil })}, onHost: []string{"update poddisruptionbudgets"}, desired: 3},
		"one that nobody has counted": {objects: []runtime.Object{spaceBudget(0, func(b *policyv1.PodDisruptionBudget) { b.Generation = 4 }), onHostBudget(three, nil)}, desired: 3},
		"one that is gone":            {objects: []runtime.Object{onHostBudget(three, nil)}, onHost: []string{"delete poddisruptionbudgets host-b"}, desired: -1},
		"somebody else's":             {objects: []runtime.Object{three, onHostBudget(three, func(b *policyv1.PodDisruptionBudget) { b.Annotations = nil })}, desired: 3, fail: true},
		"somebody else's without one": {objects: []runtime.Object{onHostBudget(three, func(b *policyv1.PodDisruptionBudget) { b.Annotations = nil })}, desired: 3},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, append(tc.objects, hostSpace())...)
			err := w.syncBudget(t.Context(), item{budgetItem, "acme", "acme|shop", "web"})
			if (err != nil) != tc.fail {
				t.Errorf("got %v", err)
			}
			w.expect(nil, tc.onHost)
			got, err := w.onHost.PolicyV1().PodDisruptionBudgets(home.Host()).Get(t.Context(), "tn-web", metav1.GetOptions{})
			if (err != nil) != (tc.desired < 0) {
				t.Fatalf("got %v", err)
			}
			if err == nil && got.Spec.MinAvailable.IntVal != tc.desired {
				t.Errorf("%d are to be healthy", got.Spec.MinAvailable.IntVal)
			}
		})
	}
}

// TestHostBudget checks that a host's budget is about the pods of the space's, and says a number.
func TestHostBudget(t *testing.T) {
	got := hostBudget(spaceBudget(3, func(b *policyv1.PodDisruptionBudget) {
		b.Spec.Selector.MatchLabels[names.InstallationLabel] = "i"
	}), home)
	want := &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Name: "tn-web", Namespace: home.Host(), Labels: map[string]string{names.InstallationLabel: "i"}, Annotations: home.MarksOf("web", "b")},
		Spec:       policyv1.PodDisruptionBudgetSpec{MinAvailable: new(intstr.FromInt32(3)), UnhealthyPodEvictionPolicy: new(policyv1.AlwaysAllow)},
	}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(policyv1.PodDisruptionBudgetSpec{}, "Selector")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	labels := got.Spec.Selector.MatchLabels
	if _, ours := labels[names.InstallationLabel]; ours || labels["app"] != "web" || len(labels) != 2 {
		t.Errorf("it selects %v", labels)
	}
	for name, selector := range map[string]*metav1.LabelSelector{"none": nil, "all": {}} {
		got := hostBudget(spaceBudget(3, func(b *policyv1.PodDisruptionBudget) { b.Spec.Selector = selector }), home)
		if diff := cmp.Diff(selector, got.Spec.Selector); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// TestManyBudgets checks that there are so many on the host, that the next one is told of, and that it gets there when
// another one has gone.
func TestManyBudgets(t *testing.T) {
	w := newWorld(t, hostSpace(), spaceBudget(3, nil))
	var other *policyv1.PodDisruptionBudget
	for i := range maxBudgets {
		other = onHostBudget(spaceBudget(3, nil), func(b *policyv1.PodDisruptionBudget) {
			b.Name, b.Annotations[names.NameAnnotation] = fmt.Sprintf("tn-%d", i), strconv.Itoa(i)
		})
		w.see(other)
	}
	web := item{budgetItem, "acme", "acme|shop", "web"}
	if err := w.syncBudget(t.Context(), web); err != nil {
		t.Error(err)
	}
	w.expect([]string{"create events"}, nil)
	if err := w.hostCaches.budgets.GetIndexer().Delete(other); err != nil {
		t.Fatal(err)
	}
	w.andRoom(w.hostBudgetChanged)(other, true)
	if got := w.taken(); len(got) != 2 {
		t.Errorf("after one has gone, %v is looked at", got)
	}
	if err := w.syncBudget(t.Context(), web); err != nil {
		t.Error(err)
	}
	w.expect(nil, []string{"create poddisruptionbudgets"})
}

// TestBudgetRefusedByHost checks that the space is told, in its own names.
func TestBudgetRefusedByHost(t *testing.T) {
	w := newWorld(t, hostSpace(), spaceBudget(3, nil))
	w.onHost.PrependReactor("create", "poddisruptionbudgets", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewForbidden(policyv1.Resource("poddisruptionbudgets"), "tn-web", errors.New("exceeded quota of "+home.Host()))
	})
	if err := w.syncBudget(t.Context(), item{budgetItem, "acme", "acme|shop", "web"}); err == nil {
		t.Error("it is not tried again")
	}
	events, err := w.space.CoreV1().Events("acme|shop").List(t.Context(), metav1.ListOptions{})
	if err != nil || len(events.Items) != 1 {
		t.Fatalf("got %v, %v", events, err)
	}
	if told := events.Items[0].Message; !strings.Contains(told, "the host cluster does not take it") || strings.Contains(told, home.Host()) {
		t.Errorf("the space is told %s", told)
	}
}

// TestBudgetEvents checks that what changes of a budget with every pod is not looked at.
func TestBudgetEvents(t *testing.T) {
	before := spaceBudget(3, nil)
	for name, tc := range map[string]struct {
		change func(*policyv1.PodDisruptionBudget)
		want   int
	}{
		"a pod more":      {func(b *policyv1.PodDisruptionBudget) { b.Status.CurrentHealthy, b.Status.DisruptionsAllowed = 4, 1 }, 0},
		"another number":  {func(b *policyv1.PodDisruptionBudget) { b.Status.DesiredHealthy = 4 }, 1},
		"another spec":    {func(b *policyv1.PodDisruptionBudget) { b.Generation = 4 }, 1},
		"it was counted":  {func(b *policyv1.PodDisruptionBudget) { b.Status.ObservedGeneration = 4 }, 1},
		"another of them": {func(b *policyv1.PodDisruptionBudget) { b.UID = "c" }, 1},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, hostSpace())
			now := before.DeepCopy()
			tc.change(now)
			w.budgetUpdated(before, now)
			if got := w.queue.Len(); got != tc.want {
				t.Errorf("%d are to be looked at, want %d", got, tc.want)
			}
		})
	}
	w := newWorld(t, before)
	w.budgetChanged(before)
	if got := w.queue.Len(); got != 0 {
		t.Error("a namespace that is not on the host is looked at")
	}
	w = newWorld(t, hostSpace(), before)
	w.hostNamespaceChanged(hostSpace())
	if got := w.taken(); len(got) != 2 {
		t.Errorf("with its namespace, %v are looked at", got)
	}
	w = newWorld(t, hostSpace())
	w.hostBudgetChanged(onHostBudget(before, nil))
	if got := w.queue.Len(); got != 1 {
		t.Error("what somebody changes on the host is not looked at")
	}
}
