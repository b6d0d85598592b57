package clusterip

import (
	"errors"
	"fmt"
	"net"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/apiserver/pkg/storage/storagebackend/factory"
	"k8s.io/client-go/tools/cache"
	"k8s.io/kubernetes/pkg/apis/core"
	"k8s.io/kubernetes/pkg/registry/core/service/ipallocator"
	"k8s.io/kubernetes/pkg/registry/core/service/portallocator"
	servicestore "k8s.io/kubernetes/pkg/registry/core/service/storage"
)

// newGranting returns a store of upstream's, of which the hooks alone are used: they take the addresses and ports that
// a Service has, and say what is wrong with its families. It stores nothing.
func newGranting() (*registry.Store, error) {
	upstream, _, _, err := servicestore.NewREST(nowhere{}, core.IPv4Protocol,
		map[core.IPFamily]ipallocator.Interface{core.IPv4Protocol: granted{family: core.IPv4Protocol}, core.IPv6Protocol: granted{family: core.IPv6Protocol}},
		grantedPorts{}, nil, nil, nil)
	if err != nil {
		return nil, fmt.Errorf("creating the hooks of services: %w", err)
	}
	return upstream.Store, nil
}

// nowhere is for a store without storage.
type nowhere struct{}

// GetRESTOptions implements generic.RESTOptionsGetter.
func (nowhere) GetRESTOptions(resource schema.GroupResource, _ runtime.Object) (generic.RESTOptions, error) {
	return generic.RESTOptions{
		StorageConfig: &storagebackend.ConfigForResource{GroupResource: resource}, ResourcePrefix: resource.Resource,
		Decorator: func(*storagebackend.ConfigForResource, string, func(runtime.Object) (string, error), func() runtime.Object, func() runtime.Object,
			storage.AttrFunc, storage.IndexerFuncs, *cache.Indexers) (storage.Interface, factory.DestroyFunc, error) {
			return nil, func() {}, nil
		},
	}, nil
}

// errNotChosen is that something is to be allocated that the host was not asked for.
var errNotChosen = errors.New("the host cluster has not chosen it")

// granted grants every address of a family, and chooses none: the host has.
type granted struct {
	family core.IPFamily
	dryRun bool
}

var _ ipallocator.Interface = granted{}

// Allocate implements ipallocator.Interface.
func (granted) Allocate(net.IP) error { return nil }

// AllocateNext implements ipallocator.Interface. A dry run has an address for documentation: the host is not asked.
func (g granted) AllocateNext() (net.IP, error) {
	switch {
	case !g.dryRun:
		return nil, errNotChosen
	case g.family == core.IPv6Protocol:
		return net.ParseIP("2001:db8::1"), nil
	default:
		return net.IPv4(192, 0, 2, 1), nil
	}
}

// Release implements ipallocator.Interface: the host does when its Service goes.
func (granted) Release(net.IP) error { return nil }

// ForEach implements ipallocator.Interface.
func (granted) ForEach(func(net.IP)) {}

// CIDR implements ipallocator.Interface.
func (granted) CIDR() net.IPNet { return net.IPNet{} }

// IPFamily implements ipallocator.Interface.
func (g granted) IPFamily() core.IPFamily { return g.family }

// Has implements ipallocator.Interface.
func (granted) Has(net.IP) bool { return false }

// Destroy implements ipallocator.Interface.
func (granted) Destroy() {}

// EnableMetrics implements ipallocator.Interface.
func (granted) EnableMetrics() {}

// DryRun implements ipallocator.Interface.
func (g granted) DryRun() ipallocator.Interface { return granted{family: g.family, dryRun: true} }

// grantedPorts grants every port, likewise. Upstream chooses by itself in dry runs.
type grantedPorts struct{}

var _ portallocator.Interface = grantedPorts{}

// Allocate implements portallocator.Interface.
func (grantedPorts) Allocate(int) error { return nil }

// AllocateNext implements portallocator.Interface.
func (grantedPorts) AllocateNext() (int, error) { return 0, errNotChosen }

// Release implements portallocator.Interface.
func (grantedPorts) Release(int) error { return nil }

// ForEach implements portallocator.Interface.
func (grantedPorts) ForEach(func(int)) {}

// Has implements portallocator.Interface.
func (grantedPorts) Has(int) bool { return false }

// Destroy implements portallocator.Interface.
func (grantedPorts) Destroy() {}

// EnableMetrics implements portallocator.Interface.
func (grantedPorts) EnableMetrics() {}
