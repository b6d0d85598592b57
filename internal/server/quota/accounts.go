package quota

import (
	"context"
	"fmt"
	"math"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	quota "k8s.io/apiserver/pkg/quota/v1"

	"github.com/tenantry/tenantry/api/v1alpha1"
	"github.com/tenantry/tenantry/internal/tenant"
)

// writeTimeout ends a write that nobody waits for with a deadline of its own.
const writeTimeout = 30 * time.Second

// flatName names a quota of any space.
type flatName struct {
	namespace tenant.Flat
	name      string
}

func nameOf(q *corev1.ResourceQuota) flatName { return flatName{tenant.Flat(q.Namespace), q.Name} }

func (f flatName) String() string { return f.namespace.String() + "/" + f.name }

// ref is one quota. One that is created under its name later has another UID.
type ref struct {
	flatName
	uid types.UID
}

func refOf(q *corev1.ResourceQuota) ref { return ref{nameOf(q), q.UID} }

// keyOf returns the name of the quota of n.
func keyOf(n tenant.Name) flatName {
	return flatName{tenant.Flatten(n, metav1.NamespaceDefault), v1alpha1.TenantQuota}
}

// store is what Store does.
type store interface {
	Get(ctx context.Context, key flatName) (*corev1.ResourceQuota, error)
	Update(ctx context.Context, key flatName, change func(*corev1.ResourceQuota) error) (*corev1.ResourceQuota, error)
}

// accounts are the statuses of the quotas in spaces.
type accounts struct {
	store    store
	latest   *latest
	advances *advances
	// count sets the limits of a tenant's quota and counts what is not counted yet.
	count func(ctx context.Context, n tenant.Name) (*corev1.ResourceQuota, error)
}

// known returns what this server knows of the quota of n, nil if nothing.
func (a *accounts) known(n tenant.Name) *corev1.ResourceQuota {
	return a.latest.get(keyOf(n))
}

// current returns the quota of n with all limits in force and counted, nil if there
// is none.
func (a *accounts) current(ctx context.Context, n tenant.Name) (*corev1.ResourceQuota, error) {
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
		a.latest.remember(counted)
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

// ofTenant returns the quota of the tenant of a namespace.
func (a *accounts) ofTenant(namespace tenant.Flat) ([]*corev1.ResourceQuota, error) {
	ctx, cancel := context.WithTimeout(context.Background(), writeTimeout)
	defer cancel()
	current, err := a.current(ctx, namespace.Space())
	if err != nil || current == nil {
		return nil, err
	}
	return []*corev1.ResourceQuota{current}, nil
}

// charge adds what a charge has added to what is used by now, and what is due in advance. If what is added does not
// fit, or if the quota is another one by now, it fails with a conflict.
func (a *accounts) charge(c charge) error {
	of, added, since := refOf(c.before), c.added(), time.Now()
	due, charged := a.advances.due(of, added), int64(0)
	err := a.update(of.flatName, func(q *corev1.ResourceQuota) error {
		if err := of.check(q); err != nil {
			return err
		}
		used := quota.Add(q.Status.Used, added)
		if fits, exceeded := quota.LessThanOrEqual(quota.Mask(used, quota.ResourceNames(added)), q.Status.Hard); !fits {
			return apierrors.NewConflict(quotaResource, q.Name, fmt.Errorf("%v is taken by now", exceeded))
		}
		if charged = 0; due > 0 && isRoomy(q) {
			charged = due
			used = quota.Add(used, storedBytes(charged))
		}
		q.Status.Used = quota.Mask(used, quota.ResourceNames(q.Status.Used))
		return nil
	})
	if apierrors.IsConflict(err) {
		ctx, cancel := context.WithTimeout(context.Background(), writeTimeout)
		defer cancel()
		_, _ = a.refresh(ctx, of.flatName) // the conflict is the error
	}
	if err == nil {
		a.advances.wrote(of, since, added, charged)
	}
	return err
}

// add charges without asking whether it fits.
func (a *accounts) add(to ref, added corev1.ResourceList) error {
	return a.update(to.flatName, func(q *corev1.ResourceQuota) error {
		q.Status.Used = quota.Mask(quota.Add(q.Status.Used, added), quota.ResourceNames(q.Status.Used))
		return nil
	})
}

// subtract gives back to the quota that was charged, and to no other of its name. What is
// used never becomes negative. If more is used than can be stored, it is not known how much
// is left, which is an error: it has to be counted.
func (a *accounts) subtract(from ref, freed corev1.ResourceList) error {
	since := time.Now()
	err := a.update(from.flatName, func(q *corev1.ResourceQuota) error {
		if err := from.check(q); err != nil {
			return err
		}
		names := quota.ResourceNames(q.Status.Used)
		for name := range freed {
			if used := q.Status.Used[name]; used.CmpInt64(math.MaxInt64) >= 0 {
				return fmt.Errorf("quota %v: so much of %s is used that it cannot be stored how much", from.flatName, name)
			}
		}
		q.Status.Used = quota.SubtractWithNonNegativeResult(q.Status.Used, quota.Mask(freed, names))
		return nil
	})
	if err == nil {
		a.advances.wrote(from, since, freed, 0)
	}
	return err
}

// check returns a conflict for another quota.
func (r ref) check(q *corev1.ResourceQuota) error {
	if q.UID != r.uid {
		return apierrors.NewConflict(quotaResource, q.Name, fmt.Errorf("it has UID %q by now, not %q", q.UID, r.uid))
	}
	return nil
}

func (a *accounts) update(key flatName, change func(*corev1.ResourceQuota) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), writeTimeout)
	defer cancel()
	updated, err := a.store.Update(ctx, key, change)
	if err != nil {
		return err
	}
	a.latest.remember(updated)
	return nil
}

// refresh reads a quota from etcd and reports whether it is newer than what this server
// knew.
func (a *accounts) refresh(ctx context.Context, key flatName) (bool, error) {
	current, err := a.store.Get(ctx, key)
	if err != nil || current == nil {
		return false, err
	}
	known := a.latest.get(key)
	a.latest.remember(current)
	return known != nil && newer(current, known), nil
}
