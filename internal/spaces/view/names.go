package view

import (
	"cmp"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"

	"github.com/tenantry/tenantry/internal/objects"
	"github.com/tenantry/tenantry/internal/tenant"
)

// spaceOf returns the space of a flattened object.
func spaceOf(obj any) (tenant.Name, error) {
	accessor, ok := objects.LastKnown[metav1.Object](obj)
	if !ok {
		return "", fmt.Errorf("%T has no name", obj)
	}
	return tenant.Flat(cmp.Or(accessor.GetNamespace(), accessor.GetName())).Space(), nil
}

// plain returns a copy of a flattened object under its own name. The original is shared.
func plain(obj any) any {
	if unknown, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		return cache.DeletedFinalStateUnknown{Key: unknown.Key, Obj: plain(unknown.Obj)}
	}
	accessor, ok := obj.(metav1.Object)
	if !ok {
		return obj
	}
	namespace := tenant.Flat(accessor.GetNamespace()).Plain()
	name := accessor.GetName()
	if namespace == "" {
		name = tenant.Flat(name).Plain()
	}
	if namespace == accessor.GetNamespace() && name == accessor.GetName() {
		return obj
	}
	copied := objects.ShallowCopy(obj.(runtime.Object)).(metav1.Object)
	copied.SetNamespace(namespace)
	copied.SetName(name)
	return copied
}
