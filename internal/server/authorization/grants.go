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
	spacerbac "github.com/tenantry/tenantry/internal/spaces/rbac"
	"github.com/tenantry/tenantry/internal/tenant"
)

// Grants are the TenantAccessPolicies of all spaces. They decide only about users in the
// space of another tenant, and identify them with their tenant: a user of the space with
// the same name is another one.
type Grants struct {
	active func(ctx context.Context, n tenant.Name) (types.UID, bool)

	mu       sync.RWMutex
	policies *policies
}

// NewGrants returns an empty index of policies. active returns the UID of a tenant whose
// users may act, and false for one that is unknown, suspended or being deleted.
func NewGrants(active func(ctx context.Context, n tenant.Name) (types.UID, bool)) *Grants {
	return &Grants{active: active, policies: newPolicies()}
}

// Authorize decides about a request of a user of another tenant in space. It allows
// or has no opinion.
func (g *Grants) Authorize(ctx context.Context, userTenant, space tenant.Name, a authorizer.Attributes) (authorizer.Decision, string) {
	discovery := isDiscovery(a)
	if !discovery && !grantable(a) {
		return authorizer.DecisionNoOpinion, ""
	}
	for _, granted := range g.to(userTenant, space) {
		if granted.names(a.GetUser()) && (discovery || granted.allows(a)) && g.matches(ctx, userTenant, granted) {
			return authorizer.DecisionAllow, fmt.Sprintf("allowed by TenantAccessPolicy %q", granted.policy)
		}
	}
	return authorizer.DecisionNoOpinion, ""
}

// rulesFor returns the rules of a user of another tenant in a namespace of space, not many more
// than a review answers.
func (g *Grants) rulesFor(ctx context.Context, userTenant, space tenant.Name, u user.Info, namespace string) []authorizer.ResourceRuleInfo {
	var resources []authorizer.ResourceRuleInfo
	for rule := range g.granted(ctx, userTenant, space, u) {
		if len(resources) > spacerbac.MaxReviewedRules {
			break
		}
		if rule.holdsIn(namespace) {
			resources = append(resources, &authorizer.DefaultResourceRuleInfo{
				Verbs: rule.Verbs, APIGroups: rule.APIGroups, Resources: rule.Resources, ResourceNames: rule.ResourceNames,
			})
		}
	}
	return resources
}

// to returns the grants to users of a tenant in space, which must not be changed.
func (g *Grants) to(userTenant, space tenant.Name) map[string]*grant {
	g.mu.RLock()
	defer g.mu.RUnlock()
	return g.policies.grants[pair{userTenant, space}]
}

// matches reports whether a tenant is active, and the one that the policy named, not a
// later one of the same name.
func (g *Grants) matches(ctx context.Context, userTenant tenant.Name, granted *grant) bool {
	uid, ok := g.active(ctx, userTenant)
	return ok && granted.digest.Matches(uid)
}

func (g *Grants) isActive(ctx context.Context, userTenant tenant.Name) bool {
	_, ok := g.active(ctx, userTenant)
	return ok
}

// names reports whether the grant applies to a user of its tenant.
func (g *grant) names(u user.Info) bool {
	return slices.ContainsFunc(g.subjects, func(s v1alpha1.ForeignSubject) bool {
		if s.Kind == v1alpha1.SubjectGroup {
			return slices.Contains(u.GetGroups(), s.Name)
		}
		return s.Kind == v1alpha1.SubjectUser && u.GetName() == s.Name
	})
}

func (g *grant) allows(a authorizer.Attributes) bool {
	return slices.ContainsFunc(g.rules, func(rule Granted) bool {
		return rule.holdsIn(a.GetNamespace()) && rbac.RuleAllows(a, &rule.PolicyRule)
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

// Users with a grant in a space may also discover what the space serves, and review their
// own rights.
var (
	discoveryURLs   = []string{"/api", "/api/*", "/apis", "/apis/*", "/openapi", "/openapi/*", "/version", "/version/"}
	selfReviewRules = []authorizer.ResourceRuleInfo{
		&authorizer.DefaultResourceRuleInfo{
			Verbs: []string{"create"}, APIGroups: []string{authorizationv1.GroupName},
			Resources: []string{"selfsubjectaccessreviews", "selfsubjectrulesreviews"},
		},
		&authorizer.DefaultResourceRuleInfo{
			Verbs: []string{"create"}, APIGroups: []string{authenticationv1.GroupName}, Resources: []string{"selfsubjectreviews"},
		},
	}
)

func isDiscovery(a authorizer.Attributes) bool {
	if !a.IsResourceRequest() {
		return isSearch(a) || a.GetVerb() == "get" && hasPathPrefix(a.GetPath(), "/api", "/apis", "/openapi", "/version")
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
