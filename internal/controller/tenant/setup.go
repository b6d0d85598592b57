package tenant

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/tenantry/tenantry/api/v1alpha1"
)

// concurrency is the number of Tenants reconciled at once. A reconcile mostly
// waits for the server.
const concurrency = 16

// Setup adds the controller to a manager.
func Setup(mgr manager.Manager, quota corev1.ResourceList) error {
	children, err := NewChildrenCache(mgr.GetConfig())
	if err != nil {
		return err
	}
	if err := mgr.Add(children); err != nil {
		return err
	}
	spaces, err := NewSpaces(mgr.GetConfig())
	if err != nil {
		return err
	}
	r := &Reconciler{
		Client:   mgr.GetClient(),
		Children: children,
		Spaces:   spaces,
		Quota:    quota,
		Recorder: mgr.GetEventRecorder("tenant-controller"),
	}
	return builder.ControllerManagedBy(mgr).
		Named("tenant").
		For(&v1alpha1.Tenant{}, builder.WithPredicates(predicate.Or(
			predicate.GenerationChangedPredicate{}, deletionStarted))).
		WatchesRawSource(source.Kind(children, &corev1.Namespace{}, toTenant[*corev1.Namespace](), removed[*corev1.Namespace]())).
		WatchesRawSource(source.Kind(children, &corev1.ServiceAccount{}, toTenant[*corev1.ServiceAccount](), appearedOrRemoved[*corev1.ServiceAccount]())).
		WatchesRawSource(source.Kind(children, &corev1.ResourceQuota{}, toTenant[*corev1.ResourceQuota](), changedOrRemoved[*corev1.ResourceQuota]())).
		WatchesRawSource(source.Kind(children, &rbacv1.ClusterRoleBinding{}, toTenant[*rbacv1.ClusterRoleBinding](), changedOrRemoved[*rbacv1.ClusterRoleBinding]())).
		WithOptions(controller.Options{MaxConcurrentReconciles: concurrency}).
		Complete(r)
}

// toTenant maps a child to the Tenant whose space it is in.
func toTenant[T client.Object]() handler.TypedEventHandler[T, reconcile.Request] {
	return handler.TypedEnqueueRequestsFromMapFunc(func(_ context.Context, child T) []reconcile.Request {
		return []reconcile.Request{{NamespacedName: types.NamespacedName{Name: tenantOf(child)}}}
	})
}

// deletionStarted passes the update that sets a deletion timestamp.
var deletionStarted = predicate.Funcs{
	CreateFunc: func(event.CreateEvent) bool { return true },
	UpdateFunc: func(e event.UpdateEvent) bool {
		return e.ObjectOld.GetDeletionTimestamp() == nil && e.ObjectNew.GetDeletionTimestamp() != nil
	},
}

// removed passes deletions: what the controller creates it need not be told of.
func removed[T client.Object]() predicate.TypedPredicate[T] {
	return predicate.TypedFuncs[T]{
		CreateFunc: func(event.TypedCreateEvent[T]) bool { return false },
		UpdateFunc: func(event.TypedUpdateEvent[T]) bool { return false },
	}
}

func appearedOrRemoved[T client.Object]() predicate.TypedPredicate[T] {
	return predicate.TypedFuncs[T]{
		UpdateFunc: func(event.TypedUpdateEvent[T]) bool { return false },
	}
}

func changedOrRemoved[T client.Object]() predicate.TypedPredicate[T] {
	return predicate.TypedFuncs[T]{
		CreateFunc: func(event.TypedCreateEvent[T]) bool { return false },
	}
}
