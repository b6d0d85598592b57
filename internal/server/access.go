package server

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/types"
	authzconfig "k8s.io/apiserver/pkg/apis/apiserver"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/registry/generic"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/egressselector"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	"k8s.io/kubernetes/pkg/kubeapiserver/authorizer/modes"
	kubeoptions "k8s.io/kubernetes/pkg/kubeapiserver/options"

	"github.com/tenantry/tenantry/internal/server/admission"
	"github.com/tenantry/tenantry/internal/server/authorization"
	"github.com/tenantry/tenantry/internal/server/registry/accesspolicy"
	spacerbac "github.com/tenantry/tenantry/internal/spaces/rbac"
	"github.com/tenantry/tenantry/internal/tenant"
)

// authorize makes the server's authorizer tenant-aware: the modes of the flags,
// behind the boundary.
func (c *config) authorize(ctx context.Context, options *kubeoptions.BuiltInAuthorizationOptions, server *genericapiserver.Config) error {
	upstream, err := options.ToAuthorizationConfig(c.views)
	if err != nil {
		return err
	}
	if server.EgressSelector != nil {
		if upstream.CustomDial, err = server.EgressSelector.Lookup(egressselector.ControlPlane.AsNetworkContext()); err != nil {
			return err
		}
	}
	inside, err := authorization.NewModes(ctx, authorization.ModesConfig{
		Upstream: upstream, RBAC: c.rights, Views: c.views, ServerID: server.APIServerID, TenantUID: c.tenantUID,
	})
	if err != nil {
		return err
	}
	c.grants = authorization.NewGrants(c.inService)
	server.Authorization.Authorizer = authorization.New(inside, c.grants, inside.ABAC())
	server.RuleResolver = authorization.NewRuleResolver(inside, c.grants, inside.ABAC())
	return nil
}

// validateNodes refuses authorization mode Node without what restricts nodes.
func validateNodes(authorization *kubeoptions.BuiltInAuthorizationOptions, plugins *kubeoptions.AdmissionOptions) []error {
	config, err := authorization.ToAuthorizationConfig(nil)
	if err != nil || config == nil {
		return nil // upstream says what is wrong
	}
	isNode := func(a authzconfig.AuthorizerConfiguration) bool { return string(a.Type) == modes.ModeNode }
	if !slices.ContainsFunc(config.AuthorizationConfiguration.Authorizers, isNode) {
		return nil
	}
	if err := admission.ValidateNodes(plugins); err != nil {
		return []error{err}
	}
	return nil
}

// inService returns the UID of a tenant whose users may act in other spaces, and
// false for one that is unknown, suspended or being deleted.
func (c *config) inService(ctx context.Context, n tenant.Name) (types.UID, bool) {
	state, exists, err := c.tenants.Get(ctx, n)
	return state.UID, err == nil && exists && !state.Terminating && !state.Suspended
}

// newAccessPolicies returns the storage of TenantAccessPolicies.
func (c *config) newAccessPolicies(options generic.RESTOptionsGetter, a authorizer.UnconditionalAuthorizer) (*accesspolicy.REST, error) {
	uidOf := func(ctx context.Context, n tenant.Name) (types.UID, error) {
		state, _, err := c.tenants.Get(ctx, n)
		return state.UID, err
	}
	escalation := accesspolicy.Escalation{Authorizer: a, RulesFor: spacerbac.NewRules(c.rbac, nil).RulesFor}
	policies, err := accesspolicy.NewREST(legacyscheme.Scheme, options, uidOf, escalation)
	if err != nil {
		return nil, fmt.Errorf("creating the storage of access policies: %w", err)
	}
	return policies, nil
}
