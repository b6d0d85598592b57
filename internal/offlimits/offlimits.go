package offlimits

import "net/netip"

// Networks are off limits whatever is configured.
var Networks = MustParse(
	// This machine.
	"127.0.0.0/8", "::1/128", "0.0.0.0/8", "::/128",
	// Links, with the metadata of most clouds, which have credentials.
	"169.254.0.0/16", "fe80::/10",
	// Metadata and agents of clouds elsewhere.
	"fd00:ec2::254/128", "fd00:ec2::23/128", // AWS, and EKS Pod Identity
	"fd20:ce::254/128",       // Google
	"fd00:c1::a9fe:a9fe/128", // Oracle
	"fd00:42::42/128",        // Scaleway
	"168.63.129.16/32",       // Azure, also settings and certificates of a machine
	"100.100.100.200/32",     // Alibaba
	"192.0.0.0/24",           // Oracle's 192.0.0.192, and else protocols' own (RFC 6890)
	// Everybody on a network.
	"224.0.0.0/4", "255.255.255.255/32", "ff00::/8",
	// Translated to IPv4 as each network likes (RFC 8215).
	"64:ff9b:1::/48",
)

// The networks in which an address of IPv6 embeds one of IPv4. ::ffff:0:0/96 is IPv4 itself for Go.
var (
	nat64      = netip.MustParsePrefix("64:ff9b::/96") // RFC 6052
	sixToFour  = netip.MustParsePrefix("2002::/16")    // RFC 3056
	compatible = netip.MustParsePrefix("::/96")        // RFC 4291
)

// Obsolete are networks in which addresses embed those of IPv4 that nobody needs any more. What decides by networks,
// and not by Embedded, leaves them out.
var Obsolete = []netip.Prefix{sixToFour, compatible}

// MustParse returns networks as they are written. It panics if one cannot be read.
func MustParse(all ...string) []netip.Prefix {
	parsed := make([]netip.Prefix, len(all))
	for i := range all {
		parsed[i] = netip.MustParsePrefix(all[i])
	}
	return parsed
}

// Embedded returns the address of IPv4 that an address stands for, or the address itself.
func Embedded(ip netip.Addr) netip.Addr {
	at := 12
	switch {
	case sixToFour.Contains(ip):
		at = 2
	case nat64.Contains(ip), compatible.Contains(ip) && ip != netip.IPv6Loopback():
	default:
		return ip.Unmap()
	}
	bytes := ip.As16()
	return netip.AddrFrom4([4]byte(bytes[at : at+4]))
}

// Translated returns the address that packets to an address come to. By NAT64 that is the one of IPv4 in it. Others
// that embed one lead to machines behind it.
func Translated(ip netip.Addr) netip.Addr {
	if nat64.Contains(ip) {
		return Embedded(ip)
	}
	return ip.Unmap()
}

// NAT64 returns the network by which NAT64 leads to one of IPv4, and whether there is one.
func NAT64(p netip.Prefix) (netip.Prefix, bool) {
	if !p.Addr().Is4() {
		return p, false
	}
	bytes, four := nat64.Addr().As16(), p.Addr().As4()
	copy(bytes[12:], four[:])
	return netip.PrefixFrom(netip.AddrFrom16(bytes), nat64.Bits()+p.Bits()), true
}
