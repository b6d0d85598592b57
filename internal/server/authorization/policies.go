package authorization

import (
	"maps"

	"github.com/tenantry/tenantry/api/v1alpha1"
	"github.com/tenantry/tenantry/internal/server/registry/accesspolicy"
	"github.com/tenantry/tenantry/internal/tenant"
)

// grant is what a TenantAccessPolicy grants to the users of one other tenant.
type grant struct {
	policy   string
	digest   accesspolicy.UIDDigest
	subjects []v1alpha1.ForeignSubject
	rules    []Granted
}

// pair is a tenant and the space in which its users have grants.
type pair struct{ userTenant, space tenant.Name }

// policyKey identifies a TenantAccessPolicy.
type policyKey struct {
	space tenant.Name
	name  string
}

// policies are all grants, indexed so that a decision does not depend on the number of other
// grants of a space.
type policies struct {
	grants   map[pair]map[string]*grant // by the name of the policy
	grantees map[policyKey][]tenant.Name
}

func newPolicies() *policies {
	return &policies{grants: make(map[pair]map[string]*grant), grantees: make(map[policyKey][]tenant.Name)}
}

func keyOf(stored *v1alpha1.TenantAccessPolicy) policyKey {
	return policyKey{tenant.Name(stored.Annotations[tenant.Annotation]), stored.Name}
}

// set adds a policy, or replaces the one of its name. Readers keep the old maps.
func (p *policies) set(stored *v1alpha1.TenantAccessPolicy) {
	key := keyOf(stored)
	p.remove(key)
	var rules []Granted
	for _, rule := range stored.Spec.Rules {
		rules = append(rules, Granted{rule.Namespaces, accesspolicy.PolicyRule(rule)})
	}
	for _, grantee := range stored.Status.Grantees {
		userTenant := tenant.Name(grantee.Tenant)
		g := &grant{policy: stored.Name, digest: accesspolicy.ParseUIDDigest(grantee.UIDDigest), rules: rules}
		for _, subject := range stored.Spec.Subjects {
			if tenant.Name(subject.Tenant) == userTenant {
				g.subjects = append(g.subjects, subject)
			}
		}
		changed := maps.Clone(p.grants[pair{userTenant, key.space}])
		if changed == nil {
			changed = make(map[string]*grant, 1)
		}
		changed[stored.Name] = g
		p.grants[pair{userTenant, key.space}] = changed
		p.grantees[key] = append(p.grantees[key], userTenant)
	}
}

func (p *policies) remove(key policyKey) {
	for _, userTenant := range p.grantees[key] {
		changed := maps.Clone(p.grants[pair{userTenant, key.space}])
		delete(changed, key.name)
		if len(changed) == 0 {
			delete(p.grants, pair{userTenant, key.space})
		} else {
			p.grants[pair{userTenant, key.space}] = changed
		}
	}
	delete(p.grantees, key)
}

// Set implements follow.Index.
func (g *Grants) Set(stored *v1alpha1.TenantAccessPolicy) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.policies.set(stored)
}

// Delete implements follow.Index.
func (g *Grants) Delete(stored *v1alpha1.TenantAccessPolicy) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.policies.remove(keyOf(stored))
}

// Replace implements follow.Index.
func (g *Grants) Replace(all []*v1alpha1.TenantAccessPolicy) {
	replaced := newPolicies()
	for _, stored := range all {
		replaced.set(stored)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.policies = replaced
}
