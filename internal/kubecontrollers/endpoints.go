package kubecontrollers

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	coreclient "k8s.io/client-go/kubernetes/typed/core/v1"
)

// namedEndpoints is a client for the endpoints controller. The controller leaves the
// namespace of what it creates to the path, and when that fails records an event about
// the same object: without a namespace it would be an event in the system's space. And it
// gives addresses of pods without a node an empty one.
type namedEndpoints struct{ kubernetes.Interface }

func (c namedEndpoints) CoreV1() coreclient.CoreV1Interface {
	return namedEndpointsCore{c.Interface.CoreV1()}
}

type namedEndpointsCore struct{ coreclient.CoreV1Interface }

func (c namedEndpointsCore) Endpoints(namespace string) coreclient.EndpointsInterface {
	return endpointsIn{c.CoreV1Interface.Endpoints(namespace), namespace}
}

type endpointsIn struct {
	coreclient.EndpointsInterface
	namespace string
}

// Create also sets the namespace of what it is given.
func (c endpointsIn) Create(ctx context.Context, endpoints *corev1.Endpoints, opts metav1.CreateOptions) (*corev1.Endpoints, error) {
	endpoints.Namespace = c.namespace
	withoutEmptyNodes(endpoints)
	return c.EndpointsInterface.Create(ctx, endpoints, opts)
}

// Update is Update of the client.
func (c endpointsIn) Update(ctx context.Context, endpoints *corev1.Endpoints, opts metav1.UpdateOptions) (*corev1.Endpoints, error) {
	withoutEmptyNodes(endpoints)
	return c.EndpointsInterface.Update(ctx, endpoints, opts)
}

// withoutEmptyNodes removes the empty node that the controller gives to the address of a pod
// without one. Validation refuses it, with an error for each address, and the controller
// would try again for ever.
func withoutEmptyNodes(endpoints *corev1.Endpoints) {
	for _, subset := range endpoints.Subsets {
		for _, addresses := range [][]corev1.EndpointAddress{subset.Addresses, subset.NotReadyAddresses} {
			for i := range addresses {
				if node := addresses[i].NodeName; node != nil && *node == "" {
					addresses[i].NodeName = nil
				}
			}
		}
	}
}
