package server

import (
	"net/url"
	"os"
	"slices"
	"strings"

	"github.com/tenantry/tenantry/internal/server/egress"
)

// reach returns how webhooks of tenants are reached: not where the platform is, as far
// as that is known.
func (o CompletedOptions) reach(selected bool) egress.Options {
	reach := o.egress
	reach.Selected = selected
	reach.Hosts = slices.Clone(reach.Hosts)
	if advertised := o.kube.GenericServerRunOptions.AdvertiseAddress; advertised != nil {
		reach.Hosts = append(reach.Hosts, advertised.String())
	}
	servers := slices.Clone(o.kube.Etcd.StorageConfig.Transport.ServerList)
	for _, override := range o.kube.Etcd.EtcdServersOverrides { // group/resource#servers
		if _, list, ok := strings.Cut(override, "#"); ok {
			servers = append(servers, strings.Split(list, ";")...)
		}
	}
	if o.rawStorage == nil { // otherwise etcd is in this process
		reach.Hosts = append(reach.Hosts, hostsOf(servers)...)
	}
	// The API server of the cluster that this server runs in, if it does.
	if host := os.Getenv("KUBERNETES_SERVICE_HOST"); host != "" {
		reach.Hosts = append(reach.Hosts, host)
	}
	return reach
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
