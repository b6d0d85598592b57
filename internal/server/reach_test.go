package server

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestHostsOf(t *testing.T) {
	got := hostsOf([]string{"https://10.0.0.1:2379", "http://etcd-0.etcd:2379", "10.0.0.2:2379", "https://[2001:db8::1]:2379", "unix:///run/etcd.sock"})
	if diff := cmp.Diff([]string{"10.0.0.1", "etcd-0.etcd", "10.0.0.2", "2001:db8::1"}, got); diff != "" {
		t.Error(diff)
	}
}
