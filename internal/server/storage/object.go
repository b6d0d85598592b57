package storage

import (
	"maps"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"

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
	annotations := accessor.GetAnnotations()
	current, ok := annotations[tenant.Annotation]
	switch {
	case n == tenant.System && !ok, n != tenant.System && ok && current == string(n):
		return nil
	case n == tenant.System:
		// The map may be shared with an object of the cache.
		annotations = maps.Clone(annotations)
		delete(annotations, tenant.Annotation)
	default:
		annotations = maps.Clone(annotations)
		if annotations == nil {
			annotations = make(map[string]string, 1)
		}
		annotations[tenant.Annotation] = string(n)
	}
	accessor.SetAnnotations(annotations)
	return nil
}
