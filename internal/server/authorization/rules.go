package authorization

import (
	"context"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/tenantry/tenantry/internal/tenant"
)

// ruleResolver answers SelfSubjectRulesReviews for the space they are asked in.
type ruleResolver struct {
	inside authorizer.RuleResolver
	grants *Grants
	abac   *ABAC
}

// NewRuleResolver returns a resolver that asks inside in the space of the context,
// and about users of other tenants grants and the lines of abac, which may be nil.
func NewRuleResolver(inside authorizer.RuleResolver, grants *Grants, abac *ABAC) authorizer.RuleResolver {
	return &ruleResolver{inside: inside, grants: grants, abac: abac}
}

// RulesFor implements authorizer.RuleResolver.
func (r *ruleResolver) RulesFor(ctx context.Context, u user.Info, namespace string) ([]authorizer.ResourceRuleInfo, []authorizer.NonResourceRuleInfo, bool, error) {
	own, n, foreign := tenant.Foreign(ctx)
	if !foreign {
		if _, err := tenant.From(ctx); err != nil {
			return nil, nil, false, err
		}
		return r.inside.RulesFor(ctx, u, namespace)
	}
	resources := r.grants.rulesFor(ctx, own, n, u, namespace)
	if r.abac != nil && r.grants.isInService(ctx, own) {
		resources = append(resources, r.abac.rulesForeign(ctx, own, n, u, namespace)...)
	}
	if len(resources) == 0 {
		return nil, nil, false, nil
	}
	return append(resources, orientationRules...), []authorizer.NonResourceRuleInfo{
		&authorizer.DefaultNonResourceRuleInfo{Verbs: []string{"get"}, NonResourceURLs: orientationURLs},
	}, false, nil
}
