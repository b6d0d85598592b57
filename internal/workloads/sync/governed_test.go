package sync

import (
	"fmt"
	"testing"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tenantry/tenantry/internal/workloads/translate"
)

// TestGoverned checks that what policies govern is read once for each version, however many there are, and forgotten
// with them.
func TestGoverned(t *testing.T) {
	g := &governed{}
	policy := func(i int, version string) *networkingv1.NetworkPolicy {
		return &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "acme|shop", Name: fmt.Sprint(i), UID: types.UID(fmt.Sprint(i)), ResourceVersion: version}}
	}
	const many = 5000
	first := g.of(policy(0, "1"))
	for i := range many {
		if g.noteEnqueued(policy(i, "1")) {
			t.Fatalf("pods have been looked at because of %d", i)
		}
	}
	if g.of(policy(0, "1")) != first || !g.noteEnqueued(policy(0, "1")) {
		t.Error("the first one is read again")
	}
	if g.of(policy(0, "2")) == first || g.noteEnqueued(policy(0, "2")) {
		t.Error("another version is the same")
	}
	other := policy(0, "2")
	if other.Namespace = "globex|shop"; g.of(other) == g.of(policy(0, "2")) {
		t.Error("it is that of another space")
	}
	g.Delete(itemOf(policyItem, other))
	for i := range many {
		g.Delete(itemFor(policyItem, "acme|shop", fmt.Sprint(i)))
	}
	if g.Len() != 0 {
		t.Errorf("%d are known that are gone", g.Len())
	}
}

// TestForgetsOffHost checks that nothing stays of what is gone in namespaces that are not on the host.
func TestForgetsOffHost(t *testing.T) {
	w := newWorld(t)
	policy := &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "acme|shop", Name: "p", UID: "u", ResourceVersion: "1"}}
	w.governed.of(policy) // as for a pod that waits
	w.policyGone(policy, true)
	if n := w.governed.Len(); n != 0 {
		t.Errorf("%d policies are known that are gone", n)
	}
	route := &unstructured.Unstructured{Object: map[string]any{}}
	route.SetNamespace("acme|shop")
	route.SetName("r")
	w.checked.why(itemOf(routeItem, route), route, translate.Rules{}, func() error { return nil })
	w.routeGone(route, true)
	if n := w.checked.Len(); n != 0 {
		t.Errorf("%d routes are known that are gone", n)
	}
}
