package dns

import (
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/miekg/dns"
	corev1 "k8s.io/api/core/v1"

	"github.com/tenantry/tenantry/internal/workloads/names"
)

// schemaVersion is that of the specification of Kubernetes' DNS.
const schemaVersion = "1.1.0"

// Priority and weight of records of services. The specification leaves them open.
const (
	srvPriority = 0
	srvWeight   = 100
)

// maxExtra is how many addresses of targets are in an answer beside its records.
const maxExtra = 20

// lookup is one look for a name of the domain, in the space of one tenant.
type lookup struct {
	host *directory
	of   tenantID
	// zone is the domain, and name what is asked for in it, as the client has written it.
	zone, name string
	qtype      uint16
	ttl        uint32
	// most is how many records are of use.
	most int
}

// answer is what there is of a name.
type answer struct {
	// exists is whether there is the name, if with records of other types alone.
	exists         bool
	records, extra []dns.RR
	// alias is the name that this one stands for, empty if it stands for none.
	alias string
	// cut is whether there is more than is of use.
	cut bool

	seen map[string]bool
}

// isNew reports whether something is there for the first time: an endpoint may be in two slices for a moment.
func (a *answer) isNew(what string) bool {
	if a.seen[what] {
		return false
	}
	if a.seen == nil {
		a.seen = map[string]bool{}
	}
	a.seen[what] = true
	return true
}

// answer looks the name up.
func (l lookup) answer() answer {
	labels := dns.SplitDomainName(strings.TrimSuffix(strings.ToLower(l.name), l.zone))
	n := len(labels)
	switch {
	case n == 0:
		return l.one(dns.TypeSOA, authority(l.zone, l.ttl))
	case n == 1 && labels[0] == "dns-version":
		return l.one(dns.TypeTXT, &dns.TXT{Txt: []string{schemaVersion}})
	case labels[n-1] == "svc":
		return l.inServices(labels[:n-1])
	case labels[n-1] == "pod":
		return l.inPods(labels[:n-1])
	default:
		return answer{}
	}
}

// one is the answer of a name with one record.
func (l lookup) one(of uint16, record dns.RR) answer {
	a := answer{exists: true}
	if l.qtype == of {
		*record.Header() = l.header(l.name, of)
		a.records = []dns.RR{record}
	}
	return a
}

// authority is the beginning of a zone. It says for how long, in seconds, it is known that there is nothing.
func authority(zone string, ttl uint32) *dns.SOA {
	return &dns.SOA{
		Hdr: dns.RR_Header{Name: zone, Rrtype: dns.TypeSOA, Class: dns.ClassINET, Ttl: ttl},
		Ns:  "ns.dns." + names.Domain + ".", Mbox: "hostmaster." + names.Domain + ".",
		Serial: 1, Refresh: 7200, Retry: 1800, Expire: 86400, Minttl: ttl,
	}
}

func (l lookup) header(name string, of uint16) dns.RR_Header {
	return dns.RR_Header{Name: name, Rrtype: of, Class: dns.ClassINET, Ttl: l.ttl}
}

// inServices looks for what is before svc: a namespace, a Service in it, and what is below that.
func (l lookup) inServices(labels []string) answer {
	n := len(labels)
	if n == 0 {
		return answer{exists: true}
	}
	var service *corev1.Service
	if n > 1 && labels[n-1] == corev1.NamespaceDefault && labels[n-2] == "kubernetes" {
		service = l.host.api(l.of)
	} else {
		home := l.host.home(l.of, labels[n-1])
		if home == "" || n == 1 {
			return answer{exists: home != ""}
		}
		service = l.host.service(home, labels[n-2])
	}
	if service == nil {
		return answer{}
	}
	below := labels[:n-2]
	switch {
	case service.Spec.Type == corev1.ServiceTypeExternalName:
		if len(below) > 0 {
			return answer{}
		}
		return answer{exists: true, alias: dns.Fqdn(service.Spec.ExternalName)}
	case service.Spec.ClusterIP == corev1.ClusterIPNone:
		return l.headless(service, below)
	default:
		return l.clusterIP(service, below)
	}
}

// clusterIP looks for a Service with addresses of its own, or for what is below it.
func (l lookup) clusterIP(service *corev1.Service, below []string) answer {
	var addresses []netip.Addr
	for _, text := range canonical(service.Spec.ClusterIPs) {
		addresses = append(addresses, netip.MustParseAddr(text))
	}
	switch len(below) {
	case 0:
		a := answer{exists: true}
		for _, address := range addresses {
			l.add(&a, address)
		}
		return a
	case 1:
		return answer{exists: slices.ContainsFunc(service.Spec.Ports, func(p corev1.ServicePort) bool { return p.Name != "" && isProtocol(below[0], p.Protocol) })}
	case 2:
		var a answer
		for _, port := range service.Spec.Ports {
			if port.Name == "" || !strings.HasPrefix(below[0], "_") || below[0][1:] != port.Name || !isProtocol(below[1], port.Protocol) {
				continue
			}
			a.exists = true
			l.addService(&a, l.above(2), port.Port, addresses)
		}
		return a
	default:
		return answer{}
	}
}

