package tenant

import (
	"context"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/tenantry/tenantry/api/v1alpha1"
	"github.com/tenantry/tenantry/internal/tenant"
)

// spaces is what the controller does in the spaces; Spaces does it by requests.
type spaces interface {
	// In returns a client of a space.
	In(of tenant.Scope) client.Client
	// Apply makes an object of a space what it is to be, whoever has made one of its name.
	Apply(ctx context.Context, n tenant.Name, o client.Object) error
	ListObjects(ctx context.Context, n tenant.Name, resource schema.GroupResource) ([]StoredObject, error)
	DeleteObject(ctx context.Context, n tenant.Name, object StoredObject) error
}

var _ spaces = Spaces{}

// Reconciler reconciles Tenants.
type Reconciler struct {
	// Client reads and writes the system space.
	Client client.Client
	// Children observes what the controller keeps in the spaces, by flattened names.
	Children client.Reader
	// Spaces writes into the spaces.
	Spaces spaces
	// Quota is the default of Tenants that name none.
	Quota corev1.ResourceList
	// Publish copies published objects to a space, see Options.
	Publish func(ctx context.Context, n tenant.Name, uid types.UID) (waiting string, err error)
}

// outcome is what a step came to, if it did not fail. The zero value is done.
type outcome struct {
	// waiting says what for; the event that ends the wait triggers a reconcile.
	waiting string
	// again is when to look again, if no event will tell.
	again time.Duration
}

func (o outcome) done() bool { return o.waiting == "" }

// step brings one part of a space about.
type step func(ctx context.Context, t *v1alpha1.Tenant) (outcome, error)

// phases returns the steps in order. Those of one phase run at once: a Tenant is
// ready as fast as the slowest chain of requests. The namespace "default" comes
// alone and first, because by the time the last phase writes into it the
// server's own caches have seen it; otherwise admission waits for them.
func (r *Reconciler) phases() [][]step {
	return [][]step{
		{r.ensureNamespace(metav1.NamespaceDefault)},
		{
			r.ensureNamespace(metav1.NamespaceSystem),
			r.ensureNamespace(metav1.NamespacePublic),
			r.ensureNamespace(corev1.NamespaceNodeLease),
			r.ensureAdmins,
		},
		{r.ensureQuota, r.ensureServiceAccount, r.ensurePublished},
		{r.verifyAdmins},
	}
}

// Reconcile implements reconcile.Reconciler.
func (r *Reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	t := &v1alpha1.Tenant{}
	if err := r.Client.Get(ctx, request.NamespacedName, t); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if tenant.Name(t.Name) == tenant.System {
		return reconcile.Result{}, r.commit(ctx, t, ready(t))
	}
	if t.DeletionTimestamp != nil {
		return r.delete(ctx, t)
	}
	result, err := r.ensure(ctx, t)
	switch {
	case err != nil:
		return reconcile.Result{}, r.failed(ctx, t, err)
	case !result.done():
		return reconcile.Result{RequeueAfter: result.again}, r.commit(ctx, t, progressing(result.waiting))
	default:
		return reconcile.Result{}, r.commit(ctx, t, ready(t))
	}
}

// ensure runs the steps that make a space.
func (r *Reconciler) ensure(ctx context.Context, t *v1alpha1.Tenant) (outcome, error) {
	for _, phase := range r.phases() {
		if result, err := runAtOnce(ctx, t, phase); err != nil || !result.done() {
			return result, err
		}
	}
	return outcome{}, nil
}

// ensurePublished copies published objects to the space before anybody uses it.
// After that, their own controller does.
func (r *Reconciler) ensurePublished(ctx context.Context, t *v1alpha1.Tenant) (outcome, error) {
	c := meta.FindStatusCondition(t.Status.Conditions, v1alpha1.ConditionReady)
	if c != nil && (c.Status == metav1.ConditionTrue || c.Reason == v1alpha1.ReasonSuspended) {
		return outcome{}, nil
	}
	waiting, err := r.Publish(ctx, tenant.Name(t.Name), t.UID)
	if err != nil || waiting == "" {
		return outcome{}, err
	}
	return outcome{waiting: waiting, again: waitLonger(t)}, nil
}

// runAtOnce runs the steps of a phase and returns the first error or else the
// first that waits.
func runAtOnce(ctx context.Context, t *v1alpha1.Tenant, phase []step) (outcome, error) {
	group, groupCtx := errgroup.WithContext(ctx)
	results := make([]outcome, len(phase))
	for i, run := range phase {
		group.Go(func() (err error) {
			results[i], err = run(groupCtx, t)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return outcome{}, err
	}
	for _, result := range results {
		if !result.done() {
			return result, nil
		}
	}
	return outcome{}, nil
}

// failed puts an error into the status and returns it for a retry. What the
// server finds invalid comes from the Tenant's spec and is tried again when that
// changes.
func (r *Reconciler) failed(ctx context.Context, t *v1alpha1.Tenant, err error) error {
	reason, message := v1alpha1.ReasonFailed, err.Error()
	if apierrors.IsInvalid(err) {
		reason, err = v1alpha1.ReasonInvalid, reconcile.TerminalError(err)
	}
	if commitErr := r.commit(ctx, t, notReady(reason, message)); commitErr != nil {
		return commitErr
	}
	return err
}
