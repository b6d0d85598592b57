package spacepolicy

import (
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/validate/content"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/kubernetes/pkg/apis/apps"
)

// owners are owner references, and their path in an object.
type owners struct {
	at   *field.Path
	refs []metav1.OwnerReference
}

// ownersIn returns the owner references that the garbage collector follows from an
// object, and from objects that controllers make of its templates. Of a template's metadata
// they copy labels, annotations and finalizers, but for a claim everything.
func ownersIn(obj runtime.Object) []owners {
	var found []owners
	if accessor, err := meta.Accessor(obj); err == nil {
		found = append(found, owners{field.NewPath("metadata", "ownerReferences"), accessor.GetOwnerReferences()})
	}
	if set, ok := obj.(*apps.StatefulSet); ok {
		for i := range set.Spec.VolumeClaimTemplates {
			at := field.NewPath("spec", "volumeClaimTemplates").Index(i).Child("metadata", "ownerReferences")
			found = append(found, owners{at, set.Spec.VolumeClaimTemplates[i].OwnerReferences})
		}
	}
	return found
}

// checkOwners refuses owners that cannot be objects, because the garbage collector looks
// them up by path. An update may keep existing owners, or the deletion of such an object
// could not be finished.
func checkOwners(a admission.Attributes) error {
	if a.GetObject() == nil {
		return nil
	}
	known := sets.New[[3]string]()
	if old := a.GetOldObject(); old != nil {
		for _, o := range ownersIn(old) {
			for _, ref := range o.refs {
				known.Insert(pathOf(ref))
			}
		}
	}
	var problems field.ErrorList
	for _, o := range ownersIn(a.GetObject()) {
		for i, ref := range o.refs {
			if !known.Has(pathOf(ref)) {
				problems = append(problems, checkOwner(o.at.Index(i), ref)...)
			}
		}
	}
	if len(problems) == 0 {
		return nil
	}
	return apierrors.NewInvalid(a.GetKind().GroupKind(), a.GetName(), problems)
}

// pathOf returns what the path to an owner is made of.
func pathOf(ref metav1.OwnerReference) [3]string {
	return [3]string{ref.APIVersion, ref.Kind, ref.Name}
}

func checkOwner(at *field.Path, ref metav1.OwnerReference) field.ErrorList {
	var problems field.ErrorList
	check := func(name, value string, segments ...string) {
		for _, segment := range segments {
			if reasons := content.IsPathSegmentName(segment); len(reasons) > 0 {
				problems = append(problems, field.Invalid(at.Child(name), value,
					fmt.Sprintf("must be that of an object: %s", strings.Join(reasons, ", "))))
			}
		}
	}
	check("apiVersion", ref.APIVersion, strings.SplitN(ref.APIVersion, "/", 2)...)
	check("kind", ref.Kind, ref.Kind)
	check("name", ref.Name, ref.Name)
	return problems
}
