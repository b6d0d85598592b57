package standalone

import (
	"fmt"
	"net"
	"net/netip"
	"strconv"

	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/kubernetes/cmd/kube-apiserver/app/options"
	"k8s.io/kubernetes/pkg/controlplane/reconcilers"

	"github.com/tenantry/tenantry/internal/workloads/translate"
)

// advertise says by which address pods reach the server. Upstream does not start
// without one; but a machine without a route has no pods to tell it to.
func (o Options) advertise(kube *options.ServerRunOptions) error {
	address, err := o.advertised()
	if err != nil {
		return err
	}
	kube.GenericServerRunOptions.AdvertiseAddress = address
	if address.IsLoopback() || address.IsLinkLocalUnicast() {
		// The endpoints of the service "kubernetes" cannot have such an address.
		kube.EndpointReconcilerType = string(reconcilers.NoneEndpointReconcilerType)
	}
	return nil
}

// advertised returns the address of the server, that of the loopback device if the machine has no route.
func (o Options) advertised() (net.IP, error) {
	address, bound := net.ParseIP(o.AdvertiseAddress), net.ParseIP(o.BindAddress)
	if address == nil && o.AdvertiseAddress != "" {
		return nil, fmt.Errorf("--advertise-address: %q is not an IP address", o.AdvertiseAddress)
	}
	if address != nil && (address.IsUnspecified() || address.IsMulticast()) {
		return nil, fmt.Errorf("--advertise-address: pods cannot reach %s, which is not the address of one machine; leave the flag out for that of the default route", address)
	}
	if address == nil {
		var err error
		address, err = utilnet.ResolveBindAddress(bound)
		if err == nil && address.To4() == nil && (bound.IsLoopback() || bound.IsUnspecified()) {
			address, err = utilnet.ResolveBindAddress(net.IPv4zero) // upstream prefers the family of the bound address
		}
		if err != nil || address.To4() == nil && !address.Equal(bound) { // no route of the family of Services
			address = net.IPv4(127, 0, 0, 1)
		}
	}
	if address.To4() == nil {
		return nil, fmt.Errorf("--advertise-address: %s is an IPv6 address, and Services have those of %s, so the Service kubernetes could not lead there: "+
			"name an IPv4 address of this machine by which pods reach it", address, serviceRange)
	}
	return address, nil
}

// podsAPI returns where pods on the host cluster reach the API server, as --workloads-api-address has it: by default at
// the address of this server, empty if it listens where nobody else reaches it, or if its certificate is somebody
// else's.
func (o Options) podsAPI() (string, error) {
	if !o.Server.Host.IsSet() || o.Workloads.APIAddress != "" || o.PKIDir != "" {
		return o.Workloads.APIAddress, nil
	}
	address, err := o.advertised()
	if err != nil || address.IsLoopback() || net.ParseIP(o.BindAddress).IsLoopback() {
		return "", err
	}
	return net.JoinHostPort(address.String(), strconv.Itoa(o.Port)), nil
}

// certifiedHosts returns the names and addresses by which clients and pods reach the server.
func (o Options) certifiedHosts() []string {
	hosts := append([]string{o.BindAddress}, o.TLSNames...)
	if api, err := translate.ParseAPI(o.Workloads.APIAddress); err == nil && api != (netip.AddrPort{}) {
		hosts = append(hosts, api.Addr().String())
	}
	return hosts
}
