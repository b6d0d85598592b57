package spacepolicy

import (
	"slices"

	"k8s.io/apiserver/pkg/admission"
	"k8s.io/kubernetes/pkg/apis/core"
)

const notEmptied = `"kubernetes" in spec.finalizers of a namespace in a space is taken out by its controller alone, when the namespace is empty; ` +
	"see its conditions for what it waits for"

// checkFinalize refuses users who have a namespace go before it is empty. What stays would be there, rights
// included, for whoever creates a namespace of the name.
func checkFinalize(a admission.Attributes) error {
	is, ok := a.GetObject().(*core.Namespace)
	if !ok || a.GetOperation() != admission.Update {
		return nil
	}
	was, ok := a.GetOldObject().(*core.Namespace)
	if !ok || !slices.Contains(was.Spec.Finalizers, core.FinalizerKubernetes) || slices.Contains(is.Spec.Finalizers, core.FinalizerKubernetes) {
		return nil
	}
	return checkByPlatform(a, notEmptied)
}
