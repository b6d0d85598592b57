package storage

import (
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// itemsField is the field of the root by which upstream and its clients take a custom resource
// for a list.
const itemsField = "items"

func hasItems(obj runtime.Object) bool {
	custom, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return false
	}
	_, found := custom.Object[itemsField]
	return found
}

// checkItems refuses a custom resource that is taken for a list. One that is stored already can
// be changed and deleted.
func checkItems(obj runtime.Object, already bool) error {
	if already || !hasItems(obj) {
		return nil
	}
	custom := obj.(*unstructured.Unstructured)
	return errItems(custom.GroupVersionKind().GroupKind(), custom.GetName(),
		"by this field of its root an object is taken for a list; have it in spec, or under another name")
}

func errItems(kind schema.GroupKind, name, why string) error {
	return apierrors.NewInvalid(kind, name, field.ErrorList{field.Forbidden(field.NewPath(itemsField), why)})
}
