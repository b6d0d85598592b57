package user

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/tenantry/tenantry/api/v1alpha1"
	"github.com/tenantry/tenantry/internal/controller/conditions"
	"github.com/tenantry/tenantry/internal/controller/flattened"
	"github.com/tenantry/tenantry/internal/process/backlog"
	"github.com/tenantry/tenantry/internal/tenant"
)

const (
	// perTurn is how many items of a tenant are looked at in a turn, and how many namespaces of a
	// User that is being deleted.
	perTurn = 20
	// maxUnbindRounds is how often it is looked whether a User that is being deleted is still bound somewhere.
	maxUnbindRounds = 10
	// turnTime is how long RoleBindings of a namespace are changed in a turn, and patchesAtOnce how many at a time.
	turnTime      = 500 * time.Millisecond
	patchesAtOnce = 4
	// namespacesAtOnce and bindingsAtOnce bound how many RoleBindings are in memory, of a megabyte each.
	namespacesAtOnce = 4
	bindingsAtOnce   = 20
)

// errLater is what is left of an item when its tenant's turn is over.
var errLater = errors.New("the turn is over")

// Reconciler gives the Users of all spaces their rights.
type Reconciler struct {
	// Tenants reads the system space.
	Tenants client.Reader
	// Children observes Users and what belongs to them, by flattened names.
	Children client.Reader

	spaces  spaces
	backlog *backlog.Backlog[tenant.Name, item]
}

// key is that of a User: of one name there may be several, one after the other.
type key struct {
	tenant tenant.Name
	uid    string
}

func (k key) String() string { return k.tenant.String() + "/" + k.uid }

// Reconcile implements reconcile.TypedReconciler. It is the turn of a tenant.
func (r *Reconciler) Reconcile(ctx context.Context, n tenant.Name) (reconcile.Result, error) {
	t := &v1alpha1.Tenant{}
	if err := r.Tenants.Get(ctx, client.ObjectKey{Name: n.String()}, t); client.IgnoreNotFound(err) != nil {
		return reconcile.Result{}, fmt.Errorf("reading tenant %q: %w", n, err)
	}
	failed := map[string]error{}
	for _, i := range r.backlog.Take(n, perTurn) {
		again, err := r.look(ctx, key{n, i.uid}, i, t.DeletionTimestamp != nil)
		if errors.Is(err, errLater) {
			again, err = &i, nil
		}
		if again != nil {
			r.backlog.Add(n, *again)
		}
		r.requeue(ctx, n, item{uid: i.uid, namespace: i.namespace}, err)
		failed[i.uid] = errors.Join(failed[i.uid], err)
	}
	for uid, err := range failed {
		if err := r.report(ctx, key{n, uid}, err); err != nil {
			r.requeue(ctx, n, item{uid: uid}, err)
		}
	}
	return reconcile.Result{RequeueAfter: r.backlog.Next(n)}, nil
}

// requeue has an item come again that has failed.
func (r *Reconciler) requeue(ctx context.Context, n tenant.Name, i item, err error) {
	if err == nil {
		r.backlog.Done(n, i)
		return
	}
	log.FromContext(ctx).Error(err, "Looking after a User", "uid", i.uid, "namespace", i.namespace)
	r.backlog.Retry(n, i)
}

// look brings about what an item is about, and returns what of it is left. Nothing is made in
// a space that is ending.
func (r *Reconciler) look(ctx context.Context, k key, i item, ending bool) (*item, error) {
	u, err := r.user(ctx, k)
	switch {
	case err != nil:
		return nil, err
	case u == nil:
		return nil, r.clear(ctx, k)
	case u.DeletionTimestamp != nil && i.namespace != "":
		return nil, r.endLate(ctx, k, u, i.namespace)
	case u.DeletionTimestamp != nil:
		return r.end(ctx, k, u, i)
	case ending:
		return nil, nil
	case i.namespace != "":
		return nil, r.ensureOwner(ctx, k, u, i.namespace)
	}
	if err := r.ensure(ctx, k, u, nil, creatorBinding(u), &rbacv1.ClusterRoleBinding{}); err != nil {
		return nil, err
	}
	namespaces, err := r.namespaces(ctx, k)
	for _, ns := range namespaces {
		r.backlog.Add(k.tenant, item{uid: k.uid, namespace: tenant.Flat(ns.Name).Plain()})
	}
	return nil, err
}

// user returns a User, nil if there is none.
func (r *Reconciler) user(ctx context.Context, k key) (*v1alpha1.User, error) {
	list := &v1alpha1.UserList{}
	if err := r.list(ctx, k, list); err != nil || len(list.Items) == 0 {
		return nil, err
	}
	return &list.Items[0], nil
}

// namespaces returns those that a User has created, by name.
func (r *Reconciler) namespaces(ctx context.Context, k key) ([]corev1.Namespace, error) {
	list := &corev1.NamespaceList{}
	err := r.list(ctx, k, list, client.UnsafeDisableDeepCopy)
	slices.SortFunc(list.Items, func(a, b corev1.Namespace) int { return cmp.Compare(a.Name, b.Name) })
	return list.Items, err
}

func (r *Reconciler) list(ctx context.Context, k key, to client.ObjectList, options ...client.ListOption) error {
	if err := r.Children.List(ctx, to, append(options, client.MatchingFields{byUser: k.String()})...); err != nil {
		return fmt.Errorf("reading %T from the cache: %w", to, err)
	}
	return nil
}

