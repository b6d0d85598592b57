package authorization

import (
	"context"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/tenantry/tenantry/internal/tenant"
)

// ruleResolver answers SelfSubjectRulesReviews for the space they are asked in.
type ruleResolver struct {
	system authorizer.RuleResolver
	space  authorizer.RuleResolver
	grants *Grants
}

// NewRuleResolver returns a resolver that asks system in the system space and
// space in the space of the tenant in the context, and of users of other tenants
// grants alone.
func NewRuleResolver(system, space authorizer.RuleResolver, grants *Grants) authorizer.RuleResolver {
	return &ruleResolver{system: system, space: space, grants: grants}
}

// RulesFor implements authorizer.RuleResolver.
func (r *ruleResolver) RulesFor(ctx context.Context, u user.Info, namespace string) ([]authorizer.ResourceRuleInfo, []authorizer.NonResourceRuleInfo, bool, error) {
	if own, n, foreign := tenant.Foreign(ctx); foreign {
		resources, others := r.grants.RulesFor(ctx, own, n, u, namespace)
		return resources, others, false, nil
	}
	n, err := tenant.From(ctx)
	if err != nil {
		return nil, nil, false, err
	}
	if n.IsSpace() {
		return r.space.RulesFor(ctx, u, namespace)
	}
	return r.system.RulesFor(ctx, u, namespace)
}
