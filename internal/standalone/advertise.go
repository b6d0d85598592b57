package standalone

import (
	"fmt"
	"net"

	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/kubernetes/cmd/kube-apiserver/app/options"
	"k8s.io/kubernetes/pkg/controlplane/reconcilers"
)

// advertise says by which address pods reach the server. Upstream does not start
// without one; but a machine without a route has no pods to tell it to.
func (o Options) advertise(kube *options.ServerRunOptions) error {
	address := net.ParseIP(o.AdvertiseAddress)
	if address == nil && o.AdvertiseAddress != "" {
		return fmt.Errorf("--advertise-address: %q is not an IP address", o.AdvertiseAddress)
	}
	if address != nil && (address.IsUnspecified() || address.IsMulticast()) {
		return fmt.Errorf("--advertise-address: pods cannot reach %s, which is not the address of one machine; leave the flag out for that of the default route", address)
	}
	if address == nil {
		var err error
		address, err = kube.SecureServing.DefaultExternalAddress()
		if bound := kube.SecureServing.BindAddress; err == nil && address.To4() == nil && (bound.IsLoopback() || bound.IsUnspecified()) {
			address, err = utilnet.ResolveBindAddress(net.IPv4zero) // upstream prefers the family of the bound address
		}
		if err != nil || address.To4() == nil && !address.Equal(kube.SecureServing.BindAddress) { // no route of the family of Services
			address = net.IPv4(127, 0, 0, 1)
		}
	}
	if address.To4() == nil {
		return fmt.Errorf("--advertise-address: %s is an IPv6 address, and Services have those of %s, so the Service kubernetes could not lead there: "+
			"name an IPv4 address of this machine by which pods reach it", address, serviceRange)
	}
	kube.GenericServerRunOptions.AdvertiseAddress = address
	if address.IsLoopback() || address.IsLinkLocalUnicast() {
		// The endpoints of the service "kubernetes" cannot have such an address.
		kube.EndpointReconcilerType = string(reconcilers.NoneEndpointReconcilerType)
	}
	return nil
}
