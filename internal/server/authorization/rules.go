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
}

// NewRuleResolver returns a resolver that asks system in the system space and
// space in the space of the tenant in the context.
func NewRuleResolver(system, space authorizer.RuleResolver) authorizer.RuleResolver {
	return &ruleResolver{system: system, space: space}
}

// RulesFor implements authorizer.RuleResolver.
func (r *ruleResolver) RulesFor(ctx context.Context, u user.Info, namespace string) ([]authorizer.ResourceRuleInfo, []authorizer.NonResourceRuleInfo, bool, error) {
	n, err := tenant.From(ctx)
	if err != nil {
		return nil, nil, false, err
	}
	if n.IsSpace() {
		return r.space.RulesFor(ctx, u, namespace)
	}
	return r.system.RulesFor(ctx, u, namespace)
}
