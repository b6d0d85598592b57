package server

import (
	"context"
	"errors"
	"fmt"
	"slices"

	authzconfig "k8s.io/apiserver/pkg/apis/apiserver"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/server/egressselector"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/kubeapiserver/authorizer/modes"
	kubeoptions "k8s.io/kubernetes/pkg/kubeapiserver/options"
	"k8s.io/utils/clock"

	"github.com/tenantry/tenantry/internal/server/admission"
	"github.com/tenantry/tenantry/internal/server/admission/published"
	"github.com/tenantry/tenantry/internal/server/admission/spacepolicy"
	"github.com/tenantry/tenantry/internal/server/authentication"
	"github.com/tenantry/tenantry/internal/server/authorization"
	"github.com/tenantry/tenantry/internal/server/crd"
	"github.com/tenantry/tenantry/internal/server/egress"
	"github.com/tenantry/tenantry/internal/server/quota"
	"github.com/tenantry/tenantry/internal/server/storage"
	"github.com/tenantry/tenantry/internal/server/usage"
	spacerbac "github.com/tenantry/tenantry/internal/spaces/rbac"
	"github.com/tenantry/tenantry/internal/tenant"
)

// policy decides who may do what, and how much of it.
type policy struct {
	authenticator authenticator.Request
	authorizer    authorizer.Authorizer
	// resolver lists the rights of a user.
	resolver authorizer.RuleResolver

	// modes decide inside the boundary.
	modes     *authorization.Modes
	rbac      *spacerbac.Index
	rights    *spacerbac.Authorizer
	grants    *authorization.Grants
	published published.Rules
	egress    egress.Options
	quotas    *quota.Store
	ledger    *quota.Ledger
	// definitions are those by which custom resources are served.
	definitions *crd.Definitions
	// costs are those of the definitions of spaces.
	costs spacepolicy.Costs
	// admission tells which of its plugins are ready.
	admission *admission.Readiness
	usage     *usage.Meter
	// recorder is nil if the status of Tenants does not show what they use.
	recorder *usage.Recorder
}

// newPolicy makes authentication, authorization and admission of spaces, of the base's configuration.
func newPolicy(ctx context.Context, opts CompletedOptions, b *base, s *stores) (*policy, error) {
	reach, err := opts.reach(b, s)
	if err != nil {
		return nil, err
	}
	p := &policy{egress: reach, quotas: &quota.Store{}, definitions: crd.NewDefinitions()}
	if opts.tokenKeys != nil {
		go opts.tokenKeys.Run(ctx)
	}
	if p.authenticator, err = authentication.New(ctx, b.generic, authentication.Config{
		Options: opts.authentication, DefaultTenant: opts.defaultTenant, ServiceAccounts: serviceAccounts(opts, b),
		Since: s.credentialsSince, TenantUID: s.uid, OfDomain: s.lookup.OfDomain, DomainOf: s.lookup.DomainOf,
	}); err != nil {
		return nil, err
	}
	if p.rbac, err = spacerbac.NewIndex(b.views, s.lookup.Labels); err != nil {
		return nil, err
	}
	p.rights = spacerbac.NewAuthorizer(p.rbac)
	if err := p.authorize(ctx, opts.kube.Authorization, b, s); err != nil {
		return nil, fmt.Errorf("configuring authorization: %w", err)
	}
	p.published = published.Rules{
		Terminating: s.lookup.Terminating, Authorizer: p.authorizer,
		Shown: storage.IsService, Published: s.publishedIn, Publishable: opts.publishable,
	}
	if p.ledger, err = quota.New(quota.Config{
		Store: p.quotas, Informers: b.views, Loopback: b.loopback, Ranges: s.spaces.Ranges, Memory: s.spaces.CacheMemory, Settle: opts.QuotaSettle,
		Terminating: s.lookup.Terminating, Stop: b.generic.DrainedNotify(),
	}); err != nil {
		return nil, err
	}
	p.ledger.ServeMetrics(opts.Usage.Tenants)
	s.spaces.CacheMemory.ServeMetrics(opts.Usage.Tenants)
	p.meterUsage(opts.Usage, s)
	p.admission, err = admission.Apply(opts.kube.Admission, admission.Config{
		Quota:                 p.ledger,
		Informers:             b.views,
		Client:                b.flattened,
		Loopback:              b.loopback,
		Egress:                p.egress,
		Placement:             s.lookup.NodePlacement,
		DaemonSets:            s.lookup.DaemonSets,
		Workloads:             opts.workloads(s),
		Definition:            p.definitions.Definition,
		CheckDefinitionChange: s.spaces.CheckDefinitionChange,
		CacheMemory:           s.spaces.CacheMemory,
		DefinitionCosts: func(n tenant.Name) map[string]spacepolicy.DefinitionCosts {
			return p.costs.Of(p.definitions.Own(n))
		},
		Terminating: s.lookup.Terminating,
		TenantUID:   s.lookup.UID,
		Namespaces:  b.namespace,
		Published:   p.published,
	})
	return p, err
}

