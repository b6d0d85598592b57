package authorization

import (
	"fmt"
	"maps"

	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/tenantry/tenantry/api/v1alpha1"
	"github.com/tenantry/tenantry/internal/server/registry/accesspolicy"
	"github.com/tenantry/tenantry/internal/tenant"
)

// policy is a TenantAccessPolicy as requests are compared with it.
type policy struct {
	name     string
	subjects []v1alpha1.ForeignSubject
	seals    map[tenant.Name]accesspolicy.Seal
	rules    []grantedRule
}

type grantedRule struct {
	namespaces []string
	rbacv1.PolicyRule
}

// Add implements cache.ReflectorStore.
func (g *Grants) Add(obj any) error {
	stored, ok := obj.(*v1alpha1.TenantAccessPolicy)
	if !ok {
		return fmt.Errorf("unexpected object %T", obj)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	set(g.policies, stored)
	return nil
}

// set adds a policy. Readers keep the old map of the space.
func set(policies map[tenant.Name]map[string]*policy, stored *v1alpha1.TenantAccessPolicy) {
	space := tenant.Name(stored.Annotations[tenant.Annotation])
	own := make(map[string]*policy, len(policies[space])+1)
	maps.Copy(own, policies[space])
	own[stored.Name] = newPolicy(stored)
	policies[space] = own
}

func newPolicy(stored *v1alpha1.TenantAccessPolicy) *policy {
	p := &policy{
		name: stored.Name, subjects: stored.Spec.Subjects,
		seals: make(map[tenant.Name]accesspolicy.Seal, len(stored.Status.Grantees)),
	}
	for _, grantee := range stored.Status.Grantees {
		p.seals[tenant.Name(grantee.Tenant)] = accesspolicy.ParseSeal(grantee.Seal)
	}
	for _, rule := range stored.Spec.Rules {
		p.rules = append(p.rules, grantedRule{namespaces: rule.Namespaces, PolicyRule: accesspolicy.PolicyRule(rule)})
	}
	return p
}

// Update implements cache.ReflectorStore.
func (g *Grants) Update(obj any) error { return g.Add(obj) }

// Delete implements cache.ReflectorStore.
func (g *Grants) Delete(obj any) error {
	stored, ok := obj.(*v1alpha1.TenantAccessPolicy)
	if !ok {
		return fmt.Errorf("unexpected object %T", obj)
	}
	space := tenant.Name(stored.Annotations[tenant.Annotation])
	g.mu.Lock()
	defer g.mu.Unlock()
	own := maps.Clone(g.policies[space])
	delete(own, stored.Name)
	if len(own) == 0 {
		delete(g.policies, space)
	} else {
		g.policies[space] = own
	}
	return nil
}

// Replace implements cache.ReflectorStore.
func (g *Grants) Replace(objs []any, _ string) error {
	policies := make(map[tenant.Name]map[string]*policy, len(objs))
	for _, obj := range objs {
		stored, ok := obj.(*v1alpha1.TenantAccessPolicy)
		if !ok {
			return fmt.Errorf("unexpected object %T", obj)
		}
		set(policies, stored)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.policies = policies
	return nil
}

// Resync implements cache.ReflectorStore.
func (*Grants) Resync() error { return nil }
