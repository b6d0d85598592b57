package admission

import (
	"context"

	"k8s.io/apiserver/pkg/admission"
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
	return validate(ctx, p.instance, a, o)
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
