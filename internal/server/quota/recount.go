package quota

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime/schema"
	quota "k8s.io/apiserver/pkg/quota/v1"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/client-go/util/retry"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"

	"github.com/tenantry/tenantry/internal/process/backlog"
	"github.com/tenantry/tenantry/internal/tenant"
)

const (
	// SettleTime is longer than any request takes that was charged: they begin in a window of an advance
	// (settleWindows), end after a minute, and giving back after writeTimeout.
	SettleTime = 2 * time.Minute
	// recountRate is how many tenants are recounted in a second at most.
	recountRate = 25
	// countWorkers count new quotas of tenants, and as many those of namespaces.
	countWorkers = 4
	// minBackoff and maxBackoff bound the time after which a count that has failed is tried again.
	minBackoff, maxBackoff = 5 * time.Millisecond, time.Minute
)

// recounter counts what spaces hold: what has a new limit at once, the rest when a
// tenant has been quiet. An idle tenant costs nothing here once it is recounted.
//
// What is used is written before or after what is stored, so that it differs while
// something is under way. A count is believed if the quota did not change for the
// time that anything can take, before it for what was under way then, and after it,
// if there is something to give back, for what the count has not seen.
type recounter struct {
	store   store
	measure measureFunc
	countIn countFunc
	settle  time.Duration

	// counting is what several wait for.
	counting singleflight.Group
	// uncounted are tenants whose own quotas have new limits. They do not wait for quotas of namespaces, of which a tenant
	// makes as many as it likes: these are in custom, and their tenants take turns.
	uncounted workqueue.TypedRateLimitingInterface[tenant.Name]
	turns     workqueue.TypedDelayingInterface[tenant.Name]
	custom    *backlog.Backlog[tenant.Name, flatName]
	quiet     workqueue.TypedDelayingInterface[tenant.Name]

	mu       sync.Mutex
	observed map[tenant.Name]*observation
}

// observation is of a tenant that is to be recounted.
type observation struct {
	// version is that of the quota since.
	version string
	since   time.Time
	// counted is what the space held then, nil if it was not counted.
	counted corev1.ResourceList
}

// measureFunc returns what a space uses of everything that has a limit.
type measureFunc func(ctx context.Context, n tenant.Name, limits corev1.ResourceList) (corev1.ResourceList, error)

// countFunc counts the objects of each of the resources in a namespace.
type countFunc func(ctx context.Context, n tenant.Name, resources []schema.GroupResource, namespace string) (map[schema.GroupResource]int64, error)

func newRecounter(s store, measure measureFunc, countIn countFunc, settle time.Duration) *recounter {
	return &recounter{
		store: s, measure: measure, countIn: countIn, settle: cmp.Or(settle, SettleTime),
		uncounted: workqueue.NewTypedRateLimitingQueueWithConfig(workqueue.DefaultTypedControllerRateLimiter[tenant.Name](),
			workqueue.TypedRateLimitingQueueConfig[tenant.Name]{Name: "tenant_quota_count"}),
		turns: workqueue.NewTypedDelayingQueueWithConfig(
			workqueue.TypedDelayingQueueConfig[tenant.Name]{Name: "namespace_quota_count"}),
		custom: backlog.New[tenant.Name, flatName](minBackoff, maxBackoff),
		quiet: workqueue.NewTypedDelayingQueueWithConfig(
			workqueue.TypedDelayingQueueConfig[tenant.Name]{Name: "tenant_quota_recount"}),
		observed: make(map[tenant.Name]*observation),
	}
}

// changed is called with every quota that has changed.
func (r *recounter) changed(q *corev1.ResourceQuota) {
	n := tenant.Flat(q.Namespace).Space()
	if !IsTenantQuota(q) {
		if n.IsSpace() && len(uncountedCustom(q)) > 0 {
			r.custom.Add(n, nameOf(q))
			r.turns.Add(n)
		}
		return
	}
	if !complete(q) {
		r.uncounted.Add(n)
	}
	r.observe(n, q.ResourceVersion)
}

