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

// mayGo returns why an object must not go yet. A definition of a space stays until etcd has none of its
// objects, whoever has taken out the finalizer by which upstream deletes them first: nobody
// could see or delete them any more, and the space could not end.
func (s *Space) mayGo(ctx context.Context, n tenant.Name, obj runtime.Object) error {
	if s.resource != definitions || !n.IsSpace() {
		return nil
	}
	definition, err := meta.Accessor(obj)
	if err != nil {
		return err
	}
	has, err := s.options.Ranges.hasCustom(ctx, n, schema.ParseGroupResource(definition.GetName()))
	if err != nil {
		return apierrors.NewInternalError(fmt.Errorf("looking for objects of definition %q: %w", definition.GetName(), err))
	}
	if has {
		return apierrors.NewForbidden(definitions, definition.GetName(), errors.New(
			"the space has objects of it, which nobody could see or delete any more: delete them, and what their finalizers wait for, first"))
	}
	return nil
}
