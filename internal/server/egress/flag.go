package egress

import (
	"fmt"
	"net"
	"strings"
)

// networks is a flag of networks. One with bits of an address is refused: it may be meant as that address, and be none.
type networks struct {
	of *[]net.IPNet
	// set is whether they are those of the command line, which come in place of the default.
	set bool
}

// Set implements pflag.Value.
func (n *networks) Set(text string) error {
	var all []net.IPNet
	for part := range strings.SplitSeq(text, ",") {
		if part = strings.TrimSpace(part); part == "" {
			continue
		}
		ip, network, err := net.ParseCIDR(part)
		if err != nil {
			return fmt.Errorf("%q is no network such as 10.0.0.0/8 or fd00::/8", part)
		}
		if !ip.Equal(network.IP) {
			return fmt.Errorf("%q has bits of an address in it: write %s for the network", part, network)
		}
		all = append(all, *network)
	}
	if n.set {
		all = append(*n.of, all...)
	}
	*n.of, n.set = all, true
	return nil
}

// String implements pflag.Value.
func (n *networks) String() string {
	if n.of == nil {
		return "[]"
	}
	var texts []string
	for _, network := range *n.of {
		texts = append(texts, network.String())
	}
	return "[" + strings.Join(texts, ",") + "]"
}

// Type implements pflag.Value.
func (n *networks) Type() string { return "ipNetSlice" }
