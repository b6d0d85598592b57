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
	// Own returns the policy of the tenant of an authenticated user, nil if it has
	// none.
	Own func(tenant.Name) audit.PolicyRuleEvaluator
	// Known is like Own, for what a URL names: the time that it takes must not tell
	// whether there is such a tenant.
	Known func(tenant.Name) audit.PolicyRuleEvaluator
}

var _ audit.PolicyRuleEvaluator = &Evaluator{}

// EvaluatePolicyRule implements upstream's PolicyRuleEvaluator.
func (e *Evaluator) EvaluatePolicyRule(attributes authorizer.Attributes) audit.RequestAuditConfig {
	own, space := tenantsOf(attributes.GetUser())
	var policy audit.PolicyRuleEvaluator
	if own.IsSpace() {
		policy = e.Own(own)
	}
	if space == own {
		if policy == nil {
			policy = e.Server
		}
		return policy.EvaluatePolicyRule(attributes)
	}
	config := e.Server.EvaluatePolicyRule(attributes)
	if policy != nil {
		config = both(config, policy.EvaluatePolicyRule(attributes))
	}
	if space.IsSpace() {
		if policy := e.Known(space); policy != nil {
			config = both(config, policy.EvaluatePolicyRule(attributes))
		}
	}
	return config
}

// tenantsOf returns the tenant of a user and the one whose space the request is
// about. Who has no tenant is in no space of its own.
func tenantsOf(u user.Info) (own, space tenant.Name) {
	if u == nil {
		return "", ""
	}
	own, err := tenant.OfUser(u)
	if err != nil {
		own = ""
	}
	if v, ok := u.(visitor); ok {
		return own, v.space
	}
	return own, own
}

// both returns what logs all that a or b logs.
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
