package quota

import (
	"context"
	"errors"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/plugin/resourcequota"
	quota "k8s.io/apiserver/pkg/quota/v1"
	coreclient "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/klog/v2"

	"github.com/tenantry/tenantry/internal/server/storage"
	"github.com/tenantry/tenantry/internal/spaces/view"
	"github.com/tenantry/tenantry/internal/tenant"
)

// namespaces charges the quotas of namespaces, by upstream's evaluator.
type namespaces struct {
	*admission.Handler
	client    coreclient.ResourceQuotasGetter
	accounts  *accounts // of the ledger, nil if there is none
	latest    *latest
	evaluator resourcequota.Evaluator
	// limited is set if the configuration has limitedResources, which need a quota.
	limited bool
}

// limits reports whether a quota may limit anything in a namespace.
func (q *namespaces) limits(namespace tenant.Flat) bool {
	if q == nil {
		return false
	}
	if q.limited || !q.latest.hasSynced() {
		return true
	}
	quotas, err := q.latest.ofNamespace(namespace)
	return err != nil || len(quotas) > 0
}

// evaluate charges a request, or, if it is a dry run, says whether it fits.
func (q *namespaces) evaluate(a admission.Attributes) error {
	if !q.latest.hasSynced() && !q.WaitForReady() {
		return admission.NewForbidden(a, errors.New("not yet ready to handle request"))
	}
	return q.evaluator.Evaluate(a)
}

// write writes a charge. Without a ledger it is written as upstream does it, if nothing else
// has changed the quota.
func (q *namespaces) write(c charge) error {
	if _, is := nameOf(c.after).namespace.Tenant(); is && q.accounts != nil {
		return q.accounts.charge(c)
	}
	ctx, quotas := context.Background(), q.client.ResourceQuotas(c.after.Namespace)
	updated, err := quotas.UpdateStatus(ctx, c.after, metav1.UpdateOptions{})
	if apierrors.IsConflict(err) {
		if current, getErr := quotas.Get(ctx, c.after.Name, metav1.GetOptions{}); getErr == nil {
			q.latest.remember(current)
		}
	}
	if err != nil {
		return err
	}
	q.latest.remember(updated)
	return nil
}

// namespaceEntry is a change in a namespace that has quotas. What is charged to them
// is decided by upstream's evaluator, what is freed is given back at once.
type namespaceEntry struct {
	ledger    *Ledger
	ctx       context.Context // of the request
	change    storage.Change
	namespace tenant.Flat
	// old and new are the object in the flattened namespace.
	old, new runtime.Object
	// quotas are those that there were before the change.
	quotas []*corev1.ResourceQuota
}

// inNamespace returns the entry of a change in a namespace with quotas, nil in
// another.
func (l *Ledger) inNamespace(ctx context.Context, change storage.Change) *namespaceEntry {
	if change.Resource == quotaResource && change.Old != nil && change.New != nil {
		return nil // quotas limit how many quotas there are, and have their status written all the time
	}
	obj := change.New
	if obj == nil {
		obj = change.Old
	}
	accessor, err := meta.Accessor(obj)
	if err != nil || accessor.GetNamespace() == "" {
		return nil
	}
	e := &namespaceEntry{ledger: l, ctx: ctx, change: change, namespace: tenant.Flatten(change.Tenant, accessor.GetNamespace())}
	if !l.namespaces.limits(e.namespace) {
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
func (e *namespaceEntry) check() error {
	if e == nil || e.new == nil || unlimited(e.ctx) {
		return nil
	}
	return view.PlainError(e.ledger.namespaces.evaluate(e.attributes(true)), e.change.Tenant)
}

// charge charges the change.
func (e *namespaceEntry) charge() (err error) {
	if e == nil {
		return nil
	}
	if e.quotas, err = e.ledger.accounts.latest.ofNamespace(e.namespace); err != nil || e.new == nil {
		return err
	}
	if unlimited(e.ctx) {
		e.each(e.new, e.old, e.add)
		return nil
	}
	return view.PlainError(e.ledger.namespaces.evaluate(e.attributes(false)), e.change.Tenant)
}

func (e *namespaceEntry) add(to ref, amount corev1.ResourceList) {
	if err := e.ledger.accounts.add(to, amount); err != nil && !apierrors.IsNotFound(err) {
		klog.ErrorS(err, "Charging a quota", "quota", to.flatName)
	}
}

// settle gives back what the change has freed, or what was charged for it.
func (e *namespaceEntry) settle(outcome storage.Outcome) {
	if e == nil {
		return
	}
	switch outcome {
	case storage.Written:
		e.each(e.old, e.new, e.ledger.refunds.giveBack)
	case storage.Dropped:
		if unlimited(e.ctx) || e.ledger.meters.of(e.change.Resource).Evaluator.Handles(e.attributes(false)) {
			e.each(e.new, e.old, e.ledger.refunds.giveBack)
		}
	}
}

// attributes are the change as upstream's evaluator is asked about it.
func (e *namespaceEntry) attributes(dryRun bool) admission.Attributes {
	return attributes(subresource(e.ctx), e.change, e.old, e.new, e.namespace, dryRun)
}

// each calls do with each quota of the namespace of which more uses more than less, and
// how much. What fails is left to upstream's controller.
func (e *namespaceEntry) each(more, less runtime.Object, do func(of ref, amount corev1.ResourceList)) {
	if more == nil {
		return
	}
	for _, q := range e.quotas {
		amount := quota.RemoveZeros(quota.SubtractWithNonNegativeResult(e.usage(q, more), e.usage(q, less)))
		if len(amount) > 0 {
			do(refOf(q), amount)
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
