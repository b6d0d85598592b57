package authorization

import (
	"context"
	"fmt"
	"slices"
	"sync"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/kubernetes/plugin/pkg/auth/authorizer/rbac"

	"github.com/tenantry/tenantry/api/v1alpha1"
	"github.com/tenantry/tenantry/internal/server/registry/accesspolicy"
	"github.com/tenantry/tenantry/internal/tenant"
)

// Grants are the TenantAccessPolicies of all spaces. They are asked only about
// users who have left their tenant, and know those by tenant: a user of the
// space with the same name is another one.
type Grants struct {
	inService func(ctx context.Context, n tenant.Name) (types.UID, bool)

	mu       sync.RWMutex
	policies *policies
}

// NewGrants returns the index of policies; it is empty until something tells it
// of them. inService returns the UID of a tenant whose users may act, and false
// for one that is unknown, suspended or being deleted.
func NewGrants(inService func(ctx context.Context, n tenant.Name) (types.UID, bool)) *Grants {
	return &Grants{inService: inService, policies: newPolicies()}
}

// Authorize decides about a request of a user of tenant own in space. It allows
// or has no opinion.
func (g *Grants) Authorize(ctx context.Context, own, space tenant.Name, a authorizer.Attributes) (authorizer.Decision, string) {
	orientation := isOrientation(a)
	if !orientation && !grantable(a) {
		return authorizer.DecisionNoOpinion, ""
	}
	for _, granted := range g.to(own, space) {
		if granted.names(a.GetUser()) && (orientation || granted.allows(a)) && g.isMeant(ctx, own, granted) {
			return authorizer.DecisionAllow, fmt.Sprintf("allowed by TenantAccessPolicy %q", granted.policy)
		}
	}
	return authorizer.DecisionNoOpinion, ""
}

// rulesFor returns what a user of tenant own may do in a namespace of space.
func (g *Grants) rulesFor(ctx context.Context, own, space tenant.Name, u user.Info, namespace string) []authorizer.ResourceRuleInfo {
	var resources []authorizer.ResourceRuleInfo
	for _, granted := range g.to(own, space) {
		if !granted.names(u) || !g.isMeant(ctx, own, granted) {
			continue
		}
		for _, rule := range granted.rules {
			if rule.holdsIn(namespace) {
				resources = append(resources, &authorizer.DefaultResourceRuleInfo{
					Verbs: rule.Verbs, APIGroups: rule.APIGroups, Resources: rule.Resources, ResourceNames: rule.ResourceNames,
				})
			}
		}
	}
	return resources
}

// to returns what users of tenant own are granted in space. It must not be changed.
func (g *Grants) to(own, space tenant.Name) map[string]*grant {
	g.mu.RLock()
	defer g.mu.RUnlock()
	return g.policies.grants[pair{own, space}]
}

// isMeant reports whether the tenant is in service, and the one that the policy
// named, not a later one of the same name.
func (g *Grants) isMeant(ctx context.Context, own tenant.Name, granted *grant) bool {
	uid, ok := g.inService(ctx, own)
	return ok && granted.seal.Matches(uid)
}

func (g *Grants) isInService(ctx context.Context, own tenant.Name) bool {
	_, ok := g.inService(ctx, own)
	return ok
}

// names reports whether the grant is about a user of its tenant.
func (g *grant) names(u user.Info) bool {
	return slices.ContainsFunc(g.subjects, func(s v1alpha1.ForeignSubject) bool {
		if s.Kind == v1alpha1.SubjectGroup {
			return slices.Contains(u.GetGroups(), s.Name)
		}
		return s.Kind == v1alpha1.SubjectUser && u.GetName() == s.Name
	})
}

func (g *grant) allows(a authorizer.Attributes) bool {
	return slices.ContainsFunc(g.rules, func(rule grantedRule) bool {
		return rule.holdsIn(a.GetNamespace()) && rbac.RuleAllows(a, &rule.PolicyRule)
	})
}

// holdsIn reports whether a rule is about a namespace, or for an empty one about
// what is in none.
func (r *grantedRule) holdsIn(namespace string) bool {
	return slices.ContainsFunc(r.namespaces, func(n string) bool {
		return n == v1alpha1.AllNamespaces || n == namespace && namespace != ""
	})
}

// grantable reports whether a policy can allow a request at all.
func grantable(a authorizer.Attributes) bool {
	if !a.IsResourceRequest() {
		return false
	}
	resource := a.GetResource()
	if a.GetSubresource() != "" {
		resource += "/" + a.GetSubresource()
	}
	return accesspolicy.Grantable(a.GetVerb(), a.GetAPIGroup(), resource)
}

// Whoever is let into a space may also find its way there: what the space serves,
// and the questions about the own rights.
var (
	orientationURLs  = []string{"/api", "/api/*", "/apis", "/apis/*", "/openapi", "/openapi/*", "/version", "/version/"}
	orientationRules = []authorizer.ResourceRuleInfo{
		&authorizer.DefaultResourceRuleInfo{
			Verbs: []string{"create"}, APIGroups: []string{authorizationv1.GroupName},
			Resources: []string{"selfsubjectaccessreviews", "selfsubjectrulesreviews"},
		},
		&authorizer.DefaultResourceRuleInfo{
			Verbs: []string{"create"}, APIGroups: []string{authenticationv1.GroupName}, Resources: []string{"selfsubjectreviews"},
		},
	}
)

func isOrientation(a authorizer.Attributes) bool {
	if !a.IsResourceRequest() {
		return a.GetVerb() == "get" && hasPathPrefix(a.GetPath(), "/api", "/apis", "/openapi", "/version")
	}
	if a.GetVerb() != "create" || a.GetSubresource() != "" {
		return false
	}
	switch a.GetAPIGroup() {
	case authorizationv1.GroupName:
		return a.GetResource() == "selfsubjectaccessreviews" || a.GetResource() == "selfsubjectrulesreviews"
	case authenticationv1.GroupName:
		return a.GetResource() == "selfsubjectreviews"
	default:
		return false
	}
}
