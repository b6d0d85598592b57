package ratelimit

import "testing"

func TestNetwork(t *testing.T) {
	for remote, want := range map[string]string{
		"10.0.0.1:80": "10.0.0.1/32", "[::ffff:10.0.0.1]:80": "10.0.0.1/32", "[2001:db8::1]:80": "2001:db8::/64", "[2001:db8::1:2:3:4]:5": "2001:db8::/64",
		"@": "invalid Prefix", "": "invalid Prefix",
	} {
		if got := Network(remote).String(); got != want {
			t.Errorf("%q is of %s, want %s", remote, got, want)
		}
	}
}
