package authorization

import (
	"context"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/tenantry/tenantry/internal/server/spaceapi"
	"github.com/tenantry/tenantry/internal/tenant"
)

// ruleResolver answers SelfSubjectRulesReviews for the space of the request.
type ruleResolver struct {
	inside authorizer.RuleResolver
	grants *Grants
	abac   *ABAC
}

// NewRuleResolver returns a resolver of the rules of inside in the space of the context
// and, for users of other tenants, of grants and the lines of abac, which may be nil.
func NewRuleResolver(inside authorizer.RuleResolver, grants *Grants, abac *ABAC) authorizer.RuleResolver {
	return &ruleResolver{inside: inside, grants: grants, abac: abac}
}

// RulesFor implements authorizer.RuleResolver.
func (r *ruleResolver) RulesFor(ctx context.Context, u user.Info, namespace string) ([]authorizer.ResourceRuleInfo, []authorizer.NonResourceRuleInfo, bool, error) {
	userTenant, n, foreign := tenant.Foreign(ctx)
	if !foreign {
		in, err := tenant.ScopeFrom(ctx)
		if err != nil {
			return nil, nil, false, err
		}
		resources, paths, incomplete, err := r.inside.RulesFor(ctx, u, namespace)
		if _, of := in.Tenant(); of {
			resources = usableRules(resources)
		}
		return resources, paths, incomplete, err
	}
	resources := r.grants.rulesFor(ctx, userTenant, n, u, namespace)
	if r.abac != nil && r.grants.isActive(ctx, userTenant) {
		resources = append(resources, r.abac.rulesForeign(ctx, userTenant, n, u, namespace)...)
	}
	if len(resources) == 0 {
		return nil, nil, false, nil
	}
	return append(resources, selfReviewRules...), []authorizer.NonResourceRuleInfo{
		&authorizer.DefaultNonResourceRuleInfo{Verbs: []string{"get"}, NonResourceURLs: discoveryURLs},
	}, false, nil
}

// usableRules returns rules without the resources that cannot be used in a space.
func usableRules(rules []authorizer.ResourceRuleInfo) []authorizer.ResourceRuleInfo {
	var usable []authorizer.ResourceRuleInfo
	for _, rule := range rules {
		resources := slices.DeleteFunc(slices.Clone(rule.GetResources()), func(resource string) bool {
			return !isUsable(rule.GetVerbs(), rule.GetAPIGroups(), resource)
		})
		if len(resources) > 0 {
			usable = append(usable, &authorizer.DefaultResourceRuleInfo{
				Verbs: rule.GetVerbs(), APIGroups: rule.GetAPIGroups(), Resources: resources, ResourceNames: rule.GetResourceNames(),
			})
		}
	}
	return usable
}

// isUsable reports whether one of verbs can be used with a resource of one of groups
// in a space. "*" in a rule can be any verb, group or resource.
func isUsable(verbs, groups []string, resource string) bool {
	name, sub, _ := strings.Cut(resource, "/")
	return slices.ContainsFunc(groups, func(group string) bool {
		return slices.ContainsFunc(verbs, func(verb string) bool {
			if verb == "*" {
				verb = "get" // usable resources can be read
			}
			return spaceapi.Use(verb, schema.GroupResource{Group: group, Resource: name}, sub) == nil
		})
	})
}
