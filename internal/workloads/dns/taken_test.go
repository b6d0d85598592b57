package dns

import (
	"net/netip"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"

	"github.com/tenantry/tenantry/internal/workloads/names"
)

// TestAddressTaken checks that nobody takes a pod's names away by one of their own that has the label of an
// installation, in a namespace that is of no space, and says that it has the address of that pod, or is on a node of an
// address.
func TestAddressTaken(t *testing.T) {
	h, err := newDirectory(fake.NewClientset())
	if err != nil {
		t.Fatal(err)
	}
	add := func(informer cache.SharedIndexInformer, obj any) {
		t.Helper()
		slimmed, err := slim(obj)
		if err != nil {
			t.Fatal(err)
		}
		if err := informer.GetIndexer().Add(slimmed); err != nil {
			t.Fatal(err)
		}
	}
	planted := func(namespace, address string) *corev1.Pod {
		return &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: "x", Namespace: namespace, Labels: map[string]string{names.InstallationLabel: "anything"}},
			Status:     corev1.PodStatus{PodIP: address, HostIP: "192.0.2.7"},
		}
	}
	add(h.namespaces, namespace(shop))
	add(h.pods, pod("client", shop, ofAcme))
	add(h.pods, planted("team-b", ofAcme))
	address := netip.MustParseAddr(ofAcme)
	if p, ok := h.clientAt(address); !ok || p.Name != "shop" {
		t.Errorf("the pod of acme is of %v: %v", p, ok)
	}
	if h.isNode(netip.MustParseAddr("192.0.2.7")) {
		t.Error("a node is taken for one with pods of spaces")
	}
	add(h.pods, planted(shop.Host(), ofAcme))
	if _, ok := h.clientAt(address); ok {
		t.Error("one of two pods of an address is chosen")
	}
	if !h.isNode(netip.MustParseAddr("192.0.2.7")) {
		t.Error("a node with pods of spaces is none")
	}
}
