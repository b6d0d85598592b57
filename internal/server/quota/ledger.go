package quota

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/plugin/resourcequota"
	"k8s.io/apiserver/pkg/endpoints/request"
	quota "k8s.io/apiserver/pkg/quota/v1"
	"k8s.io/apiserver/pkg/quota/v1/generic"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	quotainstall "k8s.io/kubernetes/pkg/quota/v1/install"

	"github.com/tenantry/tenantry/internal/server/storage"
	"github.com/tenantry/tenantry/internal/server/storage/cachememory"
	"github.com/tenantry/tenantry/internal/tenant"
)

// conflicts is how often a charge is retried after a conflict with another one. Each
// conflict means that another request was admitted.
const conflicts = 16

// Config is what a Ledger needs.
type Config struct {
	// Store reads and writes quotas.
	Store *Store
	// Informers are those of all spaces in the flattened view.
	Informers informers.SharedInformerFactory
	// Loopback is that of a system administrator with the server's plain URL.
	Loopback *rest.Config
	// Ranges counts what is in etcd.
	Ranges *storage.Ranges
	// Memory bounds what stored objects take in memory, nil if nothing does.
	Memory *cachememory.Budget
	// Terminating reports whether a tenant is being deleted. It is charged for
	// nothing any more.
	Terminating func(tenant.Name) bool
	// Settle is how long a tenant must be quiet for nothing to be under way. Zero
	// is a little more than requests can take.
	Settle time.Duration
	// Stop ends everything, after the last request.
	Stop <-chan struct{}
}

// Ledger charges every tenant for what its space holds.
type Ledger struct {
	accounts    *accounts
	refunds     *refunds
	recounter   *recounter
	measure     *measure
	meters      meters
	evaluator   resourcequota.Evaluator // of tenants' quotas
	memory      *cachememory.Budget
	terminating func(tenant.Name) bool
	// namespaces charges the quotas of namespaces. The admission plugin sets it, as it alone has
	// the configuration for that; it is nil if the plugin is disabled.
	namespaces *namespaces
}

var _ storage.Ledger = &Ledger{}

// New returns a Ledger. It charges from the start, and recounts once it runs.
func New(config Config) (*Ledger, error) {
	client, err := newClient(config.Loopback)
	if err != nil {
		return nil, err
	}
	upstream, err := quotainstall.NewQuotaConfigurationForControllers(func(resource schema.GroupVersionResource) (cache.GenericLister, error) {
		return lister{client: client, ranges: config.Ranges, resource: resource}, nil
	}, config.Informers)
	if err != nil {
		return nil, fmt.Errorf("creating the evaluators of quotas: %w", err)
	}
	meters := newMeters(upstream.Evaluators())
	measure := &measure{evaluators: generic.NewRegistry(upstream.Evaluators()), ranges: config.Ranges, ignored: upstream.IgnoredResources()}
	recounter := newRecounter(config.Store, measure.of, config.Ranges.CountEach, config.Settle)
	latest, err := newLatest(config.Informers.Core().V1().ResourceQuotas(), recounter.changed)
	if err != nil {
		return nil, err
	}
	if err := countStored(config.Informers.Core().V1().ResourceQuotas(), config.Memory); err != nil {
		return nil, err
	}
	accounts := &accounts{store: config.Store, latest: latest, count: recounter.count}
	refunds := &refunds{subtract: accounts.subtract, failed: recounter.notRefunded}
	accounts.advances = newAdvances(recounter.settle, refunds.giveBack)
	return &Ledger{
		accounts:    accounts,
		refunds:     refunds,
		recounter:   recounter,
		measure:     measure,
		meters:      meters,
		evaluator:   newEvaluator(&accessor{read: accounts.ofTenant, write: accounts.charge}, meters, nil, nil, config.Stop),
		memory:      config.Memory,
		terminating: config.Terminating,
	}, nil
}

// Stored returns the number of objects of the space of n and the bytes they take in
// etcd, as the tenant's quota counts them.
func (l *Ledger) Stored(ctx context.Context, n tenant.Name) (objects, bytes int64, err error) {
	return l.measure.ranges.Stored(ctx, n, l.measure.isCharged)
}

// Run counts what is new and recounts what may be wrong, until ctx ends.
func (l *Ledger) Run(ctx context.Context) { l.recounter.run(ctx) }

