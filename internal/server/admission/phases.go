package admission

import (
	"k8s.io/apiserver/pkg/admission"
)

// All plugins of this package implement both phases of admission, whatever their
// instances do. A plugin whose instances only take part in one is wrapped, because upstream
// calls and measures each plugin in every phase that it implements.

func (p *flattenedPlugin) sample() admission.Interface { return p.instance }
func (p *perSpacePlugin) sample() admission.Interface  { return p.system }
func (p *onDemandPlugin) sample() admission.Interface  { return p.system }
func (p *unchangedPlugin) sample() admission.Interface { return p.instance }

type (
	mutator   struct{ admission.MutationInterface }
	validator struct{ admission.ValidationInterface }
)

// inItsPhases returns a plugin, after it was built, with the phases of its instances only.
func inItsPhases(p admission.Interface, _ string) admission.Interface {
	plugin, ok := p.(interface {
		admission.MutationInterface
		admission.ValidationInterface
		sample() admission.Interface
	})
	if !ok {
		return p
	}
	_, mutates := plugin.sample().(admission.MutationInterface)
	_, validates := plugin.sample().(admission.ValidationInterface)
	switch {
	case mutates && !validates:
		return mutator{plugin}
	case validates && !mutates:
		return validator{plugin}
	default:
		return p
	}
}
