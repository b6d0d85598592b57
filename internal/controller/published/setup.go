package published

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/metadata"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/tenantry/tenantry/api/v1alpha1"
	"github.com/tenantry/tenantry/internal/process/keyed"
	"github.com/tenantry/tenantry/internal/progress"
	"github.com/tenantry/tenantry/internal/tenant"
)

// Options configure the controller.
type Options struct {
	// Resources are those of which objects can be published.
	Resources []schema.GroupResource
	// Concurrency is the number of copies written at once.
	Concurrency int
}

const (
	// atOnce is how many objects are reconciled at once.
	atOnce = 4
	// minBackoff and maxBackoff bound the time after which what has failed, if only
	// in one of many spaces, is tried again.
	minBackoff = 100 * time.Millisecond
	maxBackoff = time.Minute
)

// Publisher is the running controller.
type Publisher struct {
	*Reconciler
	cache     cache.Cache
	mapper    meta.RESTMapper
	discovery discovery.DiscoveryInterface
	wanted    []schema.GroupResource
	queue     workqueue.TypedRateLimitingInterface[Object]
	// ready is closed when it is known what is published and copied.
	ready chan struct{}
	// tenantUIDs are those of the tenants that there are or were a while ago, by name.
	tenantUIDs keyed.Values[tenant.Name, types.UID]
	// counting is true while all objects are to be counted again soon.
	counting atomic.Bool
}

// Setup adds the controller to a manager whose configuration names the system
// space.
func Setup(mgr manager.Manager, opts Options) (*Publisher, error) {
	clients, err := newClients(mgr.GetConfig())
	if err != nil {
		return nil, err
	}
	served, err := discovery.NewDiscoveryClientForConfig(mgr.GetConfig())
	if err != nil {
		return nil, fmt.Errorf("creating the discovery client: %w", err)
	}
	p := &Publisher{
		Reconciler: &Reconciler{
			Client:        mgr.GetClient(),
			Events:        mgr.GetEventRecorder("tenantry-publisher"),
			Concurrency:   max(1, opts.Concurrency/atOnce),
			clients:       clients,
			desiredCopies: map[Object]*desiredCopy{},
			recorded:      map[Object]string{},
		},
		cache:     mgr.GetCache(),
		mapper:    mgr.GetRESTMapper(),
		discovery: served,
		wanted:    opts.Resources,
		ready:     make(chan struct{}),
	}
	p.sources = newSources(func(o Object) { p.enqueue(o, 0) })
	p.copies = newObservedCopies(func(o Object) { p.enqueue(o, soon) })
	p.conflicts = newConflicts(func(ctx context.Context, o Object, to observer, seen *progress.Progress) {
		observe(ctx, clients.copies, p.resources[o.Resource], own(o), to, seen)
	}, func(o Object) { p.enqueue(o, 0) })
	err = builder.TypedControllerManagedBy[Object](mgr).
		Named("published").
		WatchesRawSource(p).
		WithOptions(controller.TypedOptions[Object]{
			MaxConcurrentReconciles: atOnce,
			RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[Object](minBackoff, maxBackoff),
		}).
		Complete(p.Reconciler)
	return p, err
}

// enqueue asks for a reconcile of an object, after those of what it may need.
func (p *Publisher) enqueue(o Object, after time.Duration) {
	if queue, ok := p.queue.(priorityqueue.PriorityQueue[Object]); ok {
		queue.AddWithOpts(priorityqueue.AddOpts{After: after, Priority: new(-rank(o.Resource))}, o)
		return
	}
	p.queue.AddAfter(o, after)
}

// Start implements source.TypedSource.
func (p *Publisher) Start(ctx context.Context, queue workqueue.TypedRateLimitingInterface[Object]) error {
	p.queue, p.watching = queue, ctx
	if err := p.handle(ctx, &v1alpha1.Tenant{}, toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { p.tenantAdded(ctx, obj) },
		UpdateFunc: func(before, after any) { p.tenantChanged(ctx, before, after) },
		DeleteFunc: func(obj any) { p.tenantGone(ctx, obj) },
	}); err != nil {
		return fmt.Errorf("watching tenants: %w", err)
	}
	// Reports that are there at the start may be about what is published no longer.
	if err := p.handle(ctx, &v1alpha1.PublishedObject{}, toolscache.ResourceEventHandlerDetailedFuncs{
		AddFunc:    func(obj any, initial bool) { p.reportChanged(obj, initial) },
		DeleteFunc: func(obj any) { p.reportChanged(obj, true) },
	}); err != nil {
		return fmt.Errorf("watching reports: %w", err)
	}
	go p.run(ctx)
	return nil
}

// handle tells a handler about objects of the system space.
func (p *Publisher) handle(ctx context.Context, kind client.Object, handler toolscache.ResourceEventHandler) error {
	informer, err := p.cache.GetInformer(ctx, kind, cache.BlockUntilSynced(false))
	if err != nil {
		return err
	}
	_, err = informer.AddEventHandler(handler)
	return err
}

// reportChanged has an object reconciled whose report somebody else has made or
// removed.
func (p *Publisher) reportChanged(obj any, matters bool) {
	if about, ok := obj.(*v1alpha1.PublishedObject); ok && matters {
		p.enqueue(objectOf(about), 0)
	}
}

// WaitForSync implements source.TypedSyncingSource.
func (p *Publisher) WaitForSync(ctx context.Context) error {
	select {
	case <-p.ready:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("reading what is published and copied: %w", ctx.Err())
	}
}

// run watches published objects and copies.
func (p *Publisher) run(ctx context.Context) {
	err := wait.PollUntilContextCancel(ctx, soon, true, func(ctx context.Context) (bool, error) {
		var unknown []schema.GroupResource
		var err error
		if p.resources, unknown, err = resolve(p.mapper, p.wanted); err == nil {
			p.contents, err = contentsOf(p.discovery)
		}
		if err != nil {
			log.FromContext(ctx).Error(err, "Published objects are not copied yet")
			return false, nil
		}
		if len(unknown) > 0 {
			log.FromContext(ctx).Error(nil, "Some resources cannot be published: they are not built in. Leave them out of publishable", "resources", unknown)
		}
		return true, nil
	})
	if err != nil {
		return // ctx has ended
	}
	var begin []*progress.Progress
	watch := func(from metadata.Interface, r schema.GroupVersionResource, labels string, to observer) {
		seen := &progress.Progress{}
		begin = append(begin, seen)
		go observe(ctx, from, r, metav1.ListOptions{LabelSelector: labels}, to, seen)
	}
	for resource, served := range p.resources {
		if resource == namespaces || slices.Contains(p.wanted, resource) {
			watch(p.clients.published, served, "", sourcesOf{p.sources, resource})
		}
		if resource != definitions {
			watch(p.clients.copies, served, tenant.PublishedCopyLabel, copiesOf{p.copies, resource})
		}
	}
	for _, seen := range begin {
		if seen.Await(ctx) != nil {
			return
		}
	}
	close(p.ready)
}
