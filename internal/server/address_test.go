package server

import (
	"net"
	"strings"
	"testing"
)

// TestCheckBindAddress checks that an address of another machine is not taken for a port in use.
func TestCheckBindAddress(t *testing.T) {
	for address, want := range map[string]string{
		"127.0.0.1": "", "0.0.0.0": "", "::": "",
		"198.51.100.77": "--bind-address: 198.51.100.77 is no address of this machine",
	} {
		if err := CheckBindAddress(net.ParseIP(address)); (err != nil) != (want != "") || err != nil && !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", address, err, want)
		}
	}
}
