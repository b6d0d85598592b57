package crd

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/warning"

	"github.com/tenantry/tenantry/api/v1alpha1"
	"github.com/tenantry/tenantry/internal/tenant"
)

// Prepare completes definitions, see storage.Preparation.
//
// A new one in a space gets the condition that it is not established: what serves a
// space's first definition takes a moment to start, and until then clients that wait
// for the condition would find none at all, which is an error to some of them.
//
// One of the system space that is published gets, and keeps when it is published no
// more, the marks by which it is known that spaces may have objects of it.
func (s *Servers) Prepare(ctx context.Context, n tenant.Name, before runtime.Object) func(after runtime.Object) error {
	old, _ := before.(*apiextensions.CustomResourceDefinition)
	isNew, marked := old == nil, old != nil && isMarked(old)
	var served apiextensions.CustomResourceDefinitionStatus
	if old != nil {
		served = *old.Status.DeepCopy()
	}
	return func(after runtime.Object) error {
		definition, ok := after.(*apiextensions.CustomResourceDefinition)
		switch {
		case !ok:
			return fmt.Errorf("unexpected object %T", after)
		case n == tenant.System && isNew && definition.Spec.Group == v1alpha1.GroupVersion.Group:
			return apierrors.NewForbidden(definitions.GroupResource(), definition.Name,
				fmt.Errorf("spec.group: %q is served here already, by the control plane itself: apply this definition to the cluster that is to run the operator, "+
					"with the kubeconfig of that cluster", definition.Spec.Group))
		case n == tenant.System && (marked || tenant.IsPublished(definition.Annotations)):
			mark(definition)
		case n.IsSpace() && isNew:
			apiextensions.SetCRDCondition(definition, pending)
			if group := definition.Spec.Group; s.Ranges.IsBuiltIn(group) {
				return apierrors.NewForbidden(definitions.GroupResource(), definition.Name,
					fmt.Errorf("spec.group: %q is a group that every space has, whose resources cannot be defined: choose another one", group))
			}
			if err := s.mayDefine(ctx, n, definition); err != nil {
				return err
			}
			if s.index.shares(definition.Name, false) {
				warning.AddWarning(ctx, "", ownDefinition)
			}
		case n.IsSpace() && !tenant.ByPlatform(ctx):
			keepServed(definition, served)
		}
		return nil
	}
}

// keepServed keeps what the status says of how the definition is served, which is the server's to
// say: upstream does not delete the objects of a definition that was never established, and lets the
// scope of one be changed.
func keepServed(definition *apiextensions.CustomResourceDefinition, was apiextensions.CustomResourceDefinitionStatus) {
	definition.Status.AcceptedNames = was.AcceptedNames
	old := &apiextensions.CustomResourceDefinition{Status: was}
	for _, kind := range []apiextensions.CustomResourceDefinitionConditionType{apiextensions.Established, apiextensions.NamesAccepted} {
		condition := apiextensions.FindCRDCondition(old, kind)
		if apiextensions.IsCRDConditionEquivalent(condition, apiextensions.FindCRDCondition(definition, kind)) {
			continue
		}
		apiextensions.RemoveCRDCondition(definition, kind)
		if condition != nil {
			definition.Status.Conditions = append(definition.Status.Conditions, *condition)
		}
	}
}

// ownDefinition is a warning to those who install something and do not know that the
// platform has it already.
const ownDefinition = "this definition takes the place of the one that the platform publishes to every space, " +
	"whose changes this space does not get any more; when this one is deleted, the published one is back"

var pending = apiextensions.CustomResourceDefinitionCondition{
	Type:    apiextensions.Established,
	Status:  apiextensions.ConditionFalse,
	Reason:  "Pending",
	Message: "the space does not serve it yet",
}

func isMarked(definition *apiextensions.CustomResourceDefinition) bool {
	_, ok := definition.Labels[tenant.PublishedDefinitionLabel]
	return ok
}

// mark marks a definition that is or was published. The finalizer goes when no space
// has objects of it, once it is being deleted.
func mark(definition *apiextensions.CustomResourceDefinition) {
	if !isMarked(definition) {
		definition.Labels = maps.Clone(definition.Labels) // it may be another object's
		metav1.SetMetaDataLabel(&definition.ObjectMeta, tenant.PublishedDefinitionLabel, tenant.PublishedCopy)
	}
	if definition.DeletionTimestamp == nil && !slices.Contains(definition.Finalizers, tenant.PublishedDefinitionFinalizer) {
		definition.Finalizers = append(slices.Clone(definition.Finalizers), tenant.PublishedDefinitionFinalizer)
	}
}
