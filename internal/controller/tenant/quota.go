package tenant

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tenantry/tenantry/api/v1alpha1"
	"github.com/tenantry/tenantry/internal/tenant"
)

// ensureQuota keeps the mandatory ResourceQuota (arktos-access-control,
// "Resource Quota Isolation").
func (r *Reconciler) ensureQuota(ctx context.Context, t *v1alpha1.Tenant) (outcome, error) {
	n := tenant.Name(t.Name)
	hard := t.Spec.Quota
	if len(hard) == 0 {
		hard = r.Quota
	}
	desired := &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Name: DefaultQuota, Namespace: metav1.NamespaceDefault},
		Spec:       corev1.ResourceQuotaSpec{Hard: hard},
	}
	observed := &corev1.ResourceQuota{}
	found, err := r.observe(ctx, observed, types.NamespacedName{
		Namespace: tenant.Flatten(n, desired.Namespace), Name: desired.Name,
	})
	switch {
	case err != nil:
		return outcome{}, err
	case !found:
		if err := r.Spaces.CreateQuota(ctx, n, desired); err != nil && !apierrors.IsAlreadyExists(err) {
			return outcome{}, fmt.Errorf("creating resourcequota %q: %w", desired.Name, err)
		}
	case !apiequality.Semantic.DeepEqual(observed.Spec, desired.Spec):
		if err := r.Spaces.UpdateQuota(ctx, n, desired); err != nil {
			return outcome{}, fmt.Errorf("restoring resourcequota %q: %w", desired.Name, err)
		}
	}
	return outcome{}, nil
}

// awaitServiceAccount waits for the account that pods run as, which upstream's
// service account controller creates.
func (r *Reconciler) awaitServiceAccount(ctx context.Context, t *v1alpha1.Tenant) (outcome, error) {
	found, err := r.observe(ctx, &corev1.ServiceAccount{}, types.NamespacedName{
		Namespace: tenant.Flatten(tenant.Name(t.Name), metav1.NamespaceDefault), Name: serviceAccountName,
	})
	if err != nil || found {
		return outcome{}, err
	}
	return outcome{waiting: `the service account "default" in namespace "default"`}, nil
}
