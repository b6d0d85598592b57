package view

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/kubernetes"
	coreclient "k8s.io/client-go/kubernetes/typed/core/v1"
	nodeclient "k8s.io/client-go/kubernetes/typed/node/v1"
	"k8s.io/client-go/rest"

	"github.com/tenantry/tenantry/internal/tenant"
)

// client is the client of one space, over a client of flattened names. It gets
// namespaces and runtime classes, as admission plugins with a view need. The rest of the
// interface is nil.
type client struct {
	kubernetes.Interface
	flat      kubernetes.Interface
	tenant    tenant.Name
	discovery discovery.DiscoveryInterface
}

// Client returns a client of the space of n over flat, a client of flattened names. It can
// get namespaces and runtime classes and, if discovery is not nil, discover; nothing else.
func Client(flat kubernetes.Interface, n tenant.Name, discovery discovery.DiscoveryInterface) kubernetes.Interface {
	return &client{flat: flat, tenant: n, discovery: discovery}
}

func (c *client) Discovery() discovery.DiscoveryInterfaces {
	if c.discovery == nil {
		return nil
	}
	return bothVariants{c.discovery, discovery.ToDiscoveryInterfaceWithContext(c.discovery)}
}

// bothVariants is a discovery client with and without contexts. The variant with
// contexts wraps the other one, so that both have the client's overrides.
type bothVariants struct {
	discovery.DiscoveryInterface
	discovery.DiscoveryInterfaceWithContext
}

// RESTClient implements both.
func (b bothVariants) RESTClient() rest.Interface { return b.DiscoveryInterface.RESTClient() }

func (c *client) CoreV1() coreclient.CoreV1Interface { return coreV1{client: c} }
func (c *client) NodeV1() nodeclient.NodeV1Interface { return nodeV1{client: c} }

type coreV1 struct {
	coreclient.CoreV1Interface
	client *client
}

func (c coreV1) Namespaces() coreclient.NamespaceInterface {
	return namespaces{NamespaceInterface: c.client.flat.CoreV1().Namespaces(), tenant: c.client.tenant}
}

type namespaces struct {
	coreclient.NamespaceInterface
	tenant tenant.Name
}

func (n namespaces) Get(ctx context.Context, name string, opts metav1.GetOptions) (*corev1.Namespace, error) {
	obj, err := n.NamespaceInterface.Get(ctx, tenant.Flatten(n.tenant, name).String(), opts)
	if err != nil {
		return nil, PlainError(err, n.tenant)
	}
	return plain(obj).(*corev1.Namespace), nil
}

type nodeV1 struct {
	nodeclient.NodeV1Interface
	client *client
}

func (c nodeV1) RuntimeClasses() nodeclient.RuntimeClassInterface {
	return runtimeClasses{RuntimeClassInterface: c.client.flat.NodeV1().RuntimeClasses(), tenant: c.client.tenant}
}

type runtimeClasses struct {
	nodeclient.RuntimeClassInterface
	tenant tenant.Name
}

func (r runtimeClasses) Get(ctx context.Context, name string, opts metav1.GetOptions) (*nodev1.RuntimeClass, error) {
	obj, err := r.RuntimeClassInterface.Get(ctx, tenant.Flatten(r.tenant, name).String(), opts)
	if err != nil {
		return nil, PlainError(err, r.tenant)
	}
	return plain(obj).(*nodev1.RuntimeClass), nil
}