// doubt makes a tenant recounted of which it is not known what it was charged.
func (r *recounter) doubt(n tenant.Name) { r.observe(n, "") }

// notRefunded leaves what a quota has not got back to a recount, that of a namespace to
// upstream's controller.
func (r *recounter) notRefunded(of ref) {
	if n := of.namespace.Space(); of.flatName == keyOf(n) {
		r.doubt(n)
	}
}

// observe begins to wait for the tenant to be quiet.
func (r *recounter) observe(n tenant.Name, version string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	o, ok := r.observed[n]
	if ok && version != "" && o.version == version {
		return
	}
	r.observed[n] = &observation{version: version, since: time.Now()}
	if !ok {
		r.quiet.AddAfter(n, r.settle)
	}
}

func (r *recounter) run(ctx context.Context) {
	go func() {
		<-ctx.Done()
		r.uncounted.ShutDown()
		r.turns.ShutDown()
		r.quiet.ShutDown()
	}()
	for range countWorkers {
		go r.countNew(ctx)
		go r.countInTurns(ctx)
	}
	r.recountQuiet(ctx)
}

// countNew counts for tenants' own quotas.
func (r *recounter) countNew(ctx context.Context) {
	for {
		n, shutdown := r.uncounted.Get()
		if shutdown {
			return
		}
		if _, err := r.count(ctx, n); err != nil {
			klog.ErrorS(err, "Counting what has a new limit", "tenant", n)
			r.uncounted.AddRateLimited(n)
		} else {
			r.uncounted.Forget(n)
		}
		r.uncounted.Done(n)
	}
}

// countInTurns counts for quotas of namespaces, for one of a tenant in a turn.
func (r *recounter) countInTurns(ctx context.Context) {
	for {
		n, shutdown := r.turns.Get()
		if shutdown {
			return
		}
		for _, key := range r.custom.Take(n, 1) {
			if err := r.countCustom(ctx, key); err != nil {
				klog.ErrorS(err, "Counting what has a new limit", "quota", key)
				r.custom.Retry(n, key)
			} else {
				r.custom.Done(n, key)
			}
		}
		r.turns.Done(n)
		if after := r.custom.Next(n); after > 0 {
			r.turns.AddAfter(n, after)
		}
	}
}

