package sync

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tenantry/tenantry/internal/workloads/network"
)

// withNode has the host have a node whose pods are in a network, and returns what is told of it.
func (w *world) withNode(name string, spec corev1.NodeSpec, addresses ...string) {
	w.t.Helper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec}
	for _, address := range addresses {
		node.Status.Addresses = append(node.Status.Addresses, corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: address})
	}
	w.cache(w.hostNodes, node)
}

// at gives a host's pod addresses.
func at(addresses ...string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Status.PodIP = addresses[0]
		for _, address := range addresses {
			p.Status.PodIPs = append(p.Status.PodIPs, corev1.PodIP{IP: address})
		}
	}
}

// TestToldRanges checks that what nodes tell is inside, although it is not private.
func TestToldRanges(t *testing.T) {
	for name, tc := range map[string]struct {
		spec      corev1.NodeSpec
		addresses []string
		inside    string
	}{
		"the range of its pods":   {spec: corev1.NodeSpec{PodCIDR: "11.1.0.0/24"}, inside: "11.1.0.7"},
		"a second range of these": {spec: corev1.NodeSpec{PodCIDR: "11.1.0.0/24", PodCIDRs: []string{"11.1.0.0/24", "2600:1f14::/80"}}, inside: "2600:1f14::7"},
		"its address":             {addresses: []string{"12.0.0.1"}, inside: "12.0.0.1"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.withNode("node", tc.spec, tc.addresses...)
			if w.ranges.current().Contains(netip.MustParseAddr(tc.inside)) {
				t.Fatal("it is inside without being told")
			}
			if _, err := w.ranges.find(t.Context()); err != nil {
				t.Fatal(err)
			}
			if !w.ranges.current().Contains(netip.MustParseAddr(tc.inside)) {
				t.Errorf("%s is outside of %v", tc.inside, w.ranges.current())
			}
		})
	}
}

// TestSeenNetworks checks that the networks are inside in which pods of spaces have addresses, also when these are
// gone, and that pods in too many of them are an error.
func TestSeenNetworks(t *testing.T) {
	w := newWorld(t, hostSpace(), hostPod(spacePod(bound), at("11.1.0.7", "2600:1f14::7")))
	w.withNode("node", corev1.NodeSpec{})
	has := func(address string, want bool) {
		t.Helper()
		if _, err := w.ranges.find(t.Context()); err != nil {
			t.Fatal(err)
		}
		if w.ranges.current().Contains(netip.MustParseAddr(address)) != want {
			t.Errorf("%s: want %v in %v", address, want, w.ranges.current())
		}
	}
	has("11.1.0.200", true)
	has("2600:1f14::1:7", true)
	has("11.1.1.1", false)
	if err := w.ranges.allInside(); err != nil {
		t.Error(err)
	}
	if err := w.hostCaches.pods.GetIndexer().Delete(hostPod(spacePod(bound), nil)); err != nil {
		t.Fatal(err)
	}
	has("11.1.0.7", true)
	for i := range maxSeenNetworks {
		w.see(hostPod(spacePod(func(p *corev1.Pod) { p.Name, p.UID = fmt.Sprint("p", i), types.UID(fmt.Sprint("p", i)) }), at(fmt.Sprintf("13.0.%d.1", i))))
	}
	if _, err := w.ranges.find(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := w.ranges.allInside(); !errors.As(err, new(errOutside)) || len(w.ranges.seen) != maxSeenNetworks || strings.Contains(err.Error(), "13.0") {
		t.Errorf("got %v with %d networks", err, len(w.ranges.seen))
	}
}

// TestSeesAddresses checks that ranges are looked for when a pod of the host has an address outside of them.
func TestSeesAddresses(t *testing.T) {
	w := newWorld(t, hostSpace())
	w.hostPodChanged(hostPod(spacePod(bound), at("10.0.0.1")))
	if len(w.ranges.ask) > 0 {
		t.Error("ranges are looked for because of an address that is inside")
	}
	w.hostPodChanged(hostPod(spacePod(bound), at("10.0.0.1", "2600:1f14::7")))
	if len(w.ranges.ask) != 1 {
		t.Error("nobody looks for ranges")
	}
}

// TestStrangeRanges checks that servers reach no pod while there are ranges of pods or Services that they do not know
// to be inside. Addresses of nodes lead to none.
func TestStrangeRanges(t *testing.T) {
	w := newWorld(t, hostSpace())
	w.withNode("node", corev1.NodeSpec{PodCIDR: "10.42.0.0/24", PodCIDRs: []string{"10.42.0.0/24", "fd00::/64"}}, "11.0.0.1")
	calls := func(want bool) {
		t.Helper()
		if _, err := w.ranges.find(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := w.currentReachable().Calls; got != want {
			t.Errorf("servers reach pods: %v, with %v", got, w.ranges.strange)
		}
	}
	calls(true)
	w.withNode("other", corev1.NodeSpec{PodCIDR: "11.0.1.0/24"})
	calls(false)
	w.ranges.configured = []netip.Prefix{netip.MustParsePrefix("11.0.0.0/16")}
	calls(true)
	w.see(hostPod(spacePod(bound), at("2600:1f14::7")))
	calls(false)
}

// TestCanaryOutside checks that no pod begins if a canary has an address outside all known ranges, although a pod of a
// space has been seen beside it.
func TestCanaryOutside(t *testing.T) {
	canary := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "listener", Namespace: "tn-canaries"}}
	at("2600:1f14::8")(canary)
	w := newWorld(t, hostSpace(), hostPod(spacePod(bound), at("2600:1f14::7")))
	w.see(canary)
	w.withNode("node", corev1.NodeSpec{})
	if _, err := w.ranges.find(t.Context()); err != nil {
		t.Fatal(err)
	}
	err := w.ranges.allInside(canary)
	w.isolated = &isolation{clock: w.clock}
	w.isolated.note(err)
	if why := w.isolated.refusal(); !strings.Contains(why, "2600:1f14::8") || !strings.Contains(why, "--network-isolation-cluster-cidrs") {
		t.Errorf("got %q", why)
	}
	w.ranges.configured = []netip.Prefix{network.Around(netip.MustParseAddr("2600:1f14::8"))}
	if _, err := w.ranges.find(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := w.ranges.allInside(canary); err != nil {
		t.Errorf("it is told, and %v", err)
	}
}
