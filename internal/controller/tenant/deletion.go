package tenant

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/tenantry/tenantry/api/v1alpha1"
	"github.com/tenantry/tenantry/internal/tenant"
)

const (
	// A space that is being emptied is looked at when one of its watched
	// namespaces goes and, because not all that it waits for is watched, at
	// growing intervals between these.
	minDeletionPoll = 250 * time.Millisecond
	maxDeletionPoll = 10 * time.Second
	// quiet is how long a deletion goes on without reporting progress.
	quiet = 2 * time.Second
	// rounds is how often one reconcile looks at what is left; normally four do.
	rounds = 10
)

// remaining is the number of keys that etcd holds of a space, by resource.
type remaining map[schema.GroupResource]int64

func (l remaining) keys() (sum int64) {
	for _, count := range l {
		sum += count
	}
	return sum
}

// delete empties a space, records the receipt, and then lets its Tenant go. New
// objects are refused by the server from the moment the Tenant has a deletion
// timestamp. It asks the server whether it would finalize and does something about
// what that reports to be left, until nothing is.
func (r *Reconciler) delete(ctx context.Context, t *v1alpha1.Tenant) (reconcile.Result, error) {
	if !slices.Contains(t.Finalizers, v1alpha1.SpaceFinalizer) {
		return reconcile.Result{}, nil
	}
	for range rounds {
		left, err := r.finalize(ctx, t, client.DryRunAll)
		if err == nil && len(left) == 0 {
			if err = r.receipt(ctx, t); err == nil {
				left, err = r.finalize(ctx, t)
			}
		}
		if err != nil {
			return reconcile.Result{}, r.deletionFailed(ctx, t, err)
		}
		if len(left) == 0 {
			return reconcile.Result{}, nil
		}
		if t.Status.Deletion == nil { // the count at the beginning goes into the receipt
			if err := r.commit(ctx, t, deleting("deleting "+describe(left)), counted(left.keys())); err != nil {
				return reconcile.Result{}, err
			}
			counted(left.keys())(&t.Status, t.Generation)
		}
		result, err := r.empty(ctx, tenant.Name(t.Name), left)
		if err != nil {
			return reconcile.Result{}, r.deletionFailed(ctx, t, err)
		}
		if !result.done() {
			return r.awaitDeletion(ctx, t, left, result)
		}
	}
	return reconcile.Result{RequeueAfter: minDeletionPoll}, nil
}

// finalize asks the server to verify that etcd holds no key of the tenant and to
// remove the finalizer, and returns what etcd holds otherwise.
func (r *Reconciler) finalize(ctx context.Context, t *v1alpha1.Tenant, options ...client.SubResourceUpdateOption) (remaining, error) {
	finalized := t.DeepCopy()
	finalized.ResourceVersion = "" // the UID tells this tenant from its successor
	finalized.Finalizers = slices.DeleteFunc(finalized.Finalizers, func(f string) bool { return f == v1alpha1.SpaceFinalizer })
	err := r.Client.SubResource("finalize").Update(ctx, finalized, options...)
	if left := keysLeft(err); len(left) > 0 {
		return left, nil
	}
	return nil, wrap(client.IgnoreNotFound(err), "finalizing tenant %q", t.Name)
}

// keysLeft reads what a refusal to finalize names as left.
func keysLeft(err error) remaining {
	var status *apierrors.StatusError
	if !errors.As(err, &status) || status.ErrStatus.Details == nil {
		return nil
	}
	left := make(remaining)
	for _, cause := range status.ErrStatus.Details.Causes {
		if cause.Type != v1alpha1.CauseKeysLeft {
			continue
		}
		if count, err := strconv.ParseInt(cause.Message, 10, 64); err == nil {
			left[schema.ParseGroupResource(cause.Field)] = count
		}
	}
	return left
}

// receipt records that a space is empty, while there still is a Tenant to record
// it of. Unlike other events it is not left to a recorder, which may lose it.
func (r *Reconciler) receipt(ctx context.Context, t *v1alpha1.Tenant) error {
	keys := int64(0)
	if t.Status.Deletion != nil {
		keys = t.Status.Deletion.Keys
	}
	took := time.Since(t.DeletionTimestamp.Time).Round(time.Second)
	log.FromContext(ctx).Info("Space emptied and verified", "uid", t.UID, "keys", keys, "left", 0, "took", took)
	event := &eventsv1.Event{
		ObjectMeta:          metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: t.Name + "." + string(t.UID)},
		EventTime:           metav1.NowMicro(),
		ReportingController: controllerName,
		ReportingInstance:   controllerName,
		Type:                corev1.EventTypeNormal,
		Reason:              "SpaceDeleted",
		Action:              "Finalize",
		Note:                fmt.Sprintf("the space was emptied in %s and verified: of %d keys, etcd holds 0", took, keys),
		Regarding: corev1.ObjectReference{
			APIVersion: v1alpha1.GroupVersion.String(), Kind: "Tenant", Name: t.Name, UID: t.UID,
		},
	}
	return wrap(client.IgnoreAlreadyExists(r.Client.Create(ctx, event)), "recording the receipt of tenant %q", t.Name)
}

// awaitDeletion reports what a deletion waits for, unless it is quick, and looks
// again later.
func (r *Reconciler) awaitDeletion(ctx context.Context, t *v1alpha1.Tenant, left remaining, result outcome) (reconcile.Result, error) {
	age := time.Since(t.DeletionTimestamp.Time)
	if age > quiet {
		message := fmt.Sprintf("waiting for %s; etcd still holds %s", result.waiting, describe(left))
		if err := r.commit(ctx, t, deleting(message), counted(left.keys())); err != nil {
			return reconcile.Result{}, err
		}
	}
	return reconcile.Result{RequeueAfter: min(max(age/4, minDeletionPoll), maxDeletionPoll)}, nil
}

func (r *Reconciler) deletionFailed(ctx context.Context, t *v1alpha1.Tenant, err error) error {
	if commitErr := r.commit(ctx, t, deleting("retrying after an error: "+err.Error())); commitErr != nil {
		return errors.Join(err, commitErr)
	}
	return err
}
