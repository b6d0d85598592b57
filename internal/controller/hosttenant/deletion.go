package hosttenant

import (
	"context"
	"errors"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/tenantry/tenantry/api/v1alpha1"
	"github.com/tenantry/tenantry/internal/controller/conditions"
)

// releaseUnheld ends the work on a Tenant that never had a space, or has none any more.
func (*Reconciler) releaseUnheld(_ context.Context, w *work) error {
	w.released = !isHeld(w.tenant)
	return nil
}

// abandon finds the ControlPlane. If it is gone, nobody knows what is left of the space, so that
// somebody has to say that it does not matter. What is in a namespace that this operator does not look after may be
// there: that is for another operator to say.
func (r *Reconciler) abandon(ctx context.Context, w *work) error {
	err := r.find(ctx, w)
	p, is := errors.AsType[*conditions.Problem](err)
	if !is || p.Reason != v1alpha1.ReasonControlPlaneMissing && p.Reason != v1alpha1.ReasonNoControlPlane {
		return err
	}
	if w.ref != nil && !slices.Contains(r.Namespaces, w.ref.Namespace) {
		return err
	}
	if w.tenant.Annotations[v1alpha1.AbandonAnnotation] == "true" {
		abandoned(w).Record(r.Events, w.tenant)
		return r.release(ctx, w)
	}
	p.Message += fmt.Sprintf("; what is in the space is left in its volume or its etcd. Bring the ControlPlane back or, to delete the Tenant all the same, "+
		"run \"kubectl annotate --overwrite tenant %s %s=true\"", w.tenant.Name, v1alpha1.AbandonAnnotation)
	return p
}

// deleteMirror deletes the Tenant in the control plane and waits until it has gone, which it does
// when nothing is left of its space.
func (r *Reconciler) deleteMirror(ctx context.Context, w *work) error {
	found, err := w.space.Read(ctx, w.tenant.Name)
	switch {
	case apierrors.IsNotFound(err):
		w.space.pace.forget(w.tenant.Name)
		deleted(w).Record(r.Events, w.tenant)
		return nil
	case err != nil:
		return fmt.Errorf("reading the Tenant in ControlPlane %q: %w", w.ref, err)
	case !isOurs(w.tenant, found):
		left(w).Record(r.Events, w.tenant)
		return nil
	}
	w.mirror, w.settled = found, true
	if found.DeletionTimestamp == nil {
		w.space.pace.changed(w.tenant)
		if err := w.space.Delete(ctx, found); err != nil {
			return fmt.Errorf("deleting the Tenant in ControlPlane %q: %w", w.ref, err)
		}
	}
	return errWaiting
}

// errWaiting ends the steps: the event that ends the wait triggers a reconcile.
var errWaiting = errors.New("waiting")

// release lets the Tenant go, and the host deletes the Secret that it owns.
func (r *Reconciler) release(ctx context.Context, w *work) error {
	err := r.setFinalizers(ctx, w, slices.DeleteFunc(slices.Clone(w.tenant.Finalizers), func(f string) bool { return f == v1alpha1.HostFinalizer }))
	w.released = err == nil || apierrors.IsNotFound(err)
	if w.released {
		return nil
	}
	return err
}