// meterUsage shows what tenants use in the metrics and in the status of Tenants.
func (p *policy) meterUsage(opts usage.Options, s *stores) {
	p.usage = usage.NewMeter(opts.Tenants, func(n tenant.Name) bool {
		_, exists := s.lookup.Usage(n)
		return exists
	}, clock.RealClock{})
	p.usage.Serve()
	if opts.Period == 0 {
		return
	}
	p.recorder = &usage.Recorder{
		Period: opts.Period, Known: s.lookup.Usage, Names: s.lookup.Names, Stored: p.ledger.Stored, Update: s.lookup.UpdateUsage,
	}
	usage.Stored{Limit: opts.Tenants, Each: s.lookup.EachUsage}.Serve()
}

// authorize makes the server's authorizer: the modes of the flags, behind the boundary.
func (p *policy) authorize(ctx context.Context, options *kubeoptions.BuiltInAuthorizationOptions, b *base, s *stores) error {
	upstream, err := options.ToAuthorizationConfig(b.views)
	if err != nil {
		return err
	}
	if b.generic.EgressSelector != nil {
		if upstream.CustomDial, err = b.generic.EgressSelector.Lookup(egressselector.ControlPlane.AsNetworkContext()); err != nil {
			return err
		}
	}
	inside, err := authorization.NewModes(ctx, authorization.ModesConfig{
		Upstream: upstream, RBAC: p.rights, Views: b.views, ServerID: b.generic.APIServerID, TenantUID: s.uid,
	})
	if err != nil {
		return err
	}
	p.modes = inside
	p.grants = authorization.NewGrants(s.inService)
	creators := authorization.Creators{Rights: inside, Users: s.users, Namespaces: b.views.Core().V1().Namespaces().Lister()}
	p.authorizer = authorization.New(creators, p.grants, inside.ABAC())
	p.resolver = authorization.NewRuleResolver(creators, p.grants, inside.ABAC())
	return nil
}

// checkModes refuses to authorize by nothing, which upstream takes for AlwaysAllow.
func checkModes(authorization *kubeoptions.BuiltInAuthorizationOptions) error {
	if len(authorization.Modes) == 0 && authorization.AuthorizationConfigurationFile == "" {
		return errors.New("--authorization-mode is empty: leave the flag out for Node,RBAC, or name the modes; with AlwaysAllow, everybody may do everything in their space")
	}
	if slices.Contains(authorization.Modes, modes.ModeAlwaysAllow) {
		klog.InfoS("Everybody may do everything in their space, by --authorization-mode=AlwaysAllow")
	}
	return nil
}

// validateNodes refuses authorization mode Node without what restricts nodes.
func validateNodes(authorization *kubeoptions.BuiltInAuthorizationOptions, plugins *kubeoptions.AdmissionOptions) error {
	config, err := authorization.ToAuthorizationConfig(nil)
	if err != nil || config == nil {
		return nil // upstream says what is wrong
	}
	isNode := func(a authzconfig.AuthorizerConfiguration) bool { return string(a.Type) == modes.ModeNode }
	if !slices.ContainsFunc(config.AuthorizationConfiguration.Authorizers, isNode) {
		return nil
	}
	return admission.ValidateNodes(plugins)
}

// serviceAccounts returns how tokens of tenants' service accounts are verified:
// by the same keys as those of the system space.
func serviceAccounts(opts CompletedOptions, b *base) authentication.ServiceAccounts {
	options := opts.kube.Authentication.ServiceAccounts
	return authentication.ServiceAccounts{
		Issuers:   options.Issuers,
		Keys:      options.ExternalPublicKeysGetter,
		Audiences: b.generic.Authentication.APIAudiences,
		Client:    b.flattened,
	}
}
