package standalone

import (
	"fmt"
	"net"

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
		if address, err = kube.SecureServing.DefaultExternalAddress(); err != nil { // no route
			address = net.IPv4(127, 0, 0, 1)
		}
	}
	kube.GenericServerRunOptions.AdvertiseAddress = address
	if address.IsLoopback() || address.IsLinkLocalUnicast() {
		// The endpoints of the service "kubernetes" cannot have such an address.
		kube.EndpointReconcilerType = string(reconcilers.NoneEndpointReconcilerType)
	}
	return nil
}
