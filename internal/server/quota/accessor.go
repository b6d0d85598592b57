package quota

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/admission/plugin/resourcequota"
	quota "k8s.io/apiserver/pkg/quota/v1"

	"github.com/tenantry/tenantry/api/v1alpha1"
	"github.com/tenantry/tenantry/internal/tenant"
)

// writeTimeout ends a write that nobody waits for with a deadline of its own.
const writeTimeout = 30 * time.Second

// store is what Store does.
type store interface {
	Get(ctx context.Context, key types.NamespacedName) (*corev1.ResourceQuota, error)
	Update(ctx context.Context, key types.NamespacedName, change func(*corev1.ResourceQuota) error) (*corev1.ResourceQuota, error)
}

// accessor is where upstream's evaluator reads and charges the quota of a tenant.
// Its namespaces are flattened: they name the tenant, and the one namespace in
// which the quota is.
type accessor struct {
	store  store
	latest *Latest
	// count sets the limits and what is not counted yet.
	count func(ctx context.Context, n tenant.Name) (*corev1.ResourceQuota, error)
}

var _ resourcequota.QuotaAccessor = &accessor{}

// keyOf returns the flattened key of the quota of n.
func keyOf(n tenant.Name) types.NamespacedName {
	return types.NamespacedName{Namespace: tenant.Flatten(n, metav1.NamespaceDefault).String(), Name: v1alpha1.TenantQuota}
}

// known returns what this server knows of the quota of n, nil if nothing.
func (a *accessor) known(n tenant.Name) *corev1.ResourceQuota {
	return a.latest.Get(keyOf(n))
}

// current returns the quota of n with all limits in force and counted, nil if there
// is none.
func (a *accessor) current(ctx context.Context, n tenant.Name) (*corev1.ResourceQuota, error) {
	current := a.known(n)
	if current == nil {
		var err error
		if current, err = a.store.Get(ctx, keyOf(n)); err != nil || current == nil {
			return nil, err
		}
	}
	if complete(current) {
		return current, nil
	}
	counted, err := a.count(ctx, n)
	if counted != nil {
		a.latest.Remember(counted)
	}
	return counted, err
}

// complete reports whether the limits of a quota are in force and counted.
func complete(q *corev1.ResourceQuota) bool {
	if !quota.Equals(q.Spec.Hard, q.Status.Hard) {
		return false
	}
	for name := range q.Spec.Hard {
		if _, ok := q.Status.Used[name]; !ok {
			return false
		}
	}
	return true
}

// GetQuotas implements resourcequota.QuotaAccessor.
func (a *accessor) GetQuotas(namespace string) ([]corev1.ResourceQuota, error) {
	ctx, cancel := context.WithTimeout(context.Background(), writeTimeout)
	defer cancel()
	n := tenant.Flat(namespace).Space()
	current, err := a.current(ctx, n)
	if err != nil || current == nil {
		return nil, err
	}
	return []corev1.ResourceQuota{toCharge(current)}, nil
}

// toCharge returns a copy of a quota for upstream's evaluator. The limits of its
// specification, which the evaluator does not read, are what was used before it
// charged.
func toCharge(current *corev1.ResourceQuota) corev1.ResourceQuota {
	q := *current.DeepCopy()
	q.Spec.Hard = q.Status.Used.DeepCopy()
	return q
}

// UpdateQuotaStatus implements resourcequota.QuotaAccessor. It adds what was charged
// to what is used by now. If that does not fit it fails with a conflict, and the
// evaluator decides anew.
func (a *accessor) UpdateQuotaStatus(charged *corev1.ResourceQuota) error {
	added := quota.RemoveZeros(quota.SubtractWithNonNegativeResult(charged.Status.Used, charged.Spec.Hard))
	err := a.update(nameOf(charged), func(q *corev1.ResourceQuota) error {
		used := quota.Add(q.Status.Used, added)
		if fits, exceeded := quota.LessThanOrEqual(quota.Mask(used, quota.ResourceNames(added)), q.Status.Hard); !fits {
			return apierrors.NewConflict(quotaResource, q.Name, fmt.Errorf("%v is taken by now", exceeded))
		}
		q.Status.Used = quota.Mask(used, quota.ResourceNames(q.Status.Used))
		return nil
	})
	if apierrors.IsConflict(err) {
		ctx, cancel := context.WithTimeout(context.Background(), writeTimeout)
		defer cancel()
		if current, getErr := a.store.Get(ctx, nameOf(charged)); getErr == nil && current != nil {
			a.latest.Remember(current)
		}
	}
	return err
}

// add charges without asking whether it fits.
func (a *accessor) add(key types.NamespacedName, added corev1.ResourceList) error {
	return a.update(key, func(q *corev1.ResourceQuota) error {
		q.Status.Used = quota.Mask(quota.Add(q.Status.Used, added), quota.ResourceNames(q.Status.Used))
		return nil
	})
}

// subtract gives back to any quota. Nothing is ever used less than not at all.
func (a *accessor) subtract(key types.NamespacedName, freed corev1.ResourceList) error {
	return a.update(key, func(q *corev1.ResourceQuota) error {
		names := quota.ResourceNames(q.Status.Used)
		q.Status.Used = quota.SubtractWithNonNegativeResult(q.Status.Used, quota.Mask(freed, names))
		return nil
	})
}

func (a *accessor) update(key types.NamespacedName, change func(*corev1.ResourceQuota) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), writeTimeout)
	defer cancel()
	updated, err := a.store.Update(ctx, key, change)
	if err != nil {
		return err
	}
	a.latest.Remember(updated)
	return nil
}

// refresh reads the quota of n from etcd and reports whether it is newer than what
// this server knew.
func (a *accessor) refresh(ctx context.Context, n tenant.Name) (bool, error) {
	current, err := a.store.Get(ctx, keyOf(n))
	if err != nil || current == nil {
		return false, err
	}
	known := a.known(n)
	a.latest.Remember(current)
	return known != nil && Newer(current, known), nil
}
