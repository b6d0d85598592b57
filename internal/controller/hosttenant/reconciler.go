package hosttenant

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/tenantry/tenantry/api/v1alpha1"
	"github.com/tenantry/tenantry/internal/controller/conditions"
	"github.com/tenantry/tenantry/internal/controller/planeclient"
)

const (
	// busyPeriod is after what time, or twice that, a Tenant is tried again whose ControlPlane had
	// its share of the workers.
	busyPeriod = 5 * time.Second
	// newPeriod is how long a new Tenant may get Ready before the host is told that it is on its way:
	// so long do the last of a thousand take, all created at once.
	newPeriod = 30 * time.Second
)

// Reconciler reconciles Tenants of a host cluster.
type Reconciler struct {
	// Client reads from the caches of the host, which have all Tenants and ControlPlanes and,
	// of Secrets, those that the operator has made.
	Client client.Client
	// Live reads from the host itself.
	Live   client.Reader
	Events events.EventRecorder
	// Connect returns the system space of a ControlPlane.
	Connect func(ctx context.Context, cp *v1alpha1.ControlPlane) (*Space, error)
	Options

	now       func() time.Time
	conflicts conditions.Conflicts
}

// work is what one reconcile knows. The steps fill it in.
type work struct {
	tenant *v1alpha1.Tenant
	// ref names the ControlPlane, and cp is that.
	ref   *v1alpha1.ControlPlaneReference
	cp    *v1alpha1.ControlPlane
	space *Space
	// mirror is the Tenant in the control plane, nil as long as it is not known or not ours,
	// and settled says that it is as the one on the host.
	mirror  *v1alpha1.Tenant
	settled bool
	// kubeconfig is what became of the Secret, nil if none is asked for, or not yet.
	kubeconfig *issued
	// released says that nothing holds the Tenant any more.
	released bool
}

// Reconcile implements reconcile.Reconciler.
func (r *Reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	t := &v1alpha1.Tenant{}
	if err := r.Client.Get(ctx, request.NamespacedName, t); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	w := &work{tenant: t, ref: refOf(t)}
	steps := []func(context.Context, *work) error{r.checkName, r.find, r.connect, r.hold, r.ensureMirror, r.ensureKubeconfig}
	if t.DeletionTimestamp != nil {
		steps = []func(context.Context, *work) error{r.releaseUnheld, r.abandon, r.connect, r.deleteMirror, r.release}
	}
	var err error
	for _, step := range steps {
		if err = step(ctx, w); err != nil || w.released {
			break
		}
	}
	if w.released && err == nil {
		r.conflicts.Forget(request)
		return reconcile.Result{}, nil
	}
	switch {
	case errors.Is(err, errTooEarly):
		return reconcile.Result{}, nil
	case errors.Is(err, planeclient.ErrBusy): // which is no news
		return reconcile.Result{RequeueAfter: wait.Jitter(busyPeriod, 1)}, nil
	case errors.Is(err, errWaiting):
		err = nil
	}
	if apierrors.IsConflict(err) {
		return r.conflicts.Again(request), nil
	}
	if early := w.early(r.now()); err == nil && early > 0 {
		return reconcile.Result{RequeueAfter: early}, nil
	}
	if commitErr := r.commit(ctx, w, err); apierrors.IsConflict(commitErr) {
		return r.conflicts.Again(request), nil
	} else if commitErr != nil {
		return reconcile.Result{}, errors.Join(err, commitErr)
	}
	r.conflicts.Forget(request)
	return w.next(err)
}

// early is for how long nothing is said yet of a Tenant that has just been created and whose space is being
// made: most are Ready in a moment, and the host is told once. Why a space is not made is said at once.
func (w *work) early(now time.Time) time.Duration {
	said := meta.FindStatusCondition(w.tenant.Status.Conditions, v1alpha1.ConditionReady) != nil
	if said || w.tenant.DeletionTimestamp != nil || w.mirror == nil {
		return 0
	}
	ready := meta.FindStatusCondition(w.mirror.Status.Conditions, v1alpha1.ConditionReady)
	if ready != nil && ready.Reason != v1alpha1.ReasonProgressing {
		return 0
	}
	return newPeriod - now.Sub(w.tenant.CreationTimestamp.Time)
}

