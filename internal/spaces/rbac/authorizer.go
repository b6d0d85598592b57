package rbac

import (
	"context"
	"errors"
	"fmt"

	rbacv1 "k8s.io/api/rbac/v1"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/kubernetes/pkg/registry/rbac/validation"
	"k8s.io/kubernetes/plugin/pkg/auth/authorizer/rbac"

	"github.com/tenantry/tenantry/internal/tenant"
)

// Authorizer is upstream's RBAC authorizer for every space. The objects of a space
// decide about its own users. About system users in a tenant's space, the
// ClusterRoles of the system space decide whose scope contains that space: the space's own
// user, or service account, of the same name is another user. The authorizer has no opinion
// about users of other tenants.
type Authorizer struct {
	// Index holds the RBAC objects.
	Index    *Index
	space    *rbac.RBACAuthorizer
	platform *rbac.RBACAuthorizer
	rules    Rules
}

// NewAuthorizer returns the authorizer over an index.
func NewAuthorizer(i *Index) *Authorizer {
	p := platform{i}
	return &Authorizer{Index: i,
		space:    rbac.New(i, RoleBindings{i}, i, ClusterRoleBindings{i}),
		platform: rbac.New(p, RoleBindings{p}, p, ClusterRoleBindings{p}),
		rules:    NewRules(i, nil)}
}

var errForeign = errors.New("the user is not one of this space")

// visits reports whether the user of ctx is a system user in tenants' spaces.
func visits(ctx context.Context) (bool, error) {
	if _, _, foreign := tenant.Foreign(ctx); foreign {
		return false, errForeign
	}
	in, err := tenant.ScopeFrom(ctx)
	if err != nil {
		return false, err
	}
	user, err := tenant.UserTenant(ctx)
	if err != nil {
		return false, err
	}
	return user == tenant.System && in != tenant.System.Scope(), nil
}

// either returns what decides in the space of ctx: the platform's for those who visit it.
func either[T any](ctx context.Context, space, platform T) (T, error) {
	visiting, err := visits(ctx)
	if visiting {
		return platform, err
	}
	return space, err
}

// Authorize implements authorizer.UnconditionalAuthorizer.
func (a *Authorizer) Authorize(ctx context.Context, attributes authorizer.Attributes) (authorizer.Decision, string, error) {
	source, err := either(ctx, a.space, a.platform)
	if err != nil {
		return authorizer.DecisionNoOpinion, "", err
	}
	return source.Authorize(withMember(ctx, attributes.GetUser()), attributes)
}

// RulesFor implements authorizer.RuleResolver.
func (a *Authorizer) RulesFor(ctx context.Context, u user.Info, namespace string) ([]authorizer.ResourceRuleInfo, []authorizer.NonResourceRuleInfo, bool, error) {
	review := NewReview(ctx)
	a.rules.VisitRulesFor(ctx, u, namespace, review.visit)
	return review.Resources, review.Paths, review.Incomplete, review.Err()
}

// Rules resolves the rules of a user, which escalation checks compare with.
type Rules struct {
	space, platform validation.AuthorizationRuleResolver
}

var _ validation.AuthorizationRuleResolver = Rules{}

// NewRules returns the rules of an index. For the users of a space, those of space have
// precedence, if it is not nil.
func NewRules(i *Index, space validation.AuthorizationRuleResolver) Rules {
	if space == nil {
		space = validation.NewDefaultRuleResolver(i, RoleBindings{i}, i, ClusterRoleBindings{i})
	}
	p := platform{i}
	return Rules{space: space, platform: validation.NewDefaultRuleResolver(p, RoleBindings{p}, p, ClusterRoleBindings{p})}
}

// GetRoleReferenceRules returns the rules of a role of the space of ctx.
func (r Rules) GetRoleReferenceRules(ctx context.Context, ref rbacv1.RoleRef, namespace string) ([]rbacv1.PolicyRule, error) {
	return r.space.GetRoleReferenceRules(ctx, ref, namespace)
}

// RulesFor returns the rules of a user in a namespace of the space of ctx.
func (r Rules) RulesFor(ctx context.Context, u user.Info, namespace string) ([]rbacv1.PolicyRule, error) {
	var rules []rbacv1.PolicyRule
	var errs []error
	r.VisitRulesFor(ctx, u, namespace, func(_ fmt.Stringer, rule *rbacv1.PolicyRule, err error) bool {
		if rule != nil {
			rules = append(rules, *rule)
		}
		errs = append(errs, err)
		return ctx.Err() == nil
	})
	return rules, utilerrors.NewAggregate(append(errs, ctx.Err()))
}

// VisitRulesFor calls visitor with the rules of a user in a namespace. Those of a role that
// several bindings of one kind grant come once.
func (r Rules) VisitRulesFor(ctx context.Context, u user.Info, namespace string, visitor func(source fmt.Stringer, rule *rbacv1.PolicyRule, err error) bool) {
	source, err := either(ctx, r.space, r.platform)
	if err != nil {
		visitor(nil, nil, err)
		return
	}
	source.VisitRulesFor(withMemberOnce(ctx, u), u, namespace, visitor)
}

// CountRights returns the number of single rights in rules, each a verb on a resource of a
// group or a path: a rule of 3 MB can have 10^20.
func CountRights(rules ...rbacv1.PolicyRule) float64 {
	rights := 0.0
	for _, rule := range rules {
		resources := float64(len(rule.APIGroups)) * float64(len(rule.Resources)) * float64(max(1, len(rule.ResourceNames)))
		rights += float64(len(rule.Verbs)) * (resources + float64(len(rule.NonResourceURLs)))
	}
	return rights
}

// Weight returns the number of strings in a rule, one at least: as many comparisons it takes to
// find out whether the rule covers a single right.
func Weight(rule *rbacv1.PolicyRule) float64 {
	return float64(1 + len(rule.Verbs) + len(rule.APIGroups) + len(rule.Resources) + len(rule.ResourceNames) + len(rule.NonResourceURLs))
}
