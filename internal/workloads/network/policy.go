package network

import (
	"fmt"
	"net/netip"
	"slices"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tenantry/tenantry/internal/workloads/names"
)

const (
	// MaxPolicies is how many policies of a tenant a host's namespace has: each of them is work for all nodes.
	MaxPolicies = 200
	// maxEntries is how many peers, ports, exceptions and requirements of selectors a policy of the host has.
	maxEntries = 5000
	// maxBytes is how large its specification is at most, as a host stores it: labels and values may be long.
	maxBytes = 64 << 10
)

// Policy returns the policy of the host for one of a space. It lets the tenant's pods reach, and be reached by, no more
// than the tenant's policy does, and nothing that is other tenants' or the cluster's, whatever that says. An error says
// why there can be none. through are peers through which the outside comes: who lets in all of it lets in them.
func Policy(policy *networkingv1.NetworkPolicy, home names.Namespace, ranges Ranges, through ...networkingv1.NetworkPolicyPeer) (*networkingv1.NetworkPolicy, error) {
	host := &networkingv1.NetworkPolicy{
		ObjectMeta: home.Meta(names.Copy(policy.Name), policy),
		Spec:       networkingv1.NetworkPolicySpec{PodSelector: *PodSelector(&policy.Spec.PodSelector), PolicyTypes: typesOf(policy)},
	}
	for _, rule := range policy.Spec.Ingress {
		from := peers(rule.From, home, ranges)
		if len(rule.From) == 0 || slices.ContainsFunc(rule.From, isEverybody) {
			from = append(from, through...)
		}
		if len(from) > 0 {
			host.Spec.Ingress = append(host.Spec.Ingress, networkingv1.NetworkPolicyIngressRule{Ports: slices.Clone(rule.Ports), From: from})
		}
	}
	for _, rule := range policy.Spec.Egress {
		if to := peers(rule.To, home, ranges); len(to) > 0 {
			host.Spec.Egress = append(host.Spec.Egress, networkingv1.NetworkPolicyEgressRule{Ports: slices.Clone(rule.Ports), To: to})
		}
	}
	if n := entries(&host.Spec); n > maxEntries {
		return nil, fmt.Errorf("it has %d peers, ports, exceptions and requirements of selectors on the host cluster, and may have %d: make it smaller, "+
			"or divide it; until then it allows nothing", n, maxEntries)
	}
	if n := host.Spec.Size(); n > maxBytes {
		return nil, fmt.Errorf("it has %d bytes on the host cluster, and may have %d: make it smaller, or divide it; until then it allows nothing", n, maxBytes)
	}
	return host, nil
}

// typesOf returns the directions of a policy, as the API fills them in.
func typesOf(policy *networkingv1.NetworkPolicy) []networkingv1.PolicyType {
	if len(policy.Spec.PolicyTypes) > 0 {
		return slices.Clone(policy.Spec.PolicyTypes)
	}
	if len(policy.Spec.Egress) > 0 {
		return []networkingv1.PolicyType{networkingv1.PolicyTypeIngress, networkingv1.PolicyTypeEgress}
	}
	return []networkingv1.PolicyType{networkingv1.PolicyTypeIngress}
}

// peers returns those of a rule. None means everybody to a host: where nothing is left, there must be no rule.
func peers(of []networkingv1.NetworkPolicyPeer, home names.Namespace, ranges Ranges) []networkingv1.NetworkPolicyPeer {
	if len(of) == 0 {
		return append([]networkingv1.NetworkPolicyPeer{sameTenant(home)}, ranges.outside()...)
	}
	var confined []networkingv1.NetworkPolicyPeer
	for i := range of {
		if p, ok := peer(&of[i], home, ranges); ok {
			confined = append(confined, p)
		}
	}
	return confined
}

// peer returns a peer confined to the tenant and the outside, and whether anything is left.
func peer(of *networkingv1.NetworkPolicyPeer, home names.Namespace, ranges Ranges) (p networkingv1.NetworkPolicyPeer, ok bool) {
	switch {
	case of.IPBlock != nil:
		if of.PodSelector != nil || of.NamespaceSelector != nil {
			return p, false // the API has none of these
		}
		p.IPBlock = ranges.outsideOf(of.IPBlock)
		return p, p.IPBlock != nil
	case of.NamespaceSelector != nil:
		p.NamespaceSelector = namespaceSelector(of.NamespaceSelector, home)
	case of.PodSelector == nil:
		return p, false // says nothing, and the API has none of these
	}
	if of.PodSelector != nil {
		p.PodSelector = PodSelector(of.PodSelector)
	}
	return p, true
}

// isEverybody reports whether a peer is all addresses of a family.
func isEverybody(peer networkingv1.NetworkPolicyPeer) bool {
	if peer.IPBlock == nil || len(peer.IPBlock.Except) > 0 || peer.PodSelector != nil || peer.NamespaceSelector != nil {
		return false
	}
	of, err := netip.ParsePrefix(peer.IPBlock.CIDR)
	return err == nil && of.Bits() == 0
}

// sameTenant is the peer of all pods of the tenant.
func sameTenant(home names.Namespace) networkingv1.NetworkPolicyPeer {
	return networkingv1.NetworkPolicyPeer{NamespaceSelector: namespaceSelector(&metav1.LabelSelector{}, home)}
}

// entries returns how large a policy is for who enforces it.
func entries(spec *networkingv1.NetworkPolicySpec) int {
	n := sizeOf(&spec.PodSelector)
	count := func(ports []networkingv1.NetworkPolicyPort, peers []networkingv1.NetworkPolicyPeer) {
		n += len(ports)
		for i := range peers {
			n += 1 + sizeOf(peers[i].PodSelector) + sizeOf(peers[i].NamespaceSelector)
			if block := peers[i].IPBlock; block != nil {
				n += len(block.Except)
			}
		}
	}
	for i := range spec.Ingress {
		count(spec.Ingress[i].Ports, spec.Ingress[i].From)
	}
	for i := range spec.Egress {
		count(spec.Egress[i].Ports, spec.Egress[i].To)
	}
	return n
}

func sizeOf(s *metav1.LabelSelector) int {
	if s == nil {
		return 0
	}
	n := len(s.MatchLabels)
	for i := range s.MatchExpressions {
		n += 1 + len(s.MatchExpressions[i].Values)
	}
	return n
}
