package quota

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	quota "k8s.io/apiserver/pkg/quota/v1"
	"k8s.io/klog/v2"

	"github.com/tenantry/tenantry/internal/server/storage"
	"github.com/tenantry/tenantry/internal/spaces/view"
	"github.com/tenantry/tenantry/internal/tenant"
)

// QuotasIn returns the quotas of a namespace of a space for upstream's evaluator.
func (l *Ledger) QuotasIn(namespace string) ([]corev1.ResourceQuota, error) {
	latest, err := l.accessor.latest.List(namespace)
	if err != nil {
		return nil, err
	}
	quotas := make([]corev1.ResourceQuota, 0, len(latest))
	for _, q := range latest {
		if !IsTenantQuota(q) {
			quotas = append(quotas, toCharge(q))
		}
	}
	return quotas, nil
}

// ChargeQuota writes what upstream's evaluator has charged to a quota of QuotasIn.
func (l *Ledger) ChargeQuota(charged *corev1.ResourceQuota) error {
	return l.accessor.UpdateQuotaStatus(charged)
}

// namespaceEntry is a change in a namespace that has quotas. What is charged to them
// is decided by upstream's plugin, what is freed is given back at once.
type namespaceEntry struct {
	ledger    *Ledger
	ctx       context.Context // of the request
	change    storage.Change
	namespace string // flattened
	// old and new are the object in the flattened namespace.
	old, new runtime.Object
	charged  bool
}

// inNamespace returns the entry of a change in a namespace with quotas, nil in
// another.
func (l *Ledger) inNamespace(ctx context.Context, change storage.Change) *namespaceEntry {
	obj := change.New
	if obj == nil {
		obj = change.Old
	}
	accessor, err := meta.Accessor(obj)
	if l.namespaces == nil || err != nil || accessor.GetNamespace() == "" {
		return nil
	}
	e := &namespaceEntry{ledger: l, ctx: ctx, change: change, namespace: tenant.Flatten(change.Tenant, accessor.GetNamespace()).String()}
	if !l.namespaces.Limits(e.namespace) {
		return nil
	}
	if change.Old != nil {
		e.old, _ = flatten(change.Tenant, change.Old) // it has metadata, like the other
	}
	if change.New != nil {
		e.new, _ = flatten(change.Tenant, change.New)
	}
	return e
}

// check says whether the change fits.
func (e *namespaceEntry) check() error { return e.evaluate(true) }

// charge charges the change.
func (e *namespaceEntry) charge() error {
	err := e.evaluate(false)
	if e != nil {
		e.charged = err == nil
	}
	return err
}

func (e *namespaceEntry) evaluate(dryRun bool) error {
	switch {
	case e == nil || e.new == nil:
		return nil
	case unlimited(e.ctx):
		if !dryRun {
			e.each(e.new, e.old, e.ledger.accessor.add)
		}
		return nil
	}
	a := attributes(subresource(e.ctx), e.change, e.old, e.new, e.namespace, dryRun)
	return view.PlainError(e.ledger.namespaces.Evaluate(a), e.change.Tenant)
}

// Settle implements storage.Entry.
func (e *namespaceEntry) Settle(outcome storage.Outcome) {
	switch outcome {
	case storage.Written:
		e.each(e.old, e.new, e.giveBack)
	case storage.Dropped:
		evaluator := e.ledger.meters.of(e.change.Resource).Evaluator
		if e.charged && (unlimited(e.ctx) || evaluator.Handles(attributes(subresource(e.ctx), e.change, e.old, e.new, e.namespace, false))) {
			e.each(e.new, e.old, e.giveBack)
		}
	}
}

func (e *namespaceEntry) giveBack(key types.NamespacedName, freed corev1.ResourceList) error {
	e.ledger.returns.giveBack(key, freed)
	return nil
}

// each calls do with each quota of the namespace and what more uses more of it than
// less. What fails is left to upstream's controller.
func (e *namespaceEntry) each(more, less runtime.Object, do func(key types.NamespacedName, amount corev1.ResourceList) error) {
	if more == nil {
		return
	}
	quotas, err := e.ledger.accessor.latest.List(e.namespace)
	if err != nil {
		klog.ErrorS(err, "Charging the quotas of a namespace", "namespace", e.namespace)
		return
	}
	for _, q := range quotas {
		if IsTenantQuota(q) {
			continue
		}
		amount := quota.RemoveZeros(quota.SubtractWithNonNegativeResult(e.usage(q, more), e.usage(q, less)))
		if len(amount) == 0 {
			continue
		}
		if err := do(nameOf(q), amount); err != nil && !apierrors.IsNotFound(err) {
			klog.ErrorS(err, "Charging a quota", "quota", nameOf(q))
		}
	}
}

// usage returns what an object uses of a quota.
func (e *namespaceEntry) usage(q *corev1.ResourceQuota, obj runtime.Object) corev1.ResourceList {
	if obj == nil {
		return corev1.ResourceList{}
	}
	evaluator := e.ledger.meters.of(e.change.Resource).Evaluator
	if matches, err := evaluator.Matches(q, obj); err != nil || !matches {
		return corev1.ResourceList{}
	}
	usage, err := evaluator.Usage(obj)
	if err != nil {
		return corev1.ResourceList{}
	}
	return quota.Mask(usage, evaluator.MatchingResources(quota.ResourceNames(q.Status.Hard)))
}
