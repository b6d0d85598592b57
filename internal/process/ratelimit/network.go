package ratelimit

import "net/netip"

// Network returns where a client is whose address is as in http.Request.RemoteAddr, for limits by client. Who has an
// address of IPv6 has all of its /64. It is the zero Prefix for what is no address.
func Network(remote string) netip.Prefix {
	from, _ := netip.ParseAddrPort(remote)
	address := from.Addr().Unmap()
	bits := address.BitLen()
	if address.Is6() {
		bits /= 2
	}
	prefix, _ := address.Prefix(bits)
	return prefix
}
