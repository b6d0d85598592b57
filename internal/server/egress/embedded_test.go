package egress

import (
	"net"
	"net/netip"
	"testing"
)

// TestDeniedAsWritten checks that what is denied in the form of IPv6 is denied, also as that.
func TestDeniedAsWritten(t *testing.T) {
	network := func(text string) net.IPNet {
		_, n, err := net.ParseCIDR(text)
		if err != nil {
			t.Fatal(err)
		}
		return *n
	}
	for name, tc := range map[string]struct {
		denied  string
		hosts   []netip.Addr
		address string
	}{
		"all of IPv6":                 {denied: "::/0", address: "[64:ff9b::808:808]:443"},
		"all of IPv6, an usual one":   {denied: "::/0", address: "[2001:db8::1]:443"},
		"NAT64 as a whole":            {denied: "64:ff9b::/96", address: "[64:ff9b::808:808]:443"},
		"6to4 as a whole":             {denied: "2002::/16", address: "[2002:808:808::1]:443"},
		"etcd, known by its NAT64":    {denied: "192.0.2.0/24", hosts: []netip.Addr{netip.MustParseAddr("64:ff9b::a00:5")}, address: "[64:ff9b::a00:5]:2379"},
		"this machine, whose is 6to4": {denied: "192.0.2.0/24", hosts: []netip.Addr{netip.MustParseAddr("2002:c633:6401::1")}, address: "[2002:c633:6401::1]:2379"},
		"this machine, an usual one":  {denied: "192.0.2.0/24", hosts: []netip.Addr{netip.MustParseAddr("2001:db8::1")}, address: "[2001:db8::1]:2379"},
	} {
		var denied []netip.Addr
		for _, host := range tc.hosts {
			denied = append(denied, formsOf(host)...)
		}
		if err := (Options{Denied: []net.IPNet{network(tc.denied)}}).check(t.Context(), "acme", tc.address, denied); err == nil {
			t.Errorf("%s: %s is reached", name, tc.address)
		}
	}
}