// headless looks for a Service that stands for its endpoints, or for what is below it. Without any that is ready, it is
// not there, as the specification says.
func (l lookup) headless(service *corev1.Service, below []string) answer {
	var a answer
	name := strings.Join(below, ".")
	anyFirst(l.host.below(service, name), func(slice *endpointSlice) bool {
		of := slice.of(service)
		switch {
		case name == "":
			a.exists = a.exists || of.some()
			return l.addAll(&a, of.family(l.qtype))
		case !strings.HasPrefix(name, "_"):
			v4, v6 := labelled(of.v4, name), labelled(of.v6, name)
			a.exists = a.exists || len(v4)+len(v6) > 0
			return l.addAll(&a, endpoints{v4: v4, v6: v6}.family(l.qtype))
		default:
			a.exists = a.exists || of.some()
			port, isPort := slice.ports[name]
			return !isPort || l.qtype != dns.TypeSRV || l.addPort(&a, of.byAddress, port)
		}
	})
	return a
}

// addAll adds endpoints. It returns false if there are more than are of use.
func (l lookup) addAll(a *answer, all []endpoint) bool {
	return anyFirst(all, func(e endpoint) bool {
		l.add(a, e.address)
		return !l.isCut(a)
	})
}

// addPort adds a port of endpoints. It returns false if there are more than are of use.
func (l lookup) addPort(a *answer, all []endpoint, port int32) bool {
	above := l.above(2)
	return anyFirst(all, func(e endpoint) bool {
		l.addService(a, e.label+"."+above, port, []netip.Addr{e.address})
		return !l.isCut(a)
	})
}

// isCut reports whether there is more than is of use, and takes that away.
func (l lookup) isCut(a *answer) bool {
	if a.cut = len(a.records) > l.most; a.cut {
		a.records = a.records[:l.most]
	}
	return a.cut
}

// isProtocol reports whether a label stands for a protocol.
func isProtocol(label string, protocol corev1.Protocol) bool {
	return strings.HasPrefix(label, "_") && strings.EqualFold(label[1:], string(protocol))
}

// above returns the name that is so many labels above the one that is asked for.
func (l lookup) above(labels int) string {
	return strings.ToLower(l.name[dns.Split(l.name)[labels]:])
}

// add adds an address, if it is of the family that is asked for, and is not there yet.
func (l lookup) add(a *answer, address netip.Addr) {
	if record := l.address(l.name, address); record.Header().Rrtype == l.qtype && a.isNew(address.String()) {
		a.records = append(a.records, record)
	}
}

func (l lookup) address(name string, address netip.Addr) dns.RR {
	if address.Is4() {
		return &dns.A{Hdr: l.header(name, dns.TypeA), A: address.AsSlice()}
	}
	return &dns.AAAA{Hdr: l.header(name, dns.TypeAAAA), AAAA: address.AsSlice()}
}

// addService adds a port of a target, if that is asked for, and the addresses of the target.
func (l lookup) addService(a *answer, target string, port int32, addresses []netip.Addr) {
	if l.qtype != dns.TypeSRV || !a.isNew(target+":"+strconv.Itoa(int(port))) {
		return
	}
	a.records = append(a.records, &dns.SRV{
		Hdr: l.header(l.name, dns.TypeSRV), Priority: srvPriority, Weight: srvWeight, Port: uint16(port), Target: target, // a port
	})
	for _, address := range addresses {
		if len(a.extra) < maxExtra {
			a.extra = append(a.extra, l.address(target, address))
		}
	}
}

// inPods looks for what is before pod: a namespace, and the address of a pod in it, with dashes. Others have no name:
// the specification would have all addresses there be.
func (l lookup) inPods(labels []string) answer {
	switch len(labels) {
	case 0:
		return answer{exists: true}
	case 1:
		return answer{exists: l.host.home(l.of, labels[0]) != ""}
	case 2:
		address, ok := undashed(labels[0])
		if !ok {
			return answer{}
		}
		there, ok := l.host.clientAt(address)
		if !ok || idOf(there) != l.of || labels[1] != there.Name && labels[1] != there.Host() {
			return answer{}
		}
		a := answer{exists: true}
		l.add(&a, address)
		return a
	default:
		return answer{}
	}
}

var dashes = strings.NewReplacer(".", "-", ":", "-")

// dashed returns an address as a label of a name.
func dashed(address netip.Addr) string {
	return dashes.Replace(address.Unmap().StringExpanded())
}

// undashed returns the address that a label stands for.
func undashed(label string) (netip.Addr, bool) {
	for _, separator := range []string{".", ":"} {
		if address, err := netip.ParseAddr(strings.ReplaceAll(label, "-", separator)); err == nil {
			return address.Unmap(), true
		}
	}
	return netip.Addr{}, false
}

// reversed returns the address that a name below arpa stands for.
func reversed(name string) (netip.Addr, bool) {
	labels := dns.SplitDomainName(strings.ToLower(name))
	n := len(labels)
	if n < 2 || labels[n-1] != "arpa" {
		return netip.Addr{}, false
	}
	family, parts := labels[n-2], labels[:n-2]
	parts = slices.Clone(parts)
	slices.Reverse(parts)
	text := ""
	switch {
	case family == "in-addr" && len(parts) == 4:
		text = strings.Join(parts, ".")
	case family == "ip6" && len(parts) == 32:
		for nibbles := range slices.Chunk(parts, 4) {
			text += ":" + strings.Join(nibbles, "")
		}
		text = text[1:]
	}
	address, err := netip.ParseAddr(text)
	return address.Unmap(), err == nil
}

// pointers are the records of an address.
func (l lookup) pointers(address netip.Addr) answer {
	all, cut := l.host.namesAt(l.of, address, l.most)
	a := answer{exists: len(all) > 0, cut: cut && l.qtype == dns.TypePTR}
	for _, name := range all {
		if l.qtype == dns.TypePTR {
			a.records = append(a.records, &dns.PTR{Hdr: l.header(l.name, dns.TypePTR), Ptr: name + names.Domain + "."})
		}
	}
	return a
}
