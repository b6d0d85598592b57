package sync

import (
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/lru"

	"github.com/tenantry/tenantry/internal/workloads/network"
)

// maxGoverned is of how many policies it is kept what they govern: some 10 KiB each at most.
const maxGoverned = 2048

// governed keeps what policies of spaces govern, so that their selectors are not read again for each pod. It has those
// that were needed last.
type governed struct{ policies *lru.Cache }

type governedKey struct {
	namespace, name string
	uid             types.UID
}

// governedVersion is what one version of a policy governs. It is not changed.
type governedVersion struct {
	version  string
	governed *network.Governed
	// looked is whether the pods of its namespace have been looked at because of it.
	looked bool
}

func newGoverned() *governed { return &governed{lru.New(maxGoverned)} }

func keyOf(policy *networkingv1.NetworkPolicy) governedKey {
	return governedKey{policy.Namespace, policy.Name, policy.UID}
}

func (g *governed) version(policy *networkingv1.NetworkPolicy) governedVersion {
	if kept, ok := g.policies.Get(keyOf(policy)); ok && kept.(governedVersion).version == policy.ResourceVersion {
		return kept.(governedVersion)
	}
	now := governedVersion{version: policy.ResourceVersion, governed: network.GovernedBy(policy)}
	g.policies.Add(keyOf(policy), now)
	return now
}

// by returns what a policy governs.
func (g *governed) by(policy *networkingv1.NetworkPolicy) *network.Governed {
	return g.version(policy).governed
}

// looked notes that pods are looked at because of a policy, and reports whether they have been because of this version
// of it.
func (g *governed) looked(policy *networkingv1.NetworkPolicy) bool {
	now := g.version(policy)
	before := now.looked
	now.looked = true
	g.policies.Add(keyOf(policy), now)
	return before
}
