package spacepolicy

import (
	"context"
	"errors"
	"fmt"
	"io"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/admission"

	configv1alpha1 "github.com/tenantry/tenantry/api/config/v1alpha1"
	"github.com/tenantry/tenantry/api/v1alpha1"
	"github.com/tenantry/tenantry/internal/server/spaceapi"
	"github.com/tenantry/tenantry/internal/server/storage/cachememory"
	"github.com/tenantry/tenantry/internal/tenant"
	"github.com/tenantry/tenantry/internal/workloads/translate"
)

// PluginName is the name of the plugin in flags, metrics and messages.
const PluginName = "SpacePolicy"

// Rules are the rules of Tenants.
type Rules struct {
	// Placement returns the rules for the nodes of a tenant's pods, nil if its Tenant has
	// none.
	Placement func(tenant.Name) *v1alpha1.NodePlacement
	// DaemonSets returns the rules for a tenant's DaemonSets, nil if its Tenant has
	// none.
	DaemonSets func(tenant.Name) *v1alpha1.DaemonSets
	// Definition returns the definition of a custom resource in a space. If nil, what
	// definitions say is taken to cost nothing.
	Definition Definitions
	// CheckDefinitionChange returns an error if a definition of a space may not change so because of its objects. If nil,
	// it may.
	CheckDefinitionChange func(ctx context.Context, n tenant.Name, resource schema.GroupResource, change cachememory.DefinitionChange) error
	// UID returns the UID of a Tenant. If nil, a name stands for one tenant.
	UID func(tenant.Name) types.UID
	// LimitRanges returns those of a namespace. If nil, there are none.
	LimitRanges func(n tenant.Name, namespace string) ([]*corev1.LimitRange, error)
	// Namespaces, if set, says which namespace there is now.
	Namespaces Namespaces
	// Workloads returns what the pods of a tenant are held to, because they run on a host cluster. If
	// nil, pods do not run.
	Workloads func(tenant.Name) translate.Rules
	// Expressions are those that there are already. If nil, a space may have any number.
	Expressions Expressions
}

func (r Rules) lifeOf(n tenant.Name) life {
	if r.UID == nil {
		return life{name: n}
	}
	return life{n, r.UID(n)}
}

// Register makes the plugin known by its name. made gets it when it is made.
func Register(plugins *admission.Plugins, rules Rules, made func(*Plugin)) {
	plugins.Register(PluginName, func(config io.Reader) (admission.Interface, error) {
		p, err := New(config, rules)
		if err == nil {
			made(p)
		}
		return p, err
	})
}

// Plugin refuses objects in a space that are for the system space only, and in every space
// objects that would disturb a controller that serves all of them.
type Plugin struct {
	*admission.Handler
	config   *configv1alpha1.SpacePolicyConfiguration
	rules    Rules
	patterns seenPatterns
	// What policies and definitions of a space cost.
	policies    costly[PolicyCosts]
	definitions costly[DefinitionCosts]
}

var (
	_ admission.MutationInterface   = &Plugin{}
	_ admission.ValidationInterface = &Plugin{}
)

// New returns the plugin. config is a SpacePolicyConfiguration, or nil.
func New(config io.Reader, rules Rules) (*Plugin, error) {
	var content []byte
	if config != nil {
		var err error
		if content, err = io.ReadAll(config); err != nil {
			return nil, fmt.Errorf("reading the configuration of %s: %w", PluginName, err)
		}
	}
	parsed, err := configv1alpha1.ParseSpacePolicyConfiguration(content)
	if err != nil {
		return nil, err
	}
	return &Plugin{Handler: admission.NewHandler(admission.Create, admission.Update), config: parsed, rules: rules,
		policies: costly[PolicyCosts]{bounds: policyBounds, there: rules.Expressions.Policies}, definitions: costly[DefinitionCosts]{bounds: definitionBounds, there: rules.Expressions.Definitions}}, nil
}

// Admit refuses the object before any other plugin, or a tenant's webhook, sees it. Of Services it says what they have
// where nobody has said it, and of what the host has that it has it.
func (p *Plugin) Admit(ctx context.Context, a admission.Attributes, o admission.ObjectInterfaces) error {
	if n, err := tenant.SpaceFrom(ctx); err == nil && n != tenant.System {
		if err := checkRevisionUser(withTenant(ctx, a)); err != nil {
			return err
		}
		if err := p.rules.Definition.CheckBounds(a, n); err != nil {
			return err
		}
		p.prepareService(a, n)
		p.keepMarks(withTenant(ctx, a))
	}
	return p.Validate(ctx, a, o)
}

// Validate refuses the object after mutation.
func (p *Plugin) Validate(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	n, err := tenant.SpaceFrom(ctx)
	if err != nil {
		return admission.NewForbidden(a, err)
	}
	a = withTenant(ctx, a)
	if err := p.rules.Namespaces.check(ctx, a, n); err != nil {
		return err
	}
	if err := checkSyncerToken(a, n); err != nil {
		return err
	}
	if err := checkOwners(a); err != nil || n == tenant.System {
		return err
	}
	if a.GetOperation() == admission.Create && a.GetSubresource() == "" {
		if reason := spaceapi.Creation(a.GetResource().GroupResource()); reason != nil {
			return forbidden(a, reason.Error())
		}
	}
	if err := p.rules.checkLimits(a, n); err != nil {
		return err
	}
	for _, check := range []func(admission.Attributes) error{checkAuthorities, checkFinalize} {
		if err := check(a); err != nil {
			return err
		}
	}
	if err := p.checkPolicies(ctx, a, n); err != nil {
		return err
	}
	if err := p.checkDefinitions(ctx, a, n); err != nil {
		return err
	}
	if err := checkDefinition(a, p.patterns.in(p.rules.lifeOf(n))); err != nil {
		return err
	}
	if err := p.rules.checkDefinitionChange(ctx, a, n); err != nil {
		return err
	}
	if err := checkDevices(a); err != nil {
		return err
	}
	if err := p.checkWorkloads(a, n); err != nil {
		return err
	}
	if a.GetResource().GroupResource() == daemonSets && a.GetSubresource() == "" {
		return p.checkDaemonSet(ctx, a, n)
	}
	return p.checkPlacement(a, n)
}

func forbidden(a admission.Attributes, reason string) error {
	return admission.NewForbidden(a, errors.New(PluginName+": "+reason))
}