// namespace returns a namespace that a User has created, nil if there is none, or if it is being
// deleted.
func (r *Reconciler) namespace(ctx context.Context, k key, name string) (*corev1.Namespace, error) {
	ns := &corev1.Namespace{}
	found, err := flattened.Get(ctx, r.Children, types.NamespacedName{Name: tenant.Flatten(k.tenant, name).String()}, ns)
	if err != nil || !found || ns.DeletionTimestamp != nil || keyOf(ns) != k {
		return nil, err
	}
	return ns, nil
}

// ensureOwner gives a User every right in a namespace that it has created.
func (r *Reconciler) ensureOwner(ctx context.Context, k key, u *v1alpha1.User, namespace string) error {
	ns, err := r.namespace(ctx, k, namespace)
	if err != nil || ns == nil {
		return err
	}
	err = errors.Join(r.ensure(ctx, k, u, ns, ownerRole(u, namespace), &rbacv1.Role{}), r.ensure(ctx, k, u, ns, ownerBinding(u, namespace), &rbacv1.RoleBinding{}))
	if apierrors.IsNotFound(err) || apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		return nil // the cache does not know yet that it is being deleted
	}
	return err
}

// ensure makes an object what it is to be, in a namespace if there is one. observed is an empty one.
func (r *Reconciler) ensure(ctx context.Context, k key, u *v1alpha1.User, ns *corev1.Namespace, desired, observed client.Object) error {
	name := types.NamespacedName{Namespace: tenant.Flatten(k.tenant, desired.GetNamespace()).String(), Name: desired.GetName()}
	if name.Namespace == "" {
		name.Name = tenant.Flatten(k.tenant, name.Name).String()
	}
	found, err := flattened.Get(ctx, r.Children, name, observed)
	if err != nil || found && equal(desired, observed) {
		return err
	}
	if current, err := r.isCurrent(ctx, k, u, ns); err != nil || !current {
		return err // the cache will know it
	}
	if err := r.spaces.Apply(ctx, k.tenant, desired); err != nil {
		return fmt.Errorf("applying %T %q: %w", desired, desired.GetName(), err)
	}
	return nil
}

// isCurrent reports whether a User and, if there is one, its namespace are those that the space has, and are not being
// deleted. Objects are applied by their names, and a cache that lags behind would give the rights of one User to the
// next one of its name, or in somebody else's namespace. A namespace is there for some seconds after its deletion.
func (r *Reconciler) isCurrent(ctx context.Context, k key, u *v1alpha1.User, ns *corev1.Namespace) (bool, error) {
	live := &v1alpha1.User{ObjectMeta: metav1.ObjectMeta{Name: tenant.Flat(u.Name).Plain()}}
	if current, err := r.isLive(ctx, k.tenant, u, live); ns == nil || err != nil || !current {
		return current, err
	}
	return r.isLive(ctx, k.tenant, ns, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: tenant.Flat(ns.Name).Plain()}})
}

// isLive reads an object anew and reports whether it is the observed one, and is not being deleted.
func (r *Reconciler) isLive(ctx context.Context, n tenant.Name, observed, live client.Object) (bool, error) {
	found, err := r.spaces.Read(ctx, n, live)
	if err != nil {
		return false, fmt.Errorf("reading %T %q: %w", live, live.GetName(), err)
	}
	return found && live.GetUID() == observed.GetUID() && live.GetDeletionTimestamp() == nil, nil
}

// equal compares what is said of an object that is made for a User.
func equal(desired, observed client.Object) bool {
	if !apiequality.Semantic.DeepEqual(desired.GetLabels(), observed.GetLabels()) {
		return false
	}
	switch d := desired.(type) {
	case *rbacv1.ClusterRoleBinding:
		o := observed.(*rbacv1.ClusterRoleBinding)
		return d.RoleRef == o.RoleRef && apiequality.Semantic.DeepEqual(d.Subjects, o.Subjects)
	case *rbacv1.RoleBinding:
		o := observed.(*rbacv1.RoleBinding)
		return d.RoleRef == o.RoleRef && apiequality.Semantic.DeepEqual(d.Subjects, o.Subjects)
	default:
		return apiequality.Semantic.DeepEqual(desired.(*rbacv1.Role).Rules, observed.(*rbacv1.Role).Rules)
	}
}

// userNamed returns a User by whose name in its space requests name one of the cache.
func userNamed(u *v1alpha1.User) *v1alpha1.User {
	return &v1alpha1.User{ObjectMeta: metav1.ObjectMeta{Name: tenant.Flat(u.Name).Plain()}}
}

// report writes the status of a User if it says something new.
func (r *Reconciler) report(ctx context.Context, k key, failed error) error {
	u, err := r.user(ctx, k)
	if err != nil || u == nil || u.DeletionTimestamp != nil && failed == nil {
		return err
	}
	namespaces, err := r.namespaces(ctx, k)
	if err != nil {
		return err
	}
	ready := conditions.New(v1alpha1.ConditionReady, true, v1alpha1.ReasonReady, "the user can create namespaces, and has every right in those that it has created")
	if failed != nil {
		ready = conditions.New(v1alpha1.ConditionReady, false, v1alpha1.ReasonFailed, failed.Error())
	}
	status := u.Status.DeepCopy()
	status.ObservedGeneration, status.Namespaces = u.Generation, int32(min(len(namespaces), 1<<31-1)) // bounded
	conditions.Set(&status.Conditions, u.Generation, ready)
	if apiequality.Semantic.DeepEqual(&u.Status, status) {
		return nil
	}
	if err := r.spaces.Patch(ctx, k.tenant, userNamed(u), "status", map[string]any{"metadata": map[string]any{"uid": u.UID}, "status": status}); err != nil {
		return fmt.Errorf("updating the status of user %q: %w", userNamed(u).Name, err)
	}
	return nil
}
