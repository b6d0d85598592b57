package sync

import (
	"sync"

	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tenantry/tenantry/internal/workloads/network"
)

// governed keeps what policies of spaces govern, for as long as they are there, so that their selectors are not read
// again for each pod.
type governed struct {
	mu     sync.Mutex
	byItem map[item]governedVersion
}

// governedVersion is what one version of a policy governs. It is not changed.
type governedVersion struct {
	uid      types.UID
	version  string
	governed *network.Governed
	// enqueued is whether the pods of its namespace have been looked at because of it.
	enqueued bool
}

func newGoverned() *governed { return &governed{byItem: map[item]governedVersion{}} }

// version returns what a policy governs. The lock is held.
func (g *governed) version(policy *networkingv1.NetworkPolicy) governedVersion {
	key := itemOf(policyItem, policy)
	now := g.byItem[key]
	if now.governed == nil || now.uid != policy.UID || now.version != policy.ResourceVersion {
		now = governedVersion{uid: policy.UID, version: policy.ResourceVersion, governed: network.GovernedBy(policy)}
		g.byItem[key] = now
	}
	return now
}

// of returns what a policy governs.
func (g *governed) of(policy *networkingv1.NetworkPolicy) *network.Governed {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.version(policy).governed
}

// noteEnqueued notes that pods are looked at because of a policy, and reports whether they have been because of this
// version of it.
func (g *governed) noteEnqueued(policy *networkingv1.NetworkPolicy) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := g.version(policy)
	before := now.enqueued
	now.enqueued = true
	g.byItem[itemOf(policyItem, policy)] = now
	return before
}

// forget forgets a policy that is gone.
func (g *governed) forget(i item) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.byItem, i)
}
