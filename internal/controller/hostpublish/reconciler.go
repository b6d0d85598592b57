package hostpublish

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/tenantry/tenantry/api/v1alpha1"
	"github.com/tenantry/tenantry/internal/controller/conditions"
)

const (
	// fieldManager owns what this controller writes on the host.
	fieldManager = "tenantry-host-publish"

	// driftPeriod is after what time it is looked again whether somebody has changed copies.
	driftPeriod = 10 * time.Minute
	// conflictPeriod is what others get to write a status, and more each time up to conflictLimit.
	conflictPeriod, conflictLimit = time.Second, driftPeriod
)

// Reconciler publishes what ControlPlanes name.
type Reconciler struct {
	// Client reads ControlPlanes and writes their status.
	Client client.Client
	// Host reads the host itself.
	Host client.Reader
	// Mapper has the kinds of the host.
	Mapper meta.RESTMapper
	// Connect returns the system space of a ControlPlane.
	Connect func(ctx context.Context, cp *v1alpha1.ControlPlane) (*Space, error)
	// Follow watches what a ControlPlane publishes, and nothing else of it.
	Follow func(cp *v1alpha1.ControlPlane, all []*kind)

	conflicts conditions.Conflicts
}

// problemf returns what somebody has to mend.
func problemf(format string, args ...any) error {
	return conditions.Unwatchedf(v1alpha1.ReasonNotPublished, format, args...)
}

// Reconcile implements reconcile.Reconciler.
func (r *Reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	cp := &v1alpha1.ControlPlane{}
	err := r.Client.Get(ctx, request.NamespacedName, cp)
	if apierrors.IsNotFound(err) || err == nil && cp.DeletionTimestamp != nil {
		cp.Namespace, cp.Name = request.Namespace, request.Name
		r.Follow(cp, nil)
		r.conflicts.Forget(request)
		return reconcile.Result{}, nil
	}
	if err != nil {
		return reconcile.Result{}, err
	}
	all, err := kinds(cp, r.Mapper)
	if err == nil && len(all) == 0 {
		r.Follow(cp, nil)
		if len(cp.Status.Published) == 0 {
			return reconcile.Result{}, r.commit(ctx, cp, cp.Status.Published, nil)
		}
	}
	published := cp.Status.Published
	copies := 0
	if err == nil {
		copies, published, err = r.publish(ctx, cp, all)
	}
	if commitErr := r.commit(ctx, cp, published, &outcome{copies, err}); apierrors.IsConflict(commitErr) {
		return r.conflicts.Again(request), nil
	} else if commitErr != nil {
		return reconcile.Result{}, commitErr
	}
	switch {
	case conditions.IsProblem(err):
		return reconcile.Result{RequeueAfter: conditions.ProblemPeriod}, nil
	case apierrors.IsConflict(err):
		return r.conflicts.Again(request), nil
	}
	r.conflicts.Forget(request)
	switch {
	case err != nil:
		return reconcile.Result{}, err
	case len(all) == 0:
		return reconcile.Result{}, nil
	default:
		return reconcile.Result{RequeueAfter: driftPeriod}, nil
	}
}

// publish makes the copies of all kinds what the host says, and returns how many there are, and of
// which resources there may be some. What fails for one kind keeps none of the others. As long as
// it is not known what the host has of a kind, none is deleted. What cannot be read is not watched.
func (r *Reconciler) publish(ctx context.Context, cp *v1alpha1.ControlPlane, all []*kind) (copies int, published []string, _ error) {
	space, err := r.Connect(ctx, cp)
	if err != nil {
		return 0, cp.Status.Published, problemf("ControlPlane %q cannot be asked: %v", client.ObjectKeyFromObject(cp), err)
	}
	names := make([]string, len(all))
	for i, k := range all {
		names[i] = k.String()
	}
	if err := r.record(ctx, cp, names); err != nil {
		return 0, cp.Status.Published, err
	}
	if len(all) > 0 {
		if err := space.authorize(ctx, cp.Spec.Publish.Namespace, all); err != nil {
			return 0, cp.Status.Published, err
		}
	}
	var failures []error
	var readable []*kind
	for _, k := range all {
		wanted, missing, err := r.wanted(ctx, cp, k)
		failures = append(failures, missing...)
		if err == nil {
			readable = append(readable, k)
			var n int
			n, err = r.publishKind(ctx, cp, space, k, wanted)
			copies += n
		}
		failures = append(failures, err)
	}
	r.Follow(cp, readable)
	for _, resource := range cp.Status.Published {
		if slices.Contains(names, resource) {
			continue
		}
		if err := r.retract(ctx, space, resource); err != nil {
			failures, names = append(failures, err), append(names, resource)
		}
	}
	if len(names) == 0 { // and no copy is left that was to go
		failures = append(failures, space.revoke(ctx))
	}
	slices.Sort(names)
	return copies, names, errors.Join(failures...)
}

