package storage

import (
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/tenantry/tenantry/internal/objects"
	"github.com/tenantry/tenantry/internal/tenant"
)

// tenantOf returns the space of a stored object.
func tenantOf(obj runtime.Object) (tenant.Name, error) {
	accessor, err := meta.Accessor(obj)
	if err != nil {
		return "", err
	}
	if name, ok := accessor.GetAnnotations()[tenant.Annotation]; ok {
		return tenant.Name(name), nil
	}
	return tenant.System, nil
}

// setTenant makes n the space of an object about to be stored. It overwrites what the
// client has sent as the annotation.
func setTenant(obj runtime.Object, n tenant.Name) error {
	accessor, err := meta.Accessor(obj)
	if err != nil {
		return err
	}
	accessor.SetSelfLink("") // shown by the encoder, never stored
	if n == tenant.System {
		n = "" // its objects have no annotation
	}
	accessor.SetAnnotations(objects.WithKey(accessor.GetAnnotations(), tenant.Annotation, string(n)))
	return nil
}
