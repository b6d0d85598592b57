package audit

import (
	"slices"

	auditapi "k8s.io/apiserver/pkg/apis/audit"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/tenantry/tenantry/internal/tenant"
)

// Evaluator is upstream's evaluator of policies for all tenants.
type Evaluator struct {
	// Server has the policy of the server.
	Server audit.PolicyRuleEvaluator
	// OfUser returns the policy of the tenant of an authenticated user, nil if it has
	// none.
	OfUser func(tenant.Name) audit.PolicyRuleEvaluator
	// OfSpace is the same for a tenant that a URL names: its timing must not reveal
	// whether the tenant exists.
	OfSpace func(tenant.Name) audit.PolicyRuleEvaluator
}

var _ audit.PolicyRuleEvaluator = &Evaluator{}

// EvaluatePolicyRule implements upstream's PolicyRuleEvaluator.
func (e *Evaluator) EvaluatePolicyRule(attributes authorizer.Attributes) audit.RequestAuditConfig {
	userTenant, space, stays := tenantsOf(attributes.GetUser())
	var ofUser, ofSpace audit.PolicyRuleEvaluator
	if userTenant.IsSpace() {
		ofUser = e.OfUser(userTenant)
	}
	if stays && ofUser != nil {
		return ofUser.EvaluatePolicyRule(attributes)
	}
	if space.IsSpace() && space != userTenant {
		ofSpace = e.OfSpace(space)
	}
	config := e.Server.EvaluatePolicyRule(attributes)
	for _, policy := range []audit.PolicyRuleEvaluator{ofUser, ofSpace} {
		if policy != nil {
			config = both(config, policy.EvaluatePolicyRule(attributes))
		}
	}
	return config
}

// tenantsOf returns the tenant of a user, the tenant whose space the request names, if
// any, and whether the request stays in the space of its user.
func tenantsOf(u user.Info) (userTenant, space tenant.Name, stays bool) {
	if u == nil {
		return "", "", false
	}
	userTenant, err := tenant.OfUser(u)
	if err != nil {
		userTenant = ""
	}
	v, ok := u.(visitor)
	space, _ = v.in.Tenant()
	return userTenant, space, !ok || !v.impersonates && v.in == userTenant.Scope()
}

// both returns a configuration that logs what a or b logs.
func both(a, b audit.RequestAuditConfig) audit.RequestAuditConfig {
	switch {
	case a.Level == auditapi.LevelNone:
		return b
	case b.Level == auditapi.LevelNone:
		return a
	}
	omitted := slices.DeleteFunc(slices.Clone(a.OmitStages), func(s auditapi.Stage) bool { return !slices.Contains(b.OmitStages, s) })
	if a.Level.Less(b.Level) {
		a.Level = b.Level
	}
	return audit.RequestAuditConfig{Level: a.Level, OmitStages: omitted, OmitManagedFields: a.OmitManagedFields && b.OmitManagedFields}
}
