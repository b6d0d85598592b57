package dns

import (
	"cmp"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"

	"github.com/miekg/dns"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// endpointSlice is an EndpointSlice of a headless Service, in the order in which questions look for what it has: a
// tenant chooses how much there is, and one question must not look at all of it.
type endpointSlice struct {
	metav1.ObjectMeta
	service string
	// ports are those with names, by "_name._protocol", and protocols theirs, by "_protocol", in lower case.
	ports     map[string]int32
	protocols map[string]bool
	// ready are the endpoints that are ready, and all are those of a Service that publishes others as well.
	ready, all endpoints
}

// endpoint is one address of a headless Service.
type endpoint struct {
	address netip.Addr
	// label is its name below its Service's.
	label string
}

// endpoints are some of a slice, sorted.
type endpoints struct {
	// v4 and v6 are sorted by label, and byAddress are both.
	v4, v6, byAddress []endpoint
}

// sliceOf returns what is kept of a slice.
func sliceOf(o *discoveryv1.EndpointSlice) *endpointSlice {
	s := &endpointSlice{ObjectMeta: metaOf(o), service: o.Labels[discoveryv1.LabelServiceName], ports: map[string]int32{}, protocols: map[string]bool{}}
	for _, port := range o.Ports {
		if port.Name != nil && *port.Name != "" && port.Port != nil && port.Protocol != nil {
			protocol := "_" + strings.ToLower(string(*port.Protocol))
			s.protocols[protocol] = true
			s.ports["_"+*port.Name+"."+protocol] = *port.Port
		}
	}
	var ready, all []endpoint
	for i := range o.Endpoints {
		of := &o.Endpoints[i]
		for _, text := range canonical(of.Addresses) {
			e := endpoint{address: netip.MustParseAddr(text)}
			if e.label = dashed(e.address); of.Hostname != nil && *of.Hostname != "" {
				e.label = *of.Hostname
			}
			all = append(all, e)
			if of.Conditions.Ready == nil || *of.Conditions.Ready {
				ready = append(ready, e)
			}
		}
	}
	s.ready = sorted(ready)
	if s.all = s.ready; len(all) > len(ready) {
		s.all = sorted(all)
	}
	return s
}

func sorted(all []endpoint) endpoints {
	slices.SortFunc(all, func(a, b endpoint) int { return cmp.Or(cmp.Compare(a.label, b.label), a.address.Compare(b.address)) })
	var e endpoints
	for _, one := range all {
		if one.address.Is4() {
			e.v4 = append(e.v4, one)
		} else {
			e.v6 = append(e.v6, one)
		}
	}
	slices.SortStableFunc(all, func(a, b endpoint) int { return a.address.Compare(b.address) })
	e.byAddress = all
	return e
}

// of returns the endpoints that a Service has in a slice.
func (s *endpointSlice) of(service *corev1.Service) endpoints {
	if service.Spec.PublishNotReadyAddresses {
		return s.all
	}
	return s.ready
}

// some reports whether there is any.
func (e endpoints) some() bool { return len(e.byAddress) > 0 }

// family returns those that have a record of a type.
func (e endpoints) family(qtype uint16) []endpoint {
	switch qtype {
	case dns.TypeA:
		return e.v4
	case dns.TypeAAAA:
		return e.v6
	default:
		return nil
	}
}

// labelled returns those of a label, among some of one family.
func labelled(family []endpoint, label string) []endpoint {
	return those(family, func(e endpoint) int { return cmp.Compare(e.label, label) })
}

// at returns those of an address.
func (e endpoints) at(address netip.Addr) []endpoint {
	return those(e.byAddress, func(e endpoint) int { return e.address.Compare(address) })
}

// those returns what compares as equal, of what is sorted so.
func those(sorted []endpoint, compare func(endpoint) int) []endpoint {
	first, _ := slices.BinarySearchFunc(sorted, 0, func(e endpoint, _ int) int { return compare(e) })
	end := first
	for end < len(sorted) && compare(sorted[end]) == 0 {
		end++
	}
	return sorted[first:end]
}

// anyFirst calls each with all of them, beginning with any, until it returns false.
func anyFirst[T any](all []T, each func(T) bool) bool {
	if len(all) == 0 {
		return true
	}
	first := rand.IntN(len(all))
	for i := range all {
		if !each(all[(first+i)%len(all)]) {
			return false
		}
	}
	return true
}

// sliceAddresses are the addresses that a slice is found by.
func sliceAddresses(s *endpointSlice) []string {
	var all []string
	for _, e := range s.all.byAddress {
		all = append(all, e.address.String())
	}
	return slices.Compact(all) // sorted by address
}

// sliceNames are the names below a namespace that a slice is found by: its Service's, and what is below that.
func sliceNames(s *endpointSlice) []string {
	all := []string{belowKey(s.Namespace, s.service, "")}
	add := func(below string) { all = append(all, belowKey(s.Namespace, s.service, below)) }
	for _, family := range [][]endpoint{s.all.v4, s.all.v6} {
		for i, e := range family {
			if i == 0 || family[i-1].label != e.label {
				add(e.label)
			}
		}
	}
	for below := range s.ports {
		add(below)
	}
	for below := range s.protocols {
		add(below)
	}
	return all
}

func belowKey(namespace, service, below string) string {
	return namespace + "/" + service + "/" + below
}
