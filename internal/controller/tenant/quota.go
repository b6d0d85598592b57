package tenant

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tenantry/tenantry/api/v1alpha1"
	"github.com/tenantry/tenantry/internal/controller/flattened"
	"github.com/tenantry/tenantry/internal/tenant"
)

// ensureQuota keeps the ResourceQuota of the tenant as a whole, in the namespace
// "default". The server charges it and keeps everybody in the space from changing it.
func (r *Reconciler) ensureQuota(ctx context.Context, t *v1alpha1.Tenant) (outcome, error) {
	n := tenant.Name(t.Name)
	desired := r.quotaOf(t)
	observed := &corev1.ResourceQuota{}
	found, err := flattened.Get(ctx, r.Children, types.NamespacedName{
		Namespace: tenant.Flatten(n, desired.Namespace).String(), Name: desired.Name,
	}, observed)
	if err != nil || found && apiequality.Semantic.DeepEqual(observed.Spec, desired.Spec) {
		return outcome{}, err
	}
	if !found {
		if err := r.Spaces.In(n.Scope()).Create(ctx, desired); !apierrors.IsAlreadyExists(err) {
			return outcome{}, wrap(err, "creating resourcequota %q", desired.Name)
		}
		// Somebody else's limits, or a quota that the cache has not seen yet.
	}
	// To apply it would leave limits in it that somebody else has set.
	return outcome{}, wrap(r.Spaces.In(n.Scope()).Update(ctx, desired), "restoring resourcequota %q", desired.Name)
}

func (r *Reconciler) quotaOf(t *v1alpha1.Tenant) *corev1.ResourceQuota {
	hard := t.Spec.Quota
	if len(hard) == 0 {
		hard = r.Quota
	}
	return &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.TenantQuota, Namespace: metav1.NamespaceDefault},
		Spec:       corev1.ResourceQuotaSpec{Hard: hard},
	}
}