// countCustom counts the custom resources that the quota of a namespace newly limits.
func (r *recounter) countCustom(ctx context.Context, key flatName) error {
	n, namespace := key.namespace.Split()
	current, err := r.store.Get(ctx, key)
	if err != nil || current == nil {
		return err
	}
	uncounted := uncountedCustom(current)
	if len(uncounted) == 0 {
		return nil
	}
	counts, err := r.countIn(ctx, n, slices.Collect(maps.Values(uncounted)), namespace)
	if err != nil {
		return err
	}
	_, err = r.store.Update(ctx, key, func(q *corev1.ResourceQuota) error {
		used := make(corev1.ResourceList, len(q.Status.Hard))
		maps.Copy(used, q.Status.Used)
		for name, counted := range uncountedCustom(q) {
			if count, ok := counts[counted]; ok {
				used[name] = *resource.NewQuantity(count, resource.DecimalSI)
			}
		}
		q.Status.Used = used
		return nil
	})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

func (r *recounter) recountQuiet(ctx context.Context) {
	limiter := flowcontrol.NewTokenBucketRateLimiter(recountRate, 1)
	for {
		n, shutdown := r.quiet.Get()
		if shutdown || limiter.Wait(ctx) != nil {
			return
		}
		again, err := r.recount(ctx, n)
		if err != nil {
			klog.ErrorS(err, "Recounting what a tenant uses", "tenant", n)
			again = r.settle
		}
		r.quiet.Done(n)
		if again > 0 {
			r.quiet.AddAfter(n, again)
		}
	}
}

// count puts the limits of the quota of n in force and counts what has a new one, again if
// the limits change meanwhile. What had one before was charged all the time and stays. It
// returns nil if there is no quota.
func (r *recounter) count(ctx context.Context, n tenant.Name) (*corev1.ResourceQuota, error) {
	counted, err, _ := r.counting.Do(string(n), func() (any, error) {
		var q *corev1.ResourceQuota
		err := retry.RetryOnConflict(retry.DefaultRetry, func() (err error) {
			q, err = r.countOnce(context.WithoutCancel(ctx), n)
			return err
		})
		return q, err
	})
	return counted.(*corev1.ResourceQuota), err
}

func (r *recounter) countOnce(ctx context.Context, n tenant.Name) (*corev1.ResourceQuota, error) {
	current, err := r.store.Get(ctx, keyOf(n))
	if err != nil || current == nil || complete(current) {
		return current, err
	}
	counted, err := r.measure(ctx, n, current.Spec.Hard)
	if err != nil {
		return nil, err
	}
	updated, err := r.store.Update(ctx, keyOf(n), func(q *corev1.ResourceQuota) error {
		if !quota.Equals(q.Spec.Hard, current.Spec.Hard) {
			return apierrors.NewConflict(quotaResource, q.Name, fmt.Errorf("its limits have changed while it was counted"))
		}
		used := make(corev1.ResourceList, len(counted))
		for name, amount := range counted {
			if known, ok := q.Status.Used[name]; ok {
				amount = known
			}
			used[name] = amount
		}
		q.Status = corev1.ResourceQuotaStatus{Hard: q.Spec.Hard.DeepCopy(), Used: used}
		return nil
	})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return updated, err
}

// recount looks at a tenant that may have been quiet for long enough, and returns
// when to look again, zero if never.
func (r *recounter) recount(ctx context.Context, n tenant.Name) (time.Duration, error) {
	o, ok := r.observation(n)
	if !ok {
		return 0, nil
	}
	if wait := r.settle - time.Since(o.since); wait > 0 {
		return wait, nil
	}
	q, err := r.store.Get(ctx, keyOf(n))
	switch {
	case err != nil:
		return 0, err
	case q == nil:
		return r.forget(n, o), nil
	case q.ResourceVersion != o.version:
		r.observe(n, q.ResourceVersion)
		return r.settle, nil
	case o.counted != nil:
		return r.correct(ctx, n, q, o.counted)
	}
	counted, err := r.measure(ctx, n, q.Status.Hard)
	if err != nil {
		return 0, err
	}
	if quota.Equals(counted, q.Status.Used) {
		return r.forget(n, o), nil
	}
	if fits, _ := quota.LessThanOrEqual(counted, q.Status.Used); !fits {
		return r.correct(ctx, n, q, quota.Max(counted, q.Status.Used))
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	o.counted, o.since = counted, time.Now()
	return r.settle, nil
}

// correct replaces what is used, if nothing else has changed the quota.
func (r *recounter) correct(ctx context.Context, n tenant.Name, known *corev1.ResourceQuota, used corev1.ResourceList) (time.Duration, error) {
	updated, err := r.store.Update(ctx, keyOf(n), func(q *corev1.ResourceQuota) error {
		if q.ResourceVersion != known.ResourceVersion {
			return apierrors.NewConflict(quotaResource, q.Name, fmt.Errorf("it is in use"))
		}
		q.Status.Used = used
		return nil
	})
	switch {
	case apierrors.IsConflict(err), apierrors.IsNotFound(err):
		r.observe(n, "")
		return r.settle, nil
	case err != nil:
		return 0, err
	}
	klog.InfoS("Corrected what a tenant uses", "tenant", n, "from", known.Status.Used, "to", used)
	r.observe(n, updated.ResourceVersion)
	return r.settle, nil
}

func (r *recounter) observation(n tenant.Name) (*observation, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	o, ok := r.observed[n]
	return o, ok
}

// forget ends the observation of a tenant, unless another has begun, and returns
// when to look at that.
func (r *recounter) forget(n tenant.Name, o *observation) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.observed[n] != o {
		return r.settle
	}
	delete(r.observed, n)
	return 0
}
