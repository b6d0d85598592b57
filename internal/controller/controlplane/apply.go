package controlplane

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tenantry/tenantry/api/v1alpha1"
	"github.com/tenantry/tenantry/internal/controller/conditions"
)

// desired is an object as it is to be.
type desired interface {
	runtime.ApplyConfiguration
	GetKind() *string
	GetName() *string
}

// apply makes an object what it is to be, and fills in the rest of it. live is of its kind.
func (r *Reconciler) apply(ctx context.Context, cp *v1alpha1.ControlPlane, object desired, live client.Object) error {
	kind, name := *object.GetKind(), *object.GetName()
	if _, err := r.read(ctx, cp, kind, name, live); err != nil {
		return err
	}
	if err := r.Client.Apply(ctx, object, client.FieldOwner(FieldManager), client.ForceOwnership); err != nil {
		return fmt.Errorf("applying %s %q: %w", kind, name, err)
	}
	return nil
}

// read reports whether an object is there, and reads it. One that is not the ControlPlane's
// is a problem. The cache knows only what has the operator's label, so what it has not may
// be there.
func (r *Reconciler) read(ctx context.Context, cp *v1alpha1.ControlPlane, kind, name string, live client.Object) (bool, error) {
	key := types.NamespacedName{Namespace: cp.Namespace, Name: name}
	err := r.Client.Get(ctx, key, live)
	if apierrors.IsNotFound(err) {
		return r.readLive(ctx, cp, kind, name, live)
	}
	return checked(cp, kind, name, live, err)
}

// readLive is read without the cache.
func (r *Reconciler) readLive(ctx context.Context, cp *v1alpha1.ControlPlane, kind, name string, live client.Object) (bool, error) {
	return checked(cp, kind, name, live, r.Live.Get(ctx, types.NamespacedName{Namespace: cp.Namespace, Name: name}, live))
}

// checked returns what there is to say of an object that was read with an error or without.
func checked(cp *v1alpha1.ControlPlane, kind, name string, live client.Object, err error) (bool, error) {
	switch {
	case apierrors.IsNotFound(err):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("reading %s %q: %w", kind, name, err)
	case !isOf(cp, live):
		return true, conditions.Problemf(v1alpha1.ReasonNameTaken,
			"%s %q is there and is not of this ControlPlane: delete it, or create a ControlPlane of another name", kind, name)
	default:
		return true, nil
	}
}

// isOf reports whether an object was made for a ControlPlane, this one or an earlier one of
// its name.
func isOf(cp *v1alpha1.ControlPlane, object client.Object) bool {
	marks := object.GetLabels()
	return metav1.IsControlledBy(object, cp) || marks[managedLabel] == FieldManager && marks[ofLabel] == cp.Name
}
