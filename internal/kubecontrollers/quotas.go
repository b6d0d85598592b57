package kubecontrollers

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	quota "k8s.io/apiserver/pkg/quota/v1"
	quotageneric "k8s.io/apiserver/pkg/quota/v1/generic"
	coreinformers "k8s.io/client-go/informers/core/v1"
	coreclient "k8s.io/client-go/kubernetes/typed/core/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/utils/lru"
	"k8s.io/utils/ptr"

	tenantquota "github.com/tenantry/tenantry/internal/server/quota"
	"github.com/tenantry/tenantry/internal/tenant"
)

// namespaceQuotas returns the quotas of namespaces, all but those of tenants: upstream's
// controller would count for these what is in their namespace alone.
func namespaceQuotas(informer coreinformers.ResourceQuotaInformer) offered[corelisters.ResourceQuotaLister] {
	return offeredOnly(informer.Informer(), corelisters.NewResourceQuotaLister, func(q *corev1.ResourceQuota) bool { return !tenantquota.IsTenantQuota(q) })
}

// carefulQuotas writes what upstream's quota controller counts. In spaces the server
// charges and gives back by itself (quota.Ledger), and what the controller counts may
// be older than that. So what is not counted yet is written at once, and another count
// if the controller comes to it twice, long enough apart for everything to be seen, of
// a quota that did not change.
type carefulQuotas struct {
	coreclient.ResourceQuotasGetter
	lister corelisters.ResourceQuotaLister
	settle time.Duration

	mu     sync.Mutex
	counts *lru.Cache // that differ from what is charged, by namespace and name
}

// count is what the controller came to.
type count struct {
	version string
	used    corev1.ResourceList
	at      time.Time
}

// maxCounts bounds the quotas that are observed. One that is lost is counted again.
const maxCounts = 1024

func newCarefulQuotas(client coreclient.ResourceQuotasGetter, lister corelisters.ResourceQuotaLister) *carefulQuotas {
	return &carefulQuotas{ResourceQuotasGetter: client, lister: lister, settle: tenantquota.SettleTime, counts: lru.New(maxCounts)}
}

// ResourceQuotas implements corev1client.ResourceQuotasGetter.
func (c *carefulQuotas) ResourceQuotas(namespace string) coreclient.ResourceQuotaInterface {
	client := c.ResourceQuotasGetter.ResourceQuotas(namespace)
	if _, is := tenant.Flat(namespace).Tenant(); !is {
		return client
	}
	return carefulNamespace{client, c}
}

type carefulNamespace struct {
	coreclient.ResourceQuotaInterface
	quotas *carefulQuotas
}

// UpdateStatus implements corev1client.ResourceQuotaInterface.
func (c carefulNamespace) UpdateStatus(ctx context.Context, counted *corev1.ResourceQuota, options metav1.UpdateOptions) (*corev1.ResourceQuota, error) {
	base, err := c.quotas.lister.ResourceQuotas(counted.Namespace).Get(counted.Name)
	if err != nil || base.ResourceVersion != counted.ResourceVersion {
		return c.ResourceQuotaInterface.UpdateStatus(ctx, counted, options) // a conflict
	}
	if !c.quotas.believes(base, counted, time.Now()) {
		counted = counted.DeepCopy()
		for name, charged := range base.Status.Used {
			if _, ok := counted.Status.Used[name]; ok {
				counted.Status.Used[name] = charged
			}
		}
		if quota.Equals(counted.Status.Used, base.Status.Used) && quota.Equals(counted.Status.Hard, base.Status.Hard) {
			return base, nil
		}
	}
	return c.ResourceQuotaInterface.UpdateStatus(ctx, counted, options)
}

// believes reports whether a count may replace what is charged.
func (c *carefulQuotas) believes(base, counted *corev1.ResourceQuota, now time.Time) bool {
	key := types.NamespacedName{Namespace: base.Namespace, Name: base.Name}
	c.mu.Lock()
	defer c.mu.Unlock()
	if known, ok := c.counts.Get(key); ok {
		before := known.(count)
		if before.version == base.ResourceVersion && quota.Equals(before.used, counted.Status.Used) {
			return now.Sub(before.at) >= c.settle
		}
	}
	c.counts.Add(key, count{version: base.ResourceVersion, used: counted.Status.Used, at: now})
	return false
}

// linear counts as upstream's evaluators do, which copy the names of all resources that they have counted for each
// object that they add: a thousand pods with names of their own took minutes.
type linear struct {
	quota.Evaluator
	list quotageneric.ListFuncByNamespace
}

// linearly returns the evaluators, whose objects the listers list.
func linearly(evaluators []quota.Evaluator, listers quota.ListerForResourceFunc) []quota.Evaluator {
	for i, e := range evaluators {
		evaluators[i] = linear{e, quotageneric.ListResourceUsingListerFunc(listers, e.GroupResource().WithVersion("v1"))}
	}
	return evaluators
}

