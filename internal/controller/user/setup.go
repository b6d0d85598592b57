package user

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/tenantry/tenantry/api/v1alpha1"
	"github.com/tenantry/tenantry/internal/tenant"
)

// atOnce is how many tenants have a turn at once.
const atOnce = 4

type queue = workqueue.TypedRateLimitingInterface[tenant.Name]

// Setup adds the controller to a manager whose configuration names the system space.
func Setup(mgr manager.Manager) error {
	children, err := newCache(mgr.GetConfig(), mgr.GetScheme())
	if err != nil {
		return err
	}
	if err := mgr.Add(children); err != nil {
		return err
	}
	w, err := newWriter(mgr.GetConfig())
	if err != nil {
		return err
	}
	r := &Reconciler{Tenants: mgr.GetClient(), Children: children, spaces: w, backlog: newBacklog()}
	b := builder.TypedControllerManagedBy[tenant.Name](mgr).Named("user")
	for _, kind := range []client.Object{&v1alpha1.User{}, &corev1.Namespace{}, &rbacv1.ClusterRoleBinding{}, &rbacv1.RoleBinding{}, &rbacv1.Role{}} {
		if err := children.IndexField(context.Background(), kind, byUser, func(o client.Object) []string { return []string{keyOf(o).String()} }); err != nil {
			return err
		}
		b = b.WatchesRawSource(source.TypedKind(children, kind, r.handler()))
	}
	return b.WithOptions(controller.TypedOptions[tenant.Name]{
		MaxConcurrentReconciles: atOnce,
		RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[tenant.Name](minBackoff, maxBackoff),
	}).Complete(r)
}

// handler puts what an event is about into the backlog.
func (r *Reconciler) handler() handler.TypedEventHandler[client.Object, tenant.Name] {
	return handler.TypedFuncs[client.Object, tenant.Name]{
		CreateFunc: func(ctx context.Context, e event.TypedCreateEvent[client.Object], q queue) {
			if e.IsInInitialList || !r.isOwn(ctx, e.Object) {
				r.enqueue(q, e.Object)
			}
		},
		UpdateFunc: func(_ context.Context, e event.TypedUpdateEvent[client.Object], q queue) {
			if !isReport(e.ObjectOld, e.ObjectNew) {
				r.enqueue(q, e.ObjectNew)
			}
		},
		DeleteFunc: func(_ context.Context, e event.TypedDeleteEvent[client.Object], q queue) { r.enqueue(q, e.Object) },
	}
}

// isOwn reports whether an object that is new is what this controller has just made for a User
// that is still there.
func (r *Reconciler) isOwn(ctx context.Context, o client.Object) bool {
	if o.GetLabels()[tenant.UserLabel] == "" {
		return false
	}
	u, err := r.user(ctx, keyOf(o))
	return err == nil && u != nil && u.DeletionTimestamp == nil
}

// isReport reports whether no more than the status of a User has changed.
func isReport(before, after client.Object) bool {
	_, isUser := after.(*v1alpha1.User)
	return isUser && before.GetGeneration() == after.GetGeneration() && (before.GetDeletionTimestamp() == nil) == (after.GetDeletionTimestamp() == nil)
}

func (r *Reconciler) enqueue(q queue, o client.Object) {
	n := keyOf(o).tenant
	r.backlog.Add(n, itemOf(o))
	q.Add(n)
}

// itemOf returns what is to be looked at because of an object.
func itemOf(o client.Object) item {
	namespace := tenant.Flat(o.GetNamespace()).Plain()
	if _, isNamespace := o.(*corev1.Namespace); isNamespace {
		namespace = tenant.Flat(o.GetName()).Plain()
	}
	return item{uid: keyOf(o).uid, namespace: namespace}
}
