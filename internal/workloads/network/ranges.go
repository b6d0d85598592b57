package network

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"

	networkingv1 "k8s.io/api/networking/v1"

	"github.com/tenantry/tenantry/internal/offlimits"
)

// private are the ranges that are not the outside unless somebody says what is the cluster's: most clusters have
// their pods, Services and nodes in them, and nodes that join have addresses there before anybody knows of them.
var private = offlimits.MustParse("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "240.0.0.0/4", "fc00::/7")

// Private returns the ranges that are not the outside unless somebody says what is the cluster's. Servers on a host
// keep webhooks of tenants from them, but for those that are Services of the tenant.
func Private() []netip.Prefix { return slices.Clone(private) }

// never are ranges that are no outside for anybody.
var never = slices.Concat(offlimits.Networks, offlimits.Obsolete)

// everywhere are all addresses.
var everywhere = offlimits.MustParse("0.0.0.0/0", "::/0")

// Ranges are the ranges of addresses that are not the outside: no policy lets them in or out but by what
// pods, and not addresses, are.
type Ranges struct {
	inside []netip.Prefix
}

// NewRanges returns the ranges of a cluster. configured are those that somebody says are all of them; if there are
// none, all private ranges are. found are those of pods, Services and nodes that the cluster itself tells.
func NewRanges(configured, found []netip.Prefix) Ranges {
	if len(configured) == 0 {
		configured = private
	}
	inside := merge(slices.Concat(never, configured, found))
	for _, p := range slices.Clone(inside) { // NAT64 leads there, too
		if by, ok := offlimits.NAT64(p); ok {
			inside = append(inside, by)
		}
	}
	return Ranges{merge(inside)}
}

// Around returns the network that an address is taken to be in, where nothing tells it: 256 addresses of IPv4, a /64 of
// IPv6. Hosts give addresses to their pods in blocks.
func Around(address netip.Addr) netip.Prefix {
	address = address.Unmap()
	bits := 64
	if address.Is4() {
		bits = 24
	}
	return netip.PrefixFrom(address.WithZone(""), bits).Masked()
}

// Contains reports whether an address is not outside.
func (r Ranges) Contains(address netip.Addr) bool {
	address = address.Unmap()
	return slices.ContainsFunc(r.inside, func(p netip.Prefix) bool { return p.Contains(address) })
}

// ContainsAll reports whether no address of a range is outside.
func (r Ranges) ContainsAll(of netip.Prefix) bool {
	of = plain(of)
	return slices.ContainsFunc(r.inside, func(p netip.Prefix) bool { return contains(p, of) })
}

// String returns the ranges for people.
func (r Ranges) String() string { return fmt.Sprint(r.inside) }

// Equal reports whether two are the same.
func (r Ranges) Equal(other Ranges) bool { return slices.Equal(r.inside, other.inside) }

// merge returns the fewest ranges with the same addresses, in order. What embeds addresses of IPv4 in those of IPv6 is
// taken for them.
func merge(all []netip.Prefix) []netip.Prefix {
	all = slices.Clone(all)
	for i := range all {
		all[i] = plain(all[i])
	}
	slices.SortFunc(all, func(a, b netip.Prefix) int {
		return cmp.Or(a.Addr().Compare(b.Addr()), cmp.Compare(a.Bits(), b.Bits()))
	})
	var merged []netip.Prefix
	for _, next := range all {
		if n := len(merged); n > 0 && contains(merged[n-1], next) {
			continue
		}
		merged = append(merged, next)
		for n := len(merged); n > 1; n = len(merged) { // two halves are one
			a, b := merged[n-2], merged[n-1]
			if a.Bits() != b.Bits() || a.Bits() == 0 || a.Addr().BitLen() != b.Addr().BitLen() {
				break
			}
			whole := netip.PrefixFrom(a.Addr(), a.Bits()-1).Masked()
			if whole.Addr() != a.Addr() || !whole.Contains(b.Addr()) {
				break
			}
			merged = append(merged[:n-2], whole)
		}
	}
	return merged
}

// contains reports whether all addresses of a range are in another one.
func contains(outer, inner netip.Prefix) bool {
	return outer.Addr().BitLen() == inner.Addr().BitLen() && outer.Bits() <= inner.Bits() && outer.Contains(inner.Addr())
}

// plain returns a range without bits beyond its length, of IPv4 where it is one in the form of IPv6.
func plain(p netip.Prefix) netip.Prefix {
	if p.Addr().Is4In6() && p.Bits() >= 96 {
		return netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96).Masked()
	}
	return p.Masked()
}

// Parse reads ranges, or single addresses.
func Parse(all []string) ([]netip.Prefix, error) {
	var parsed []netip.Prefix
	for _, text := range all {
		if addr, err := netip.ParseAddr(text); err == nil && addr.Zone() == "" {
			addr = addr.Unmap()
			parsed = append(parsed, netip.PrefixFrom(addr, addr.BitLen()))
			continue
		}
		p, err := netip.ParsePrefix(text)
		if err != nil {
			return nil, fmt.Errorf("%q is neither a range of addresses, such as 10.0.0.0/8, nor an address", text)
		}
		parsed = append(parsed, plain(p))
	}
	return parsed, nil
}

// outside returns the peers of a policy that are all addresses outside of the cluster.
func (r Ranges) outside() []networkingv1.NetworkPolicyPeer {
	var peers []networkingv1.NetworkPolicyPeer
	for _, all := range everywhere {
		if block := r.block(all, nil); block != nil {
			peers = append(peers, networkingv1.NetworkPolicyPeer{IPBlock: block})
		}
	}
	return peers
}

// block returns a range without the cluster's, and without those of a tenant. It is nil if nothing is left.
func (r Ranges) block(of netip.Prefix, except []netip.Prefix) *networkingv1.IPBlock {
	block := &networkingv1.IPBlock{CIDR: of.String()}
	for _, p := range merge(slices.Concat(r.inside, except)) {
		if contains(p, of) {
			return nil
		}
		if contains(of, p) {
			block.Except = append(block.Except, p.String())
		}
	}
	return block
}

// outsideOf returns what of a tenant's range is outside of the cluster, nil if that is nothing. What cannot be
// read with certainty is nothing: different components of a host may read it differently.
func (r Ranges) outsideOf(block *networkingv1.IPBlock) *networkingv1.IPBlock {
	of, err := netip.ParsePrefix(block.CIDR)
	if err != nil || of.Addr().Is4In6() {
		return nil
	}
	var except []netip.Prefix
	for _, text := range block.Except {
		p, err := netip.ParsePrefix(text)
		if err != nil || p.Addr().Is4In6() {
			return nil
		}
		except = append(except, p.Masked())
	}
	return r.block(of.Masked(), except)
}
