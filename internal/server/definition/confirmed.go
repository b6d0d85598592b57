package definition

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"
)

// Confirmed is a store of objects by which users give others rights.
type Confirmed struct {
	*genericregistry.Store
	// Confirm returns why the user of ctx must not store an object, which is valid: others cannot be compared with
	// what the user may do. old is nil for a new one.
	Confirm func(ctx context.Context, obj, old runtime.Object) error
}

// Create implements rest.Creater.
func (c Confirmed) Create(ctx context.Context, obj runtime.Object, validate rest.ValidateObjectFunc, options *metav1.CreateOptions) (runtime.Object, error) {
	return c.Store.Create(ctx, obj, c.creation(validate), options)
}

// Update implements rest.Updater. It serves patches and server-side apply too.
func (c Confirmed) Update(ctx context.Context, name string, info rest.UpdatedObjectInfo, create rest.ValidateObjectFunc,
	update rest.ValidateObjectUpdateFunc, forceAllowCreate bool, options *metav1.UpdateOptions) (runtime.Object, bool, error) {
	return c.Store.Update(ctx, name, info, c.creation(create), c.change(update), forceAllowCreate, options)
}

func (c Confirmed) creation(validate rest.ValidateObjectFunc) rest.ValidateObjectFunc {
	return func(ctx context.Context, obj runtime.Object) error {
		if err := c.Confirm(ctx, obj, nil); err != nil {
			return err
		}
		return validate(ctx, obj)
	}
}

func (c Confirmed) change(validate rest.ValidateObjectUpdateFunc) rest.ValidateObjectUpdateFunc {
	return func(ctx context.Context, obj, old runtime.Object) error {
		if err := c.Confirm(ctx, obj, old); err != nil {
			return err
		}
		return validate(ctx, obj, old)
	}
}
