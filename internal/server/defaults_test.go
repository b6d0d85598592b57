package server

import (
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kubernetes/pkg/apis/core"
)

// TestAPIService checks that the Service of the API has the address by which pods reach it, and that what the cache has
// stays.
func TestAPIService(t *testing.T) {
	of := func() *core.Service {
		return &core.Service{
			ObjectMeta: metav1.ObjectMeta{ResourceVersion: "1", Annotations: map[string]string{"of": "the platform"}},
			Spec: core.ServiceSpec{ClusterIP: "10.96.0.1", ClusterIPs: []string{"10.96.0.1"}, IPFamilies: []core.IPFamily{core.IPv4Protocol},
				Ports: []core.ServicePort{{Name: "https", Port: 443}}},
		}
	}
	for api, want := range map[string]core.ServiceSpec{
		"": of().Spec,
		"192.0.2.7:6443": {ClusterIP: "192.0.2.7", ClusterIPs: []string{"192.0.2.7"}, IPFamilies: []core.IPFamily{core.IPv4Protocol},
			Ports: []core.ServicePort{{Name: "https", Port: 6443}}},
		"[2001:db8::7]:443": {ClusterIP: "2001:db8::7", ClusterIPs: []string{"2001:db8::7"}, IPFamilies: []core.IPFamily{core.IPv6Protocol},
			Ports: []core.ServicePort{{Name: "https", Port: 443}}},
	} {
		var address netip.AddrPort
		if api != "" {
			address = netip.MustParseAddrPort(api)
		}
		cached := of()
		shown := *cached // as the cache gives it
		found, err := apiService(address)("", &shown)
		if err != nil || !found || len(shown.Annotations) > 0 {
			t.Errorf("%q: %v, %v, %v", api, found, err, shown.Annotations)
		}
		if diff := cmp.Diff(want, shown.Spec); diff != "" {
			t.Errorf("%q (-want +got):\n%s", api, diff)
		}
		if diff := cmp.Diff(of(), cached); diff != "" {
			t.Errorf("%q changes the cache:\n%s", api, diff)
		}
	}
	if found, err := apiService(netip.AddrPort{})("", &core.Service{}); found || err != nil {
		t.Errorf("without the system space's: %v, %v", found, err)
	}
}
