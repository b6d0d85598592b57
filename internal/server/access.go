package server

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/registry/generic"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	rbacvalidation "k8s.io/kubernetes/pkg/registry/rbac/validation"
	"k8s.io/kubernetes/plugin/pkg/auth/authorizer/rbac"

	"github.com/tenantry/tenantry/internal/server/authorization"
	"github.com/tenantry/tenantry/internal/server/registry/accesspolicy"
	"github.com/tenantry/tenantry/internal/tenant"
)

// authorize makes the server's authorizer tenant-aware.
func (c *config) authorize(server *genericapiserver.Config) {
	c.grants = authorization.NewGrants(c.inService)
	inSpace := rbac.New(c.rbac, c.rbac, c.rbac, c.rbac)
	server.Authorization.Authorizer = authorization.New(server.Authorization.Authorizer, inSpace, c.grants)
	server.RuleResolver = authorization.NewRuleResolver(server.RuleResolver, inSpace, c.grants)
}

// inService returns the UID of a tenant whose users may act in other spaces, and
// false for one that is unknown, suspended or being deleted.
func (c *config) inService(ctx context.Context, n tenant.Name) (types.UID, bool) {
	state, exists, err := c.tenants.Get(ctx, n)
	return state.UID, err == nil && exists && !state.Terminating && !state.Suspended
}

// newAccessPolicies returns the storage of TenantAccessPolicies.
func (c *config) newAccessPolicies(options generic.RESTOptionsGetter, a authorizer.Authorizer) (*accesspolicy.REST, error) {
	uidOf := func(ctx context.Context, n tenant.Name) (types.UID, error) {
		state, _, err := c.tenants.Get(ctx, n)
		return state.UID, err
	}
	escalation := accesspolicy.Escalation{
		Authorizer: a, RulesFor: rbacvalidation.NewDefaultRuleResolver(c.rbac, c.rbac, c.rbac, c.rbac).RulesFor,
	}
	policies, err := accesspolicy.NewREST(legacyscheme.Scheme, options, uidOf, escalation)
	if err != nil {
		return nil, fmt.Errorf("creating the storage of access policies: %w", err)
	}
	return policies, nil
}
