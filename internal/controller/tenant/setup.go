package tenant

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
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
	"github.com/tenantry/tenantry/internal/controller/spaceclient"
	"github.com/tenantry/tenantry/internal/tenant"
)

// controllerName is by which events say where they are from.
const controllerName = "tenant-controller"

// Options configure the controller.
type Options struct {
	// Quota is the hard limits of Tenants that name none.
	Quota corev1.ResourceList
	// Concurrency is the number of Tenants reconciled at once. A reconcile
	// mostly waits for the server.
	Concurrency int
	// Publish copies published objects to a space and returns what it waits for,
	// if it does.
	Publish func(ctx context.Context, n tenant.Name, uid types.UID) (waiting string, err error)
}

// Setup adds the controller to a manager whose configuration names the system
// space.
func Setup(mgr manager.Manager, opts Options) error {
	children, err := newChildrenCache(mgr.GetConfig())
	if err != nil {
		return err
	}
	if err := mgr.Add(children); err != nil {
		return err
	}
	// As the publisher: who may write webhooks and policies of a space does not decide who administers it, and what it
	// may use.
	spaces, err := spaceclient.New(spaceclient.AsPublisher(mgr.GetConfig()), fieldManager)
	if err != nil {
		return err
	}
	r := &Reconciler{
		Client:   mgr.GetClient(),
		Children: children,
		Spaces:   Spaces{spaces},
		Quota:    opts.Quota,
		Publish:  opts.Publish,
	}
	if err := builder.ControllerManagedBy(mgr).
		Named("tenant-quota-status").
		WatchesRawSource(source.Kind(children.Cache, client.Object(&corev1.ResourceQuota{}), quotaUsed)).
		WithOptions(controller.Options{MaxConcurrentReconciles: opts.Concurrency}).
		Complete(&quotaStatus{client: mgr.GetClient(), children: children}); err != nil {
		return err
	}
	return builder.ControllerManagedBy(mgr).
		Named("tenant").
		For(&v1alpha1.Tenant{}, builder.WithPredicates(predicate.Or(predicate.GenerationChangedPredicate{}, deletionStarted))).
		WatchesRawSource(children.source(&corev1.Namespace{})).
		WatchesRawSource(children.source(&corev1.ServiceAccount{})).
		WatchesRawSource(children.source(&corev1.ResourceQuota{})).
		WatchesRawSource(children.source(&rbacv1.ClusterRoleBinding{})).
		WithOptions(controller.Options{MaxConcurrentReconciles: opts.Concurrency}).
		Complete(r)
}

// source is the watch of one kind of children.
func (c *childrenCache) source(kind client.Object) source.Source {
	return source.Kind(c.Cache, kind, handler.TypedEnqueueRequestsFromMapFunc(toTenant), disturbed)
}

// toTenant maps a child to the Tenant whose space it is in.
func toTenant(_ context.Context, child client.Object) []reconcile.Request {
	return []reconcile.Request{requestOf(child)}
}

// deletionStarted passes the update that sets a deletion timestamp.
var deletionStarted = predicate.Funcs{
	UpdateFunc: func(e event.UpdateEvent) bool {
		return e.ObjectOld.GetDeletionTimestamp() == nil && e.ObjectNew.GetDeletionTimestamp() != nil
	},
}

// disturbed passes what somebody has removed or changed. The controller needs no events
// of what it creates itself.
var disturbed = predicate.TypedFuncs[client.Object]{
	CreateFunc: func(event.TypedCreateEvent[client.Object]) bool { return false },
	UpdateFunc: func(e event.TypedUpdateEvent[client.Object]) bool { return contentChanged(e.ObjectOld, e.ObjectNew) },
}

// contentChanged compares what the cache keeps of a child.
func contentChanged(before, after client.Object) bool {
	switch a := after.(type) {
	case *corev1.ResourceQuota:
		b, ok := before.(*corev1.ResourceQuota)
		return !ok || !apiequality.Semantic.DeepEqual(a.Spec, b.Spec)
	case *rbacv1.ClusterRoleBinding:
		b, ok := before.(*rbacv1.ClusterRoleBinding)
		return !ok || a.RoleRef != b.RoleRef || !apiequality.Semantic.DeepEqual(a.Subjects, b.Subjects)
	default:
		return false
	}
}
