package offlimits

import (
	"net/netip"
	"testing"
)

func TestEmbedded(t *testing.T) {
	for address, want := range map[string]string{
		"64:ff9b::a9fe:a9fe": "169.254.169.254", "2002:a00:1::7": "10.0.0.1", "::127.0.0.1": "127.0.0.1", "::ffff:10.0.0.1": "10.0.0.1",
		"::": "0.0.0.0", "::1": "::1", "2001:db8::1": "2001:db8::1", "64:ff9b:1::1": "64:ff9b:1::1", "10.0.0.1": "10.0.0.1",
	} {
		if got := Embedded(netip.MustParseAddr(address)); got.String() != want {
			t.Errorf("%s: got %s, want %s", address, got, want)
		}
	}
}

func TestNAT64(t *testing.T) {
	for network, want := range map[string]string{"10.0.0.0/8": "64:ff9b::a00:0/104", "169.254.169.254/32": "64:ff9b::a9fe:a9fe/128", "0.0.0.0/0": "64:ff9b::/96"} {
		got, ok := NAT64(netip.MustParsePrefix(network))
		if !ok || got.String() != want {
			t.Errorf("%s: got %s, want %s", network, got, want)
		}
	}
	if got, ok := NAT64(netip.MustParsePrefix("fd00::/8")); ok {
		t.Errorf("NAT64 leads to IPv6 by %s", got)
	}
}
