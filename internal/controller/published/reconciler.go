package published

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/tenantry/tenantry/api/v1alpha1"
	"github.com/tenantry/tenantry/internal/tenant"
)

const (
	// soon is when to look again at what waits for something that goes, and
	// seldom when it has waited long.
	soon, seldom = time.Second, 30 * time.Second
	// later is when to try again what the published object itself is the cause of.
	later = 10 * time.Minute
)

// Reconciler reconciles published objects, each in all spaces.
type Reconciler struct {
	// Client reads Tenants and reports of the system space from a cache, and writes
	// reports.
	Client client.Client
	// Events tells about published objects.
	Events events.EventRecorder
	// Concurrency is the number of copies of one object written at once.
	Concurrency int

	clients   *clients
	resources map[schema.GroupResource]schema.GroupVersionResource
	// contents are the built-in resources of which there may be objects in a namespace.
	contents  []schema.GroupVersionResource
	sources   *sources
	copies    *observedCopies
	conflicts *conflicts
	// watching is the context of the watches of conflicts.
	watching context.Context

	mu            sync.Mutex
	desiredCopies map[Object]*desiredCopy
	// recorded is what the last event about an object was about.
	recorded map[Object]string
	// removals are when the removal of the copies of an object began.
	removals map[Object]time.Time
}

var _ reconcile.TypedReconciler[Object] = &Reconciler{}

// Reconcile implements reconcile.TypedReconciler.
func (r *Reconciler) Reconcile(ctx context.Context, o Object) (reconcile.Result, error) {
	desired, err := r.desired(ctx, o)
	switch {
	case isNotPublishable(err):
		return r.refuse(ctx, o, err)
	case err != nil:
		return reconcile.Result{}, err
	case desired == nil:
		return r.withdraw(ctx, o)
	}
	r.removed(o) // or not yet, but it is to be there again
	tenants, err := r.tenants(ctx)
	if err != nil {
		return reconcile.Result{}, err
	}
	if desired.implied {
		tenants = r.copied(o, tenants)
	}
	if err := r.createReport(ctx, desired, len(tenants)); err != nil {
		return reconcile.Result{}, err
	}
	began := time.Now()
	found := r.inEach(tenants, func(n tenant.Name) (outcome, bool) { return r.known(n, desired) },
		func(n tenant.Name) (outcome, error) { return r.ensure(ctx, n, desired) })
	if found.worked {
		syncSeconds.Observe(time.Since(began).Seconds())
	}
	if found.counts[kept] > 0 || o.Resource == definitions {
		r.conflicts.watch(r.watching, o)
	} else {
		r.conflicts.unwatch(o)
	}
	if err := r.reportFound(ctx, desired, found); err != nil {
		return reconcile.Result{}, err
	}
	switch err := found.err(); {
	case err != nil:
		return reconcile.Result{}, fmt.Errorf("publishing %s: %w", o, err)
	case found.counts[pending] > 0:
		return reconcile.Result{RequeueAfter: r.requeueAfter(ctx, o)}, nil
	case len(found.failed) > 0:
		return reconcile.Result{RequeueAfter: later}, nil
	default:
		return reconcile.Result{}, nil
	}
}

// desired returns what is to be in every space, nil for nothing.
func (r *Reconciler) desired(ctx context.Context, o Object) (*desiredCopy, error) {
	version, published := r.sources.version(o)
	if !published {
		r.cache(o, nil)
		if o.Resource == namespaces && r.sources.hasObjectsIn(o.Name) {
			return impliedNamespace(o.Name)
		}
		if value, invalid := r.sources.invalidValue(o); invalid {
			return nil, errInvalidValue(value)
		}
		return nil, nil
	}
	r.mu.Lock()
	known := r.desiredCopies[o]
	r.mu.Unlock()
	if known != nil && known.version == version {
		return known, nil
	}
	source, err := r.clients.source(ctx, r.resources[o.Resource], o)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading published %s: %w", o, err)
	}
	if !tenant.IsPublished(source.GetAnnotations()) || source.GetDeletionTimestamp() != nil {
		return nil, nil
	}
	desired, err := newDesiredCopy(o, r.resources[o.Resource], source)
	if err != nil {
		return nil, err
	}
	r.cache(o, desired)
	return desired, nil
}

func (r *Reconciler) cache(o Object, desired *desiredCopy) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if desired == nil {
		delete(r.desiredCopies, o)
		return
	}
	r.desiredCopies[o] = desired
}

