package tenant

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/tenantry/tenantry/api/v1alpha1"
	"github.com/tenantry/tenantry/internal/tenant"
)

// quotaStatusPeriod is how long a Tenant's status may lag behind its quota. The
// quota changes with every object, the Tenant no more often than this.
const quotaStatusPeriod = 2 * time.Second

// quotaStatus shows in the status of Tenants what they may use and what they use.
type quotaStatus struct {
	// client reads and writes the system space.
	client client.Client
	// children observes quotas, by flattened names.
	children client.Reader
}

// Reconcile implements reconcile.Reconciler.
func (r *quotaStatus) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	q := &corev1.ResourceQuota{}
	key := types.NamespacedName{Namespace: tenant.Flatten(tenant.Name(request.Name), metav1.NamespaceDefault).String(), Name: v1alpha1.TenantQuota}
	if err := r.children.Get(ctx, key, q); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	t := &v1alpha1.Tenant{}
	if err := r.client.Get(ctx, request.NamespacedName, t); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	shown := &v1alpha1.TenantQuotaStatus{Hard: q.Status.Hard, Used: q.Status.Used}
	if t.DeletionTimestamp != nil || apiequality.Semantic.DeepEqual(t.Status.Quota, shown) {
		return reconcile.Result{}, nil
	}
	changed := t.DeepCopy()
	changed.Status.Quota = shown
	err := r.client.Status().Patch(ctx, changed, client.MergeFrom(t), client.FieldOwner(quotaFieldManager))
	return reconcile.Result{}, wrap(client.IgnoreNotFound(err), "showing the quota of tenant %q", t.Name)
}

// quotaUsed tells of quotas whose status has changed, of each once in a period.
var quotaUsed = handler.TypedFuncs[client.Object, reconcile.Request]{
	CreateFunc: func(_ context.Context, e event.TypedCreateEvent[client.Object], queue workqueue.TypedRateLimitingInterface[reconcile.Request]) {
		queue.AddAfter(requestOf(e.Object), quotaStatusPeriod)
	},
	UpdateFunc: func(_ context.Context, e event.TypedUpdateEvent[client.Object], queue workqueue.TypedRateLimitingInterface[reconcile.Request]) {
		if usedChanged(e.ObjectOld, e.ObjectNew) {
			queue.AddAfter(requestOf(e.ObjectNew), quotaStatusPeriod)
		}
	},
}

func usedChanged(before, after client.Object) bool {
	b, ok := before.(*corev1.ResourceQuota)
	a, isQuota := after.(*corev1.ResourceQuota)
	return ok && isQuota && !apiequality.Semantic.DeepEqual(b.Status, a.Status)
}

// requestOf names the Tenant whose space a child is in.
func requestOf(child client.Object) reconcile.Request {
	return reconcile.Request{NamespacedName: types.NamespacedName{Name: tenantOf(child)}}
}