// errTooEarly ends the steps, and there is nothing to say that has not been said: otherwise a new
// connection would write the status of every Tenant twice.
var errTooEarly = errors.New("too early")

// next says when to look again if nothing that is watched changes.
func (w *work) next(err error) (reconcile.Result, error) {
	p, is := errors.AsType[*conditions.Problem](err)
	switch {
	case is:
		return reconcile.Result{RequeueAfter: p.Again}, nil
	case apierrors.IsInvalid(err):
		return reconcile.Result{}, reconcile.TerminalError(err)
	case err != nil:
		return reconcile.Result{}, err
	case w.kubeconfig != nil:
		return reconcile.Result{RequeueAfter: w.kubeconfig.again}, nil
	default:
		return reconcile.Result{}, nil
	}
}

// checkName refuses what is the platform's own in every control plane.
func (*Reconciler) checkName(_ context.Context, w *work) error {
	if isReserved(w.tenant.Name) {
		return conditions.Problemf(v1alpha1.ReasonNameReserved, "%q is the platform's own tenant in every control plane: give the Tenant another name", w.tenant.Name)
	}
	return nil
}

// find finds the ControlPlane. One that nobody has named is recorded before anything is made in
// it, and stays.
func (r *Reconciler) find(ctx context.Context, w *work) error {
	isDefault := w.ref == nil
	if isDefault {
		chosen, err := r.Default.choose(ctx, r.Client)
		if err != nil {
			return err
		}
		w.ref = chosen
	}
	if !slices.Contains(r.Namespaces, w.ref.Namespace) {
		return conditions.Problemf(v1alpha1.ReasonControlPlaneMissing, "the operator does not look after ControlPlanes of namespace %q: name a ControlPlane of another one, or give the operator its rights there and --namespace", w.ref.Namespace)
	}
	cp := &v1alpha1.ControlPlane{}
	err := r.Client.Get(ctx, keyOf(*w.ref), cp)
	if apierrors.IsNotFound(err) {
		err = r.Live.Get(ctx, keyOf(*w.ref), cp)
	}
	switch {
	case apierrors.IsNotFound(err):
		return conditions.Problemf(v1alpha1.ReasonControlPlaneMissing, "there is no ControlPlane %q", w.ref)
	case err != nil:
		return fmt.Errorf("reading ControlPlane %q: %w", w.ref, err)
	}
	w.cp = cp
	if isDefault {
		return r.record(ctx, w)
	}
	return nil
}

// connect finds the system space. As long as its servers have not answered there is nothing to
// do: when they do, all Tenants of the ControlPlane are looked at.
func (r *Reconciler) connect(ctx context.Context, w *work) error {
	space, err := r.Connect(ctx, w.cp)
	if err != nil {
		return conditions.Unwatchedf(v1alpha1.ReasonControlPlaneUnreachable, "ControlPlane %q cannot be asked: %v", w.ref, err)
	}
	switch {
	case space.Synced():
	case !space.Late() && meta.FindStatusCondition(w.tenant.Status.Conditions, v1alpha1.ConditionMirrored) != nil:
		return errTooEarly
	default:
		return conditions.Problemf(v1alpha1.ReasonControlPlaneUnreachable, "waiting for the servers of ControlPlane %q to answer", w.ref)
	}
	w.space = space
	return nil
}

// hold keeps the Tenant from going before its space.
func (r *Reconciler) hold(ctx context.Context, w *work) error {
	if isHeld(w.tenant) {
		return nil
	}
	return r.setFinalizers(ctx, w, append(slices.Clone(w.tenant.Finalizers), v1alpha1.HostFinalizer))
}

func isHeld(t client.Object) bool {
	return controllerutil.ContainsFinalizer(t, v1alpha1.HostFinalizer)
}

// setFinalizers changes the finalizers of the Tenant and no other one of its name.
func (r *Reconciler) setFinalizers(ctx context.Context, w *work, finalizers []string) error {
	changed := w.tenant.DeepCopy()
	changed.Finalizers = finalizers
	err := r.Client.Patch(ctx, changed, client.MergeFromWithOptions(w.tenant, client.MergeFromWithOptimisticLock{}), client.FieldOwner(fieldManager))
	if err != nil {
		return fmt.Errorf("changing the finalizers of Tenant %q: %w", w.tenant.Name, err)
	}
	w.tenant = changed
	return nil
}
