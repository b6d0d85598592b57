package server

import (
	"net"
	"net/netip"
	"net/url"
	"os"
	"slices"
	"strings"

	"github.com/tenantry/tenantry/internal/server/egress"
)

// reach returns how webhooks of tenants are reached: not where the platform is, as far
// as that is known.
func (o CompletedOptions) reach(b *base, s *stores) (egress.Options, error) {
	reach := o.Egress
	reach.Selected, reach.Exceeded = b.generic.EgressSelector != nil, s.spaces.CacheMemory.Exceeded
	if o.host != nil {
		services, err := newHostServices(o.host, b, s)
		if err != nil {
			return egress.Options{}, err
		}
		reach.ServiceAt, reach.StillAt = services.at, services.stillAt
	}
	var etcd []string
	if o.RawStorage == nil { // otherwise etcd is in this process
		etcd = etcdServers(o.kube.Etcd.StorageConfig.Transport.ServerList, o.kube.Etcd.EtcdServersOverrides)
	}
	reach.Hosts = append(slices.Clone(reach.Hosts), platformHosts(o.kube.GenericServerRunOptions.AdvertiseAddress, o.podsAPI, etcd)...)
	return reach, nil
}

// platformHosts returns where the platform is: the address of this server, if it is
// known, that by which pods reach it, those of etcd, and the API server of the cluster that this server runs in, if
// it does.
func platformHosts(advertised net.IP, api netip.AddrPort, etcd []string) []string {
	var hosts []string
	if advertised != nil {
		hosts = append(hosts, advertised.String())
	}
	if api.IsValid() {
		hosts = append(hosts, api.Addr().String())
	}
	hosts = append(hosts, hostsOf(etcd)...)
	if host := os.Getenv("KUBERNETES_SERVICE_HOST"); host != "" {
		hosts = append(hosts, host)
	}
	return hosts
}

// etcdServers returns all etcd endpoints: overrides are of the form group/resource#servers.
func etcdServers(servers, overrides []string) []string {
	servers = slices.Clone(servers)
	for _, override := range overrides {
		if _, list, ok := strings.Cut(override, "#"); ok {
			servers = append(servers, strings.Split(list, ";")...)
		}
	}
	return servers
}

// hostsOf returns the hosts of etcd's endpoints, which are URLs or host and port.
func hostsOf(endpoints []string) []string {
	var hosts []string
	for _, endpoint := range endpoints {
		if !strings.Contains(endpoint, "://") {
			endpoint = "//" + endpoint
		}
		u, err := url.Parse(endpoint)
		if err == nil && u.Hostname() != "" { // not a Unix socket
			hosts = append(hosts, u.Hostname())
		}
	}
	return hosts
}
