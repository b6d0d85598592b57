package tenant

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/tenantry/tenantry/api/v1alpha1"
	"github.com/tenantry/tenantry/internal/tenant"
)

// patience is how long a step may wait for other controllers before the Tenant
// says so. Normally they are done within milliseconds, and a Tenant's first
// status is that it is ready.
const patience = time.Second

// Reconciler reconciles Tenants.
type Reconciler struct {
	// Client reads and writes the system space.
	Client client.Client
	// Children observes what the controller keeps in the spaces.
	Children cache.Cache
	// Spaces writes into the spaces.
	Spaces *Spaces
	// Quota is the default of Tenants that name none.
	Quota corev1.ResourceList
	// Recorder records events about Tenants.
	Recorder events.EventRecorder
}

// outcome is what a step or a whole reconcile came to. The zero value is done.
type outcome struct {
	// waiting says what for; the event that ends the wait triggers a reconcile.
	waiting string
}

func (o outcome) done() bool { return o.waiting == "" }

// Reconcile implements reconcile.Reconciler.
func (r *Reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	t := &v1alpha1.Tenant{}
	if err := r.Client.Get(ctx, request.NamespacedName, t); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if tenant.Name(t.Name) == tenant.System {
		return reconcile.Result{}, r.commit(ctx, t, readyStatus(t))
	}
	if t.DeletionTimestamp != nil {
		return r.delete(ctx, t)
	}
	result, err := r.ensure(ctx, t)
	switch {
	case err != nil:
		return reconcile.Result{}, r.failed(ctx, t, err)
	case result.done():
		return reconcile.Result{}, r.commit(ctx, t, readyStatus(t))
	case time.Since(t.CreationTimestamp.Time) < patience+time.Second:
		return reconcile.Result{RequeueAfter: patience}, nil
	default:
		return reconcile.Result{}, r.commit(ctx, t, progressingStatus(t, result.waiting))
	}
}

// ensure runs the steps that make a space.
func (r *Reconciler) ensure(ctx context.Context, t *v1alpha1.Tenant) (outcome, error) {
	for _, step := range []func(context.Context, *v1alpha1.Tenant) (outcome, error){
		r.ensureNamespacesAndAdmins,
		r.ensureQuota,
		r.awaitServiceAccount,
	} {
		if result, err := step(ctx, t); err != nil || !result.done() {
			return result, err
		}
	}
	return outcome{}, nil
}

// failed puts an error into the status and returns it for a retry.
func (r *Reconciler) failed(ctx context.Context, t *v1alpha1.Tenant, err error) error {
	if apierrors.IsConflict(err) {
		return err // a retry reads what it has missed
	}
	if commitErr := r.commit(ctx, t, failedStatus(t, err)); commitErr != nil {
		return commitErr
	}
	return err
}
