package storage

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tenantry/tenantry/internal/tenant"
)

// removal says why an object of a space must not go yet.
type removal func(ctx context.Context, n tenant.Name, obj runtime.Object) error

// removal returns that of a resource. A definition of a space stays until etcd has none of its
// objects, whoever has taken out the finalizer by which upstream deletes them first: nobody
// could see or delete them any more, and the space could not end.
func (g *RESTOptionsGetter) removal(resource schema.GroupResource) removal {
	if resource != definitions {
		return func(context.Context, tenant.Name, runtime.Object) error { return nil }
	}
	return func(ctx context.Context, n tenant.Name, obj runtime.Object) error {
		if !n.IsSpace() {
			return nil
		}
		definition, err := meta.Accessor(obj)
		if err != nil {
			return err
		}
		has, err := g.Ranges.hasCustom(ctx, n, schema.ParseGroupResource(definition.GetName()))
		if err != nil {
			return apierrors.NewInternalError(fmt.Errorf("looking for objects of definition %q: %w", definition.GetName(), err))
		}
		if has {
			return apierrors.NewForbidden(definitions, definition.GetName(), errors.New(
				"the space has objects of it, which nobody could see or delete any more: delete them, and what their finalizers wait for, first"))
		}
		return nil
	}
}
