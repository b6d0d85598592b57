package network

import (
	"maps"
	"slices"

	networkingv1 "k8s.io/api/networking/v1"

	"github.com/tenantry/tenantry/internal/workloads/names"
)

// Own confines the peers of a policy that are a tenant's to namespaces of their owner: the host lets nobody write the
// labels of another owner, but whatever they like for the tenant.
func Own(policy *networkingv1.NetworkPolicy, owner names.Owner) {
	for i := range policy.Spec.Ingress {
		policy.Spec.Ingress[i].From = owned(policy.Spec.Ingress[i].From, owner)
	}
	for i := range policy.Spec.Egress {
		policy.Spec.Egress[i].To = owned(policy.Spec.Egress[i].To, owner)
	}
}

// owned returns the peers anew: several rules may share some.
func owned(peers []networkingv1.NetworkPolicyPeer, owner names.Owner) []networkingv1.NetworkPolicyPeer {
	peers, own := slices.Clone(peers), owner.Selector()
	for i := range peers {
		selector := peers[i].NamespaceSelector
		if selector == nil || selector.MatchLabels[names.TenantUIDLabel] == "" {
			continue
		}
		selector = selector.DeepCopy()
		maps.Copy(selector.MatchLabels, own.MatchLabels)
		selector.MatchExpressions = append(selector.MatchExpressions, own.MatchExpressions...)
		peers[i].NamespaceSelector = selector
	}
	return peers
}