// UsageStats implements quota.Evaluator.
func (e linear) UsageStats(options quota.UsageStatsOptions) (quota.UsageStats, error) {
	stats := quota.UsageStats{Used: corev1.ResourceList{}}
	for _, name := range options.Resources {
		stats.Used[name] = resource.Quantity{Format: resource.DecimalSI}
	}
	objects, err := e.list(options.Namespace)
	if err != nil {
		return stats, fmt.Errorf("listing %s: %w", e.GroupResource(), err)
	}
	scopes := scopesOf(options)
	values := valuesOf(scopes)
	for _, obj := range objects {
		matched, err := e.MatchingScopes(obj, shortened(scopes, values, obj))
		if err != nil {
			return stats, err
		}
		if len(matched) < len(scopes) {
			continue
		}
		used, err := e.Usage(tenantquota.Asked(obj))
		if err != nil {
			return stats, err
		}
		for _, name := range options.Resources {
			if more, ok := used[name]; ok {
				sum := stats.Used[name]
				sum.Add(more)
				stats.Used[name] = sum
			}
		}
	}
	return stats, nil
}

// scopesOf returns all scopes that an object has to be in.
func scopesOf(options quota.UsageStatsOptions) (scopes []corev1.ScopedResourceSelectorRequirement) {
	for _, name := range options.Scopes {
		scopes = append(scopes, corev1.ScopedResourceSelectorRequirement{ScopeName: name, Operator: corev1.ScopeSelectorOpExists})
	}
	if options.ScopeSelector != nil {
		scopes = append(scopes, options.ScopeSelector.MatchExpressions...)
	}
	return scopes
}

// valuesOf returns the values of each scope.
func valuesOf(scopes []corev1.ScopedResourceSelectorRequirement) []sets.Set[string] {
	values := make([]sets.Set[string], len(scopes))
	for i, scope := range scopes {
		values[i] = sets.New(scope.Values...)
	}
	return values
}

// shortened returns scopes with the values alone that are an object's own, or one that is not. What upstream finds
// is the same, which parses all values for each object.
func shortened(scopes []corev1.ScopedResourceSelectorRequirement, values []sets.Set[string], obj runtime.Object) []corev1.ScopedResourceSelectorRequirement {
	own := classesOf(obj)
	short := slices.Clone(scopes)
	for i, scope := range scopes {
		if len(scope.Values) > 1 {
			short[i].Values = slices.DeleteFunc(slices.Clone(own), func(name string) bool { return !values[i].Has(name) })
			if len(short[i].Values) == 0 {
				short[i].Values = scope.Values[:1]
			}
		}
	}
	return short
}

// classesOf returns the names to which the values of a scope may be compared.
func classesOf(obj runtime.Object) []string {
	switch o := obj.(type) {
	case *corev1.Pod:
		return []string{o.Spec.PriorityClassName}
	case *corev1.PersistentVolumeClaim:
		names := []string{ptr.Deref(o.Spec.VolumeAttributesClassName, ""), ptr.Deref(o.Status.CurrentVolumeAttributesClassName, "")}
		if o.Status.ModifyVolumeStatus != nil {
			names = append(names, o.Status.ModifyVolumeStatus.TargetVolumeAttributesClassName)
		}
		return names
	default:
		return nil
	}
}

// maxReplenished is how many limits of the quotas in a namespace of a space are looked at whenever an object there has
// ended.
const maxReplenished = 200

// replenished are the quotas for upstream's controller. It lists those of a namespace for each object there that ends,
// one after the other for all tenants, and compares each of their limits. In spaces that is no more than a check,
// because the server has given back by itself: quotas with many limits are left to the resync.
type replenished struct {
	coreinformers.ResourceQuotaInformer
}

// Lister implements coreinformers.ResourceQuotaInformer.
func (q replenished) Lister() corelisters.ResourceQuotaLister {
	return replenishedQuotas{q.ResourceQuotaInformer.Lister()}
}

type replenishedQuotas struct {
	corelisters.ResourceQuotaLister
}

// ResourceQuotas implements corelisters.ResourceQuotaLister.
func (q replenishedQuotas) ResourceQuotas(namespace string) corelisters.ResourceQuotaNamespaceLister {
	quotas := q.ResourceQuotaLister.ResourceQuotas(namespace)
	if !tenant.Flat(namespace).Space().IsSpace() {
		return quotas
	}
	return replenishedInSpace{quotas}
}

type replenishedInSpace struct {
	corelisters.ResourceQuotaNamespaceLister
}

// List implements corelisters.ResourceQuotaNamespaceLister.
func (q replenishedInSpace) List(selector labels.Selector) ([]*corev1.ResourceQuota, error) {
	quotas, err := q.ResourceQuotaNamespaceLister.List(selector)
	limits := 0
	for _, quota := range quotas {
		limits += len(quota.Status.Hard)
	}
	if limits > maxReplenished {
		return nil, err
	}
	return quotas, err
}
