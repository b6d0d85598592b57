package crd

import (
	"fmt"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	"k8s.io/apimachinery/pkg/runtime"
)

// Pending gives a new definition the condition that it is not established. What
// serves a space's first definition takes a moment to start, and until then
// clients that wait for the condition would find none at all, which is an error
// to some of them.
func Pending(obj runtime.Object) error {
	definition, ok := obj.(*apiextensions.CustomResourceDefinition)
	if !ok {
		return fmt.Errorf("unexpected object %T", obj)
	}
	apiextensions.SetCRDCondition(definition, apiextensions.CustomResourceDefinitionCondition{
		Type:    apiextensions.Established,
		Status:  apiextensions.ConditionFalse,
		Reason:  "Pending",
		Message: "the space does not serve it yet",
	})
	return nil
}
