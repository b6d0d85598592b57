package authorization

import (
	"context"
	"errors"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/tenantry/tenantry/internal/server/spaceapi"
	"github.com/tenantry/tenantry/internal/spaces/rbac"
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

// RulesFor implements authorizer.RuleResolver. However many rules there are, it returns no more
// than are in the answer to one review.
func (r *ruleResolver) RulesFor(ctx context.Context, u user.Info, namespace string) ([]authorizer.ResourceRuleInfo, []authorizer.NonResourceRuleInfo, bool, error) {
	resources, paths, incomplete, err := r.all(ctx, u, namespace)
	review := rbac.NewReview(ctx)
	for _, rule := range paths {
		if !review.AddPaths(rule) {
			break
		}
	}
	for _, rule := range resources {
		if !review.AddResources(rule) {
			break
		}
	}
	resources = review.Resources
	if space, err := tenant.SpaceFrom(ctx); err == nil && space.IsSpace() {
		resources = usableRules(resources)
	}
	return resources, review.Paths, incomplete || review.Incomplete, errors.Join(err, review.Err())
}

// all returns the rules of the modes in the space of ctx, or those of users of other tenants.
func (r *ruleResolver) all(ctx context.Context, u user.Info, namespace string) ([]authorizer.ResourceRuleInfo, []authorizer.NonResourceRuleInfo, bool, error) {
	userTenant, n, foreign := tenant.Foreign(ctx)
	if !foreign {
		if _, err := tenant.ScopeFrom(ctx); err != nil {
			return nil, nil, false, err
		}
		return r.inside.RulesFor(ctx, u, namespace)
	}
	resources := r.grants.rulesFor(ctx, userTenant, n, u, namespace)
	if r.abac != nil && r.grants.isActive(ctx, userTenant) {
		resources = append(resources, r.abac.rulesForeign(ctx, userTenant, n, u, namespace)...)
	}
	if len(resources) == 0 {
		return nil, nil, false, nil
	}
	return append(slices.Clone(selfReviewRules), resources...), []authorizer.NonResourceRuleInfo{
		&authorizer.DefaultNonResourceRuleInfo{Verbs: []string{"get"}, NonResourceURLs: discoveryURLs},
	}, false, nil
}

// usableRules returns rules without the resources that cannot be used in a space.
func usableRules(rules []authorizer.ResourceRuleInfo) []authorizer.ResourceRuleInfo {
	var usable []authorizer.ResourceRuleInfo
	for _, rule := range rules {
		verbs, groups := alike(rule.GetVerbs()), sets.New(rule.GetAPIGroups()...)
		resources := slices.DeleteFunc(slices.Clone(rule.GetResources()), func(resource string) bool {
			return !isUsable(verbs, groups, resource)
		})
		if len(resources) > 0 {
			usable = append(usable, &authorizer.DefaultResourceRuleInfo{
				Verbs: rule.GetVerbs(), APIGroups: rule.GetAPIGroups(), Resources: resources, ResourceNames: rule.GetResourceNames(),
			})
		}
	}
	return usable
}

// alike returns one of those verbs that package spaceapi does not tell from each other: at most
// three, for as long a rule.
func alike(verbs []string) sets.Set[string] {
	kinds := sets.New[string]()
	for _, verb := range verbs {
		switch verb {
		case "get", "list", "watch", "*": // usable resources can be read
			kinds.Insert("get")
		case "create":
			kinds.Insert(verb)
		default:
			kinds.Insert("update")
		}
	}
	return kinds
}

// isUsable reports whether one of verbs can be used with a resource of one of groups
// in a space. "*" in a rule can be any group or resource. It asks about few groups, because in all
// groups but those of some built-in resources everything can be used.
func isUsable(verbs, groups sets.Set[string], resource string) bool {
	name, sub, _ := strings.Cut(resource, "/")
	for group := range groups {
		for verb := range verbs {
			if spaceapi.Use(verb, schema.GroupResource{Group: group, Resource: name}, sub) == nil {
				return true
			}
		}
	}
	return false
}
