package quota

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/admission/plugin/resourcequota"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"

	tenantquota "github.com/tenantry/tenantry/internal/server/quota"
	"github.com/tenantry/tenantry/internal/tenant"
)

// accessor reads the quotas of namespaces from the informers and writes what is
// charged to them. Those of tenants are none of them.
type accessor struct {
	client   kubernetes.Interface
	informer coreinformers.ResourceQuotaInformer
	latest   *tenantquota.Latest
	// ledger, if not nil, charges in spaces.
	ledger *tenantquota.Ledger
}

var _ resourcequota.QuotaAccessor = &accessor{}

// start begins to follow quotas, unless a ledger does.
func (a *accessor) start() (err error) {
	if a.ledger != nil {
		a.latest = a.ledger.Latest()
		return nil
	}
	a.latest, err = tenantquota.NewLatest(a.informer, nil)
	return err
}

// byLedger reports whether the quotas of a namespace are charged by the ledger.
func (a *accessor) byLedger(namespace string) bool {
	n := tenant.Flat(namespace).Space()
	return a.ledger != nil && n.IsSpace()
}

// limits reports whether a namespace has quotas.
func (a *accessor) limits(namespace string) bool {
	quotas, err := a.latest.List(namespace)
	if err != nil {
		return true
	}
	for _, quota := range quotas {
		if !tenantquota.IsTenantQuota(quota) {
			return true
		}
	}
	return false
}

// GetQuotas returns the newest known quotas of a namespace. The evaluator may
// change what it gets.
func (a *accessor) GetQuotas(namespace string) ([]corev1.ResourceQuota, error) {
	if a.byLedger(namespace) {
		return a.ledger.QuotasIn(namespace)
	}
	latest, err := a.latest.List(namespace)
	if err != nil {
		return nil, err
	}
	quotas := make([]corev1.ResourceQuota, 0, len(latest))
	for _, quota := range latest {
		if !tenantquota.IsTenantQuota(quota) {
			quotas = append(quotas, *quota.DeepCopy())
		}
	}
	return quotas, nil
}

// UpdateQuotaStatus writes a charge. It fails with a conflict if the quota has
// changed meanwhile; GetQuotas then returns the quota as it is.
func (a *accessor) UpdateQuotaStatus(charged *corev1.ResourceQuota) error {
	if a.byLedger(charged.Namespace) {
		return a.ledger.ChargeQuota(charged)
	}
	ctx := context.Background()
	quotas := a.client.CoreV1().ResourceQuotas(charged.Namespace)
	updated, err := quotas.UpdateStatus(ctx, charged, metav1.UpdateOptions{})
	switch {
	case err == nil:
		a.latest.Remember(updated)
		return nil
	case apierrors.IsConflict(err):
		if current, getErr := quotas.Get(ctx, charged.Name, metav1.GetOptions{}); getErr == nil {
			a.latest.Remember(current)
		}
		return err
	default:
		return err
	}
}
