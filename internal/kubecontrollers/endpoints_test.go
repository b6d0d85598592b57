package kubecontrollers

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/utils/ptr"
)

// TestEndpointsWithoutNodes checks that addresses of pods without a node are written as ones
// that validation takes.
func TestEndpointsWithoutNodes(t *testing.T) {
	client := namedEndpoints{fake.NewClientset()}.CoreV1().Endpoints("a|ns")
	endpoints := func() *corev1.Endpoints {
		addresses := func() []corev1.EndpointAddress {
			return []corev1.EndpointAddress{{IP: "10.0.0.1", NodeName: ptr.To("")}, {IP: "10.0.0.2", NodeName: ptr.To("node")}, {IP: "10.0.0.3"}}
		}
		return &corev1.Endpoints{ObjectMeta: metav1.ObjectMeta{Name: "e"}, Subsets: []corev1.EndpointSubset{{Addresses: addresses(), NotReadyAddresses: addresses()}}}
	}
	created, err := client.Create(t.Context(), endpoints(), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	updated, err := client.Update(t.Context(), endpoints(), metav1.UpdateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if created.Namespace != "a|ns" {
		t.Errorf("created in %q", created.Namespace)
	}
	for _, got := range []*corev1.Endpoints{created, updated} {
		for _, addresses := range [][]corev1.EndpointAddress{got.Subsets[0].Addresses, got.Subsets[0].NotReadyAddresses} {
			if addresses[0].NodeName != nil || ptr.Deref(addresses[1].NodeName, "") != "node" || addresses[2].NodeName != nil {
				t.Errorf("got %v", addresses)
			}
		}
	}
}