// Tracks implements storage.Ledger. While a space gets what every space has, there
// is no quota yet, and the platform is not charged.
func (l *Ledger) Tracks(ctx context.Context, n tenant.Name, resource schema.GroupResource, namespace string) bool {
	if _, ok := l.measure.ignored[resource]; ok || l.terminating(n) {
		return false
	}
	if namespace != "" && l.namespaces.limits(tenant.Flatten(n, namespace)) {
		return true
	}
	known := l.accounts.known(n)
	if known == nil {
		return !l.accounts.latest.hasSynced() || !tenant.ByPlatform(ctx)
	}
	return !complete(known) || len(l.meters.of(resource).MatchingResources(quota.ResourceNames(known.Status.Hard))) > 0
}

// Charge implements storage.Ledger. It charges the tenant, then the namespace.
func (l *Ledger) Charge(ctx context.Context, change storage.Change) (storage.Entry, error) {
	if isTenantQuota(change.Resource, change.Old) || isTenantQuota(change.Resource, change.New) {
		return nil, nil
	}
	inNamespace := l.inNamespace(ctx, change)
	if err := inNamespace.check(); err != nil {
		return nil, err
	}
	e, err := l.chargeTenant(ctx, change)
	if err != nil {
		if change.New == nil {
			l.recounter.doubt(change.Tenant) // what it has freed is not given back
		}
		return nil, err
	}
	if err := inNamespace.charge(); err != nil {
		e.Settle(storage.Dropped)
		return nil, err
	}
	e.inNamespace = inNamespace
	return e, nil
}

// check says whether a request that writes nothing would fit into the quota of n.
// Its size is not known.
func (l *Ledger) check(n tenant.Name, a admission.Attributes) error {
	resource := a.GetResource()
	if _, ok := l.measure.ignored[resource.GroupResource()]; ok || a.GetOperation() != admission.Create || a.GetSubresource() != "" {
		return nil
	}
	usage, err := l.meters.of(resource.GroupResource()).Evaluator.Usage(a.GetObject())
	if err != nil {
		return err
	}
	return l.evaluator.Evaluate(admission.NewAttributesRecord(newReading(a.GetName(), usage), nil, a.GetKind(),
		keyOf(n).namespace.String(), a.GetName(), resource, "", admission.Create, nil, true, nil))
}

// chargeTenant charges the tenant's quota.
func (l *Ledger) chargeTenant(ctx context.Context, change storage.Change) (*entry, error) {
	n := change.Tenant
	e := &entry{ledger: l, tenant: n}
	current, err := l.quotaOf(ctx, change)
	if err != nil || current == nil {
		return e, err
	}
	meter := l.meters.of(change.Resource)
	names := meter.MatchingResources(quota.ResourceNames(current.Status.Hard))
	if len(names) == 0 {
		return e, nil
	}
	before, err := meter.read(n, change.Old, names, change.Size)
	if err != nil {
		return nil, fmt.Errorf("measuring what was used: %w", err)
	}
	after, err := meter.read(n, change.New, names, change.Size)
	if err != nil {
		return nil, fmt.Errorf("measuring what is used: %w", err)
	}
	e.quota, e.roomy = refOf(current), isRoomy(current)
	e.added = quota.RemoveZeros(quota.SubtractWithNonNegativeResult(after, before))
	e.freed = quota.RemoveZeros(quota.SubtractWithNonNegativeResult(before, after))
	if change.New == nil {
		return e, nil
	}
	a := attributes("", change, newReading(nameIn(change.New), before), newReading(nameIn(change.New), after), keyOf(n).namespace, false)
	force := unlimited(ctx) || endsObject(ctx, change)
	if !force && meter.Evaluator.Handles(attributes(subresource(ctx), change, change.Old, change.New, "", false)) {
		if err := constrain(meter.Evaluator, names, change.New); err != nil {
			return nil, admission.NewForbidden(a, fmt.Errorf("failed quota: %s: %w", current.Name, err))
		}
	}
	switch {
	case len(e.added) == 0:
		return e, nil
	case force:
		return e, l.accounts.add(e.quota, e.added)
	case e.roomy && l.accounts.advances.take(e.quota, e.added):
		return e, nil
	}
	if more := storedIn(e.added); more > 0 {
		if err := l.memory.MayStore(n, storedIn(current.Status.Used), more); err != nil {
			return nil, admission.NewForbidden(a, err)
		}
	}
	return e, l.evaluate(ctx, e.quota, a)
}

