package rbac

import (
	"context"
	"errors"
	"fmt"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/kubernetes/pkg/registry/rbac/validation"
	"k8s.io/kubernetes/plugin/pkg/auth/authorizer/rbac"

	"github.com/tenantry/tenantry/internal/tenant"
)

// Authorizer is upstream's RBAC authorizer for every space. In a tenant's space
// the space's own objects decide, and for system users also those ClusterRoles of
// the system space whose scope it is in. About users of other tenants it knows
// nothing, whatever their names.
type Authorizer struct {
	// Index is what it decides by.
	Index                     *Index
	space, platform           *rbac.RBACAuthorizer
	spaceRules, platformRules validation.AuthorizationRuleResolver
}

var _ validation.AuthorizationRuleResolver = Rules{}

// NewAuthorizer returns the authorizer over an index.
func NewAuthorizer(i *Index) *Authorizer {
	p := platform{i}
	return &Authorizer{
		Index: i,
		space: rbac.New(i, i, i, i), platform: rbac.New(p, p, p, p),
		spaceRules: validation.NewDefaultRuleResolver(i, i, i, i), platformRules: validation.NewDefaultRuleResolver(p, p, p, p),
	}
}

var errForeign = errors.New("the user is not one of this space")

// sources reports whose objects have something to say about the user of ctx.
func sources(ctx context.Context) (space, platform bool, err error) {
	if _, _, foreign := tenant.Foreign(ctx); foreign {
		return false, false, errForeign
	}
	n, err := tenant.From(ctx)
	if err != nil {
		return false, false, err
	}
	own, err := tenant.UserTenant(ctx)
	if err != nil && !errors.Is(err, tenant.ErrNoTenant) {
		return false, false, err
	}
	return n == tenant.System || n.IsSpace(), n != tenant.System && own == tenant.System, nil
}

// Authorize implements authorizer.Authorizer.
func (a *Authorizer) Authorize(ctx context.Context, attributes authorizer.Attributes) (authorizer.Decision, string, error) {
	space, platform, err := sources(ctx)
	if err != nil {
		return authorizer.DecisionNoOpinion, "", err
	}
	decision, reason := authorizer.DecisionNoOpinion, ""
	if space {
		decision, reason, err = a.space.Authorize(ctx, attributes)
	}
	if decision == authorizer.DecisionNoOpinion && err == nil && platform {
		var other string
		if decision, other, err = a.platform.Authorize(ctx, attributes); other != "" {
			reason = other
		}
	}
	return decision, reason, err
}

// RulesFor implements authorizer.RuleResolver.
func (a *Authorizer) RulesFor(ctx context.Context, u user.Info, namespace string) ([]authorizer.ResourceRuleInfo, []authorizer.NonResourceRuleInfo, bool, error) {
	space, platform, err := sources(ctx)
	if err != nil {
		return nil, nil, false, err
	}
	var resources []authorizer.ResourceRuleInfo
	var others []authorizer.NonResourceRuleInfo
	var failures []error
	for _, source := range []struct {
		asked bool
		rules *rbac.RBACAuthorizer
	}{{space, a.space}, {platform, a.platform}} {
		if source.asked {
			r, o, _, err := source.rules.RulesFor(ctx, u, namespace)
			resources, others, failures = append(resources, r...), append(others, o...), append(failures, err)
		}
	}
	return resources, others, false, errors.Join(failures...)
}

// Rules are what checks of escalation compare with: what a user has.
type Rules struct {
	*Authorizer
	// Space, if set, is asked for the rules of the space's own objects.
	Space validation.AuthorizationRuleResolver
}

// GetRoleReferenceRules returns the rules of a role of the space of ctx.
func (r Rules) GetRoleReferenceRules(ctx context.Context, ref rbacv1.RoleRef, namespace string) ([]rbacv1.PolicyRule, error) {
	return r.ofSpace().GetRoleReferenceRules(ctx, ref, namespace)
}

func (r Rules) ofSpace() validation.AuthorizationRuleResolver {
	if r.Space != nil {
		return r.Space
	}
	return r.spaceRules
}

// RulesFor returns the rules of a user in a namespace of the space of ctx.
func (r Rules) RulesFor(ctx context.Context, u user.Info, namespace string) ([]rbacv1.PolicyRule, error) {
	space, platform, err := sources(ctx)
	if err != nil {
		return nil, err
	}
	var rules []rbacv1.PolicyRule
	var failures []error
	if space {
		own, err := r.ofSpace().RulesFor(ctx, u, namespace)
		rules, failures = append(rules, own...), append(failures, err)
	}
	if platform {
		given, err := r.platformRules.RulesFor(ctx, u, namespace)
		rules, failures = append(rules, given...), append(failures, err)
	}
	return rules, errors.Join(failures...)
}

// VisitRulesFor calls visitor with the rules of a user in a namespace.
func (r Rules) VisitRulesFor(ctx context.Context, u user.Info, namespace string, visitor func(source fmt.Stringer, rule *rbacv1.PolicyRule, err error) bool) {
	space, platform, err := sources(ctx)
	if err != nil {
		visitor(nil, nil, err)
		return
	}
	ended := false
	tell := func(source fmt.Stringer, rule *rbacv1.PolicyRule, err error) bool {
		ended = !visitor(source, rule, err)
		return !ended
	}
	if space {
		r.ofSpace().VisitRulesFor(ctx, u, namespace, tell)
	}
	if platform && !ended {
		r.platformRules.VisitRulesFor(ctx, u, namespace, tell)
	}
}
