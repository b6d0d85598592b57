package server

import (
	"net"
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestHostsOf(t *testing.T) {
	got := hostsOf([]string{"https://10.0.0.1:2379", "http://etcd-0.etcd:2379", "10.0.0.2:2379", "https://[2001:db8::1]:2379", "unix:///run/etcd.sock"})
	if diff := cmp.Diff([]string{"10.0.0.1", "etcd-0.etcd", "10.0.0.2", "2001:db8::1"}, got); diff != "" {
		t.Error(diff)
	}
}

func TestPlatformHosts(t *testing.T) {
	etcd := etcdServers([]string{"https://192.0.2.2:2379"}, []string{"/events#https://192.0.2.3:2379;https://192.0.2.4:2379"})
	t.Setenv("KUBERNETES_SERVICE_HOST", "10.96.0.1")
	want := []string{"192.0.2.1", "192.0.2.9", "192.0.2.2", "192.0.2.3", "192.0.2.4", "10.96.0.1"}
	if diff := cmp.Diff(want, platformHosts(net.ParseIP("192.0.2.1"), netip.MustParseAddrPort("192.0.2.9:443"), etcd)); diff != "" {
		t.Error(diff)
	}
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	if got := platformHosts(nil, netip.AddrPort{}, nil); len(got) != 0 {
		t.Errorf("got %v where nothing is known", got)
	}
}
