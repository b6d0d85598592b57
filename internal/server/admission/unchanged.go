package admission

import (
	"context"

	"k8s.io/apiserver/pkg/admission"
	"k8s.io/kubernetes/plugin/pkg/admission/nodedeclaredfeatures"
	"k8s.io/kubernetes/plugin/pkg/admission/podresize"

	"github.com/tenantry/tenantry/internal/tenant"
)

// unchangedPlugin is a plugin that reads no object of a space.
type unchangedPlugin struct {
	plugin
	instance admission.Interface
}

// ValidateInitialization builds the plugin.
func (p *unchangedPlugin) ValidateInitialization() error {
	s, err := p.flatConfig()
	if err != nil {
		return err
	}
	p.instance, err = p.build(p.config, p.initializer(s))
	return err
}

func (p *unchangedPlugin) Handles(operation admission.Operation) bool {
	return p.instance.Handles(operation)
}

func (p *unchangedPlugin) Admit(ctx context.Context, a admission.Attributes, o admission.ObjectInterfaces) error {
	return mutate(ctx, p.instance, a, o)
}

func (p *unchangedPlugin) Validate(ctx context.Context, a admission.Attributes, o admission.ObjectInterfaces) error {
	if p.isHosts(ctx) {
		return nil
	}
	return validate(ctx, p.instance, a, o)
}

// isHosts reports whether a plugin asks what the node of a pod has that runs on a host cluster. The system space shows
// nothing of that, and the host asks for itself.
func (p *unchangedPlugin) isHosts(ctx context.Context) bool {
	if p.shared.Workloads == nil || p.name != podresize.PluginName && p.name != nodedeclaredfeatures.PluginName {
		return false
	}
	n, err := tenant.SpaceFrom(ctx)
	return err == nil && n.IsSpace()
}

// mutate calls instance if it mutates.
func mutate(ctx context.Context, instance admission.Interface, a admission.Attributes, o admission.ObjectInterfaces) error {
	if mutator, ok := instance.(admission.MutationInterface); ok && instance.Handles(a.GetOperation()) {
		return mutator.Admit(ctx, a, o)
	}
	return nil
}

// validate calls instance if it validates.
func validate(ctx context.Context, instance admission.Interface, a admission.Attributes, o admission.ObjectInterfaces) error {
	if validator, ok := instance.(admission.ValidationInterface); ok && instance.Handles(a.GetOperation()) {
		return validator.Validate(ctx, a, o)
	}
	return nil
}