// publishKind makes the copies of a kind what is wanted.
func (*Reconciler) publishKind(ctx context.Context, cp *v1alpha1.ControlPlane, space *Space, k *kind,
	wanted map[string]*unstructured.Unstructured,
) (copies int, _ error) {
	var failures []error
	for name, object := range wanted {
		switch err := space.put(ctx, object); {
		case err == nil:
			copies++
		case conditions.IsProblem(err) || apierrors.IsConflict(err):
			failures = append(failures, err)
		case apierrors.IsInvalid(err), apierrors.IsForbidden(err), apierrors.IsNotFound(err):
			failures = append(failures, problemf("the control plane refuses %s %q: %v", k, name, err))
		default:
			failures = append(failures, fmt.Errorf("writing %s %q in the control plane: %w", k, name, err))
		}
	}
	namespace := ""
	if k.namespaced {
		namespace = cp.Spec.Publish.Namespace
	}
	failures = append(failures, space.prune(ctx, k.object, func(in, name string) bool { return in == namespace && wanted[name] != nil }))
	return copies, errors.Join(failures...)
}

// retract deletes all copies of a resource that is published no more.
func (r *Reconciler) retract(ctx context.Context, space *Space, resource string) error {
	k, err := newKind(resource, r.Mapper)
	if err != nil {
		return err
	}
	return space.prune(ctx, k.object, func(string, string) bool { return false })
}

// record notes of which resources there may be copies, before there are any: so they are found when
// the spec no longer names them.
func (r *Reconciler) record(ctx context.Context, cp *v1alpha1.ControlPlane, names []string) error {
	changed := cp.DeepCopy()
	changed.Status.Published = slices.Compact(slices.Sorted(slices.Values(slices.Concat(cp.Status.Published, names))))
	if slices.Equal(changed.Status.Published, cp.Status.Published) {
		return nil
	}
	return r.patch(ctx, cp, changed)
}

// outcome is what a reconcile has come to.
type outcome struct {
	copies int
	failed error
}

// commit writes the status if it says something new.
func (r *Reconciler) commit(ctx context.Context, cp *v1alpha1.ControlPlane, published []string, o *outcome) error {
	changed := cp.DeepCopy()
	changed.Status.Published = published
	switch {
	case o == nil || cp.Spec.Publish == nil && o.failed == nil:
		meta.RemoveStatusCondition(&changed.Status.Conditions, v1alpha1.ConditionHostPublished)
	case o.failed != nil:
		reason := v1alpha1.ReasonFailed
		if conditions.IsProblem(o.failed) {
			reason = v1alpha1.ReasonNotPublished
		}
		conditions.Set(&changed.Status.Conditions, cp.Generation, conditions.New(v1alpha1.ConditionHostPublished, false, reason, o.failed.Error()))
	default:
		conditions.Set(&changed.Status.Conditions, cp.Generation, conditions.New(v1alpha1.ConditionHostPublished, true, v1alpha1.ReasonInControlPlane,
			fmt.Sprintf("%d objects of the host are in the control plane", o.copies)))
	}
	if apiequality.Semantic.DeepEqual(cp.Status, changed.Status) {
		return nil
	}
	return r.patch(ctx, cp, changed)
}

func (r *Reconciler) patch(ctx context.Context, cp, changed *v1alpha1.ControlPlane) error {
	unchanged := client.MergeFromWithOptions(cp.DeepCopy(), client.MergeFromWithOptimisticLock{})
	if err := r.Client.Status().Patch(ctx, changed, unchanged, client.FieldOwner(fieldManager)); err != nil {
		return fmt.Errorf("updating the status of ControlPlane %q: %w", cp.Name, err)
	}
	changed.DeepCopyInto(cp)
	return nil
}
