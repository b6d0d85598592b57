package sync

import (
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tenantry/tenantry/internal/process/keyed"
	"github.com/tenantry/tenantry/internal/workloads/network"
)

// governed keeps what policies of spaces govern, for as long as they are there, so that their selectors are not read
// again for each pod.
type governed struct {
	keyed.Values[item, governedVersion]
}

// governedVersion is what one version of a policy governs. It is not changed.
type governedVersion struct {
	uid      types.UID
	version  string
	governed *network.Governed
	// enqueued is whether the pods of its namespace have been looked at because of it.
	enqueued bool
}

// version returns what is known of a policy, and notes whether pods are looked at because of it.
func (g *governed) version(policy *networkingv1.NetworkPolicy, enqueued bool) (before governedVersion) {
	g.Change(itemOf(policyItem, policy), func(now governedVersion) governedVersion {
		if now.governed == nil || now.uid != policy.UID || now.version != policy.ResourceVersion {
			now = governedVersion{uid: policy.UID, version: policy.ResourceVersion, governed: network.GovernedBy(policy)}
		}
		before = now
		now.enqueued = now.enqueued || enqueued
		return now
	})
	return before
}

// of returns what a policy governs.
func (g *governed) of(policy *networkingv1.NetworkPolicy) *network.Governed {
	return g.version(policy, false).governed
}

// noteEnqueued notes that pods are looked at because of a policy, and reports whether they have been because of this
// version of it.
func (g *governed) noteEnqueued(policy *networkingv1.NetworkPolicy) bool {
	return g.version(policy, true).enqueued
}