// tenants returns those whose spaces are to have copies.
func (r *Reconciler) tenants(ctx context.Context) ([]tenant.Name, error) {
	list := &v1alpha1.TenantList{}
	if err := r.Client.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing tenants: %w", err)
	}
	names := make([]tenant.Name, 0, len(list.Items))
	for i := range list.Items {
		if t := &list.Items[i]; t.DeletionTimestamp == nil && tenant.Name(t.Name).IsSpace() {
			names = append(names, tenant.Name(t.Name))
		}
	}
	return names, nil
}

// copied returns those of tenants in whose spaces there is a copy of o.
func (r *Reconciler) copied(o Object, tenants []tenant.Name) []tenant.Name {
	there := r.copies.of(o)
	return slices.DeleteFunc(tenants, func(n tenant.Name) bool {
		_, ok := there[n]
		return !ok
	})
}

// inEach does something in each space, unless its outcome is known.
func (r *Reconciler) inEach(tenants []tenant.Name, known func(tenant.Name) (outcome, bool), do func(tenant.Name) (outcome, error)) *report {
	found := newReport(len(tenants))
	var group errgroup.Group
	group.SetLimit(r.Concurrency)
	for _, n := range tenants {
		if result, ok := known(n); ok {
			found.add(n, result, nil)
			continue
		}
		found.worked = true
		group.Go(func() error {
			result, err := do(n)
			found.add(n, result, err)
			return nil
		})
	}
	_ = group.Wait() // what failed is in the report
	return found
}

// withdraw removes what there is of an object that is published no longer.
func (r *Reconciler) withdraw(ctx context.Context, o Object) (reconcile.Result, error) {
	result, err := r.removeCopies(ctx, o)
	if err != nil || result.RequeueAfter > 0 {
		return result, err
	}
	return result, r.forget(ctx, o)
}

// removeCopies removes the copies of an object. The spaces of tenants that are
// being deleted are emptied anyway.
func (r *Reconciler) removeCopies(ctx context.Context, o Object) (reconcile.Result, error) {
	r.conflicts.unwatch(o)
	tenants, err := r.tenants(ctx)
	if err != nil {
		return reconcile.Result{}, err
	}
	tenants = r.copied(o, tenants)
	var contents []schema.GroupVersionResource
	if o.Resource == namespaces && len(tenants) > 0 {
		if contents, err = r.clients.publishedContents(ctx, r.resources[definitions]); err != nil {
			return reconcile.Result{}, err
		}
		contents = append(contents, r.contents...)
	}
	found := r.inEach(tenants, func(tenant.Name) (outcome, bool) { return 0, false },
		func(n tenant.Name) (outcome, error) { return r.remove(ctx, n, o, contents) })
	if len(found.failed) > 0 {
		f := found.failed[0]
		return reconcile.Result{}, fmt.Errorf("removing the copies of %s: in %d of %d spaces, such as that of tenant %q: %w",
			o, len(found.failed), found.spaces, f.tenant, f.err)
	}
	if found.counts[pending] > 0 {
		return reconcile.Result{RequeueAfter: backoff(r.removing(o))}, nil
	}
	r.removed(o)
	if found.spaces > 0 {
		log.FromContext(ctx).Info("Copies removed", "object", o.String(), "spaces", found.spaces)
	}
	return reconcile.Result{}, nil
}

// removing returns for how long the copies of an object have been removed: a tenant's finalizers may
// keep one for ever.
func (r *Reconciler) removing(o Object) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, known := r.removals[o]; !known {
		if r.removals == nil {
			r.removals = map[Object]time.Time{}
		}
		r.removals[o] = time.Now()
	}
	return time.Since(r.removals[o])
}

func (r *Reconciler) removed(o Object) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.removals, o)
}

// refuse removes the copies of what must not be published and says so.
func (r *Reconciler) refuse(ctx context.Context, o Object, reason error) (reconcile.Result, error) {
	result, err := r.removeCopies(ctx, o)
	if err != nil || result.RequeueAfter > 0 {
		return result, err
	}
	_, err = r.writeReport(ctx, o, v1alpha1.PublishedObjectStatus{}, metav1.Condition{
		Type: v1alpha1.ConditionPublished, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonNotPublishable, Message: reason.Error(),
	})
	return reconcile.Result{}, err
}