// quotaOf returns the quota that a change is charged to. The platform's own
// requests may come before there is one, those of the tenant's users may not.
func (l *Ledger) quotaOf(ctx context.Context, change storage.Change) (*corev1.ResourceQuota, error) {
	current, err := l.accounts.current(ctx, change.Tenant)
	if err != nil || current != nil || change.New == nil || change.Old != nil {
		return current, err
	}
	if tenant.ByPlatform(ctx) {
		return nil, nil
	}
	return nil, apierrors.NewForbidden(change.Resource, nameIn(change.New),
		errors.New("the tenant has no quota yet; try again when the Tenant is Ready"))
}

// endsObject reports whether a change marks an object as deleted, or is one of the platform on its way there. It may
// make the object some bytes larger, which must not keep it: a tenant that has reached its limit gets below it by
// deletions.
func endsObject(ctx context.Context, change storage.Change) bool {
	if change.Old == nil || change.New == nil || !isTerminating(change.New) {
		return false
	}
	return !isTerminating(change.Old) || tenant.ByPlatform(ctx)
}

func isTerminating(obj runtime.Object) bool {
	accessor, err := meta.Accessor(obj)
	return err == nil && accessor.GetDeletionTimestamp() != nil
}

// unlimited reports whether a change is counted without being held to the limits:
// what the platform observes in a status, and on which node a pod is, are facts, and what it publishes is there
// to bind the tenant, which must not be able to leave no room for it. An eviction is a deletion.
func unlimited(ctx context.Context) bool {
	if tenant.ByPublisher(ctx) {
		return true
	}
	switch subresource(ctx) {
	case "eviction": // says in the pod's status and its budget's why the pod ends, and then deletes it
		return true
	case "status", "binding":
		return tenant.ByPlatform(ctx)
	default:
		return false
	}
}

// evaluate lets upstream's evaluator decide and charge.
func (l *Ledger) evaluate(ctx context.Context, of ref, a admission.Attributes) error {
	var err error
	refreshed := false
	for range conflicts {
		err = l.evaluator.Evaluate(a)
		switch {
		case apierrors.IsConflict(err):
			continue
		case apierrors.IsForbidden(err) && !refreshed:
			// Another server may have given back what this one does not know of.
			refreshed = true
			if l.accounts.advances.end(of) {
				continue
			}
			if changed, refreshErr := l.accounts.refresh(ctx, of.flatName); refreshErr == nil && changed {
				continue
			}
		case err != nil && !apierrors.IsForbidden(err):
			l.recounter.doubt(of.namespace.Space()) // it may have been charged
		}
		return err
	}
	return err
}

func isTenantQuota(resource schema.GroupResource, obj runtime.Object) bool {
	if resource != quotaResource || obj == nil {
		return false
	}
	accessor, err := meta.Accessor(obj)
	return err == nil && isQuotaName(accessor.GetNamespace(), accessor.GetName())
}

// subresource returns what a request names; a status, a scale.
func subresource(ctx context.Context) string {
	if info, ok := request.RequestInfoFrom(ctx); ok {
		return info.Subresource
	}
	return ""
}

// attributes are a change as upstream's evaluators are asked about it.
func attributes(subresource string, change storage.Change, before, after runtime.Object, namespace tenant.Flat, dryRun bool) admission.Attributes {
	operation := admission.Update
	if change.Old == nil {
		operation, before, subresource = admission.Create, nil, ""
	}
	return admission.NewAttributesRecord(after, before, schema.GroupVersionKind{}, namespace.String(), nameIn(change.New),
		change.Resource.WithVersion(""), subresource, operation, nil, dryRun, nil)
}

func nameIn(obj runtime.Object) string {
	accessor, err := meta.Accessor(obj)
	if err != nil {
		return ""
	}
	return accessor.GetName()
}

// entry is a change that quotas are charged for.
type entry struct {
	ledger *Ledger
	tenant tenant.Name
	// quota is that of the tenant, which was charged for what is added.
	quota        ref
	added, freed corev1.ResourceList
	// roomy is whether the quota may be charged in advance.
	roomy       bool
	inNamespace *namespaceEntry
}

// Settle implements storage.Entry.
func (e *entry) Settle(outcome storage.Outcome) {
	switch outcome {
	case storage.Written:
		e.giveBack(e.freed)
	case storage.Dropped:
		e.giveBack(e.added)
	case storage.Unknown:
		e.ledger.recounter.doubt(e.tenant)
	}
	e.inNamespace.settle(outcome)
}

func (e *entry) giveBack(freed corev1.ResourceList) {
	if !e.roomy || !e.ledger.accounts.advances.put(e.quota, freed) {
		e.ledger.refunds.giveBack(e.quota, freed)
	}
}
