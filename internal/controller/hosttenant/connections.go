package hosttenant

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/tenantry/tenantry/api/v1alpha1"
	"github.com/tenantry/tenantry/internal/controller/controlplane"
	"github.com/tenantry/tenantry/internal/controller/planeclient"
	"github.com/tenantry/tenantry/internal/objects"
)

// connections are those to the system spaces of ControlPlanes, one for each that has Tenants.
type connections struct {
	// host has what the operator has made, and all Tenants by index.
	host client.Reader
	// life is for how long a connection is used, a third of what its certificate is good for.
	life time.Duration
	// outside says that the operator is not in the host cluster, where Services have no meaning.
	outside bool
	// shares are those of ControlPlanes in the workers that reconcile Tenants.
	shares *planeclient.Shares

	mu sync.Mutex
	// ctx and queue are those of the controller of Tenants.
	ctx     context.Context
	queue   workqueue.TypedRateLimitingInterface[reconcile.Request]
	running map[types.NamespacedName]*connection
	// paces stay when a connection is replaced by another one.
	paces map[types.NamespacedName]*pace
}

// connection is a running watch, and a client.
type connection struct {
	space *Space
	// of is what it is made of.
	of   madeOf
	stop context.CancelFunc
	// ended is closed when the watch has been stopped.
	ended chan struct{}
}

type madeOf struct{ access, endpoint, authority string }

// Start implements source.Source.
func (c *connections) Start(ctx context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ctx, c.queue = ctx, queue
	c.running, c.paces = map[types.NamespacedName]*connection{}, map[types.NamespacedName]*pace{}
	return nil
}

// connect returns the system space of a ControlPlane. It starts a watch if there is none, or
// another one if keys or addresses have changed.
func (c *connections) connect(ctx context.Context, cp *v1alpha1.ControlPlane) (*Space, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ctx == nil {
		return nil, errors.New("the controller has not started")
	}
	key := client.ObjectKeyFromObject(cp)
	known := madeOf{}
	before := c.running[key]
	if before != nil {
		known = before.of
	}
	access, err := controlplane.ReadAccess(ctx, c.host, cp, known.access)
	if err != nil {
		return nil, err
	}
	of := madeOf{access.Version, cp.Status.Endpoint, cp.Status.CertificateAuthority}
	if before != nil && of == known {
		return before.space, nil
	}
	if access.System == nil {
		if access, err = controlplane.ReadAccess(ctx, c.host, cp, ""); err != nil {
			return nil, err
		}
	}
	c.end(key)
	made, err := c.begin(key, cp, access)
	if err != nil {
		return nil, err
	}
	made.of = of
	c.running[key] = made
	return made.space, nil
}

// refresh replaces the connection to a ControlPlane, if there is one, should it be out of date.
func (c *connections) refresh(ctx context.Context, cp *v1alpha1.ControlPlane) error {
	c.mu.Lock()
	running := c.running[client.ObjectKeyFromObject(cp)] != nil
	c.mu.Unlock()
	if !running {
		return nil
	}
	_, err := c.connect(ctx, cp)
	return err
}

// stop ends the connection to a ControlPlane.
func (c *connections) stop(key types.NamespacedName) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.end(key)
	delete(c.paces, key)
}

func (c *connections) end(key types.NamespacedName) {
	if before := c.running[key]; before != nil {
		before.stop()
		delete(c.running, key)
	}
}

// begin starts the watch of a ControlPlane's Tenants.
func (c *connections) begin(key types.NamespacedName, cp *v1alpha1.ControlPlane, access controlplane.Access) (*connection, error) {
	config, err := c.config(cp, access)
	if err != nil {
		return nil, err
	}
	scheme, mapper := kinds()
	watching, err := cache.New(config, cache.Options{Scheme: scheme, Mapper: mapper, DefaultTransform: bare})
	if err != nil {
		return nil, fmt.Errorf("creating the watch: %w", err)
	}
	live, err := client.New(planeclient.Bound(config, c.shares, key), client.Options{Scheme: scheme, Mapper: mapper})
	if err != nil {
		return nil, fmt.Errorf("creating the client: %w", err)
	}
	if c.paces[key] == nil {
		c.paces[key] = newPace()
	}
	space := &Space{Keys: access.Tenants, cached: watching, live: live, pace: c.paces[key]}
	made := &connection{space: space, ended: make(chan struct{})}
	ctx, stop := context.WithTimeout(c.ctx, c.life)
	made.stop = stop
	if err := c.watch(ctx, watching, space.pace); err != nil {
		stop()
		return nil, err
	}
	go c.run(ctx, key, made, watching)
	return made, nil
}

// config is that of the operator's user in the system space.
func (c *connections) config(cp *v1alpha1.ControlPlane, access controlplane.Access) (*rest.Config, error) {
	return planeclient.Config(cp, access, c.outside, User, UserGroup)
}

// kinds are those that the operator knows in a control plane. It asks for no discovery.
func kinds() (*runtime.Scheme, meta.RESTMapper) {
	scheme := runtime.NewScheme()
	_ = v1alpha1.AddToScheme(scheme) // which has no error to return
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(v1alpha1.GroupVersion.WithKind("Tenant"), meta.RESTScopeRoot)
	return scheme, mapper
}

// watch asks for reconciles of what changes in a control plane.
func (c *connections) watch(ctx context.Context, watching cache.Cache, pace *pace) error {
	informer, err := watching.GetInformer(ctx, &v1alpha1.Tenant{}, cache.BlockUntilSynced(false))
	if err != nil {
		return fmt.Errorf("creating the watch: %w", err)
	}
	enqueue := func(object any) { c.enqueue(ctx, pace, settlePeriod, object) }
	_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc: enqueue, DeleteFunc: enqueue,
		UpdateFunc: func(before, after any) {
			if settle := settles(before.(*v1alpha1.Tenant), after.(*v1alpha1.Tenant)); settle > 0 {
				c.enqueue(ctx, pace, settle, after)
			}
		},
	})
	return err
}

// settles is after what time a Tenant is looked at that has changed, 0 if it has not.
func settles(before, after *v1alpha1.Tenant) time.Duration {
	switch {
	case before.ResourceVersion == after.ResourceVersion:
		return 0
	case apiequality.Semantic.DeepEqual(uncounted(before), uncounted(after)):
		return countPeriod
	default:
		return settlePeriod
	}
}

// uncounted returns a Tenant without what it may use and uses.
func uncounted(t *v1alpha1.Tenant) v1alpha1.Tenant {
	bare := *t
	bare.ResourceVersion, bare.Status.Quota, bare.Status.Usage = "", nil, nil
	return bare
}

// enqueue asks for a reconcile of what has changed in a control plane, after settle or later.
func (c *connections) enqueue(ctx context.Context, pace *pace, settle time.Duration, object any) {
	if t, is := objects.LastKnown[*v1alpha1.Tenant](object); is && c.isOnHost(ctx, t.Name) {
		request := reconcile.Request{NamespacedName: types.NamespacedName{Name: t.Name}}
		pace.enqueue(t.Name, settle, func() { c.queue.Add(request) })
	}
}

// isOnHost reports whether the host has a Tenant. One that it does not know yet is looked at when it
// does.
func (c *connections) isOnHost(ctx context.Context, name string) bool {
	return !apierrors.IsNotFound(c.host.Get(ctx, types.NamespacedName{Name: name}, &v1alpha1.Tenant{}))
}

// run runs a watch until it is stopped, or its certificate wants renewal: then the Tenants of the
// ControlPlane make another one.
func (c *connections) run(ctx context.Context, key types.NamespacedName, made *connection, watching cache.Cache) {
	defer made.stop()
	go func() {
		defer close(made.ended)
		_ = watching.Start(ctx) // it fails only if it was started before
	}()
	patience := time.AfterFunc(planeclient.AnswerTimeout, func() {
		made.space.late.Store(true)
		if !made.space.Synced() {
			c.enqueueAll(ctx, key)
		}
	})
	defer patience.Stop()
	if watching.WaitForCacheSync(ctx) {
		made.space.synced.Store(true)
		c.enqueueAll(ctx, key)
	}
	<-ctx.Done()
	if !errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return
	}
	c.mu.Lock()
	if c.running[key] == made {
		c.end(key)
	}
	c.mu.Unlock()
	c.enqueueAll(c.ctx, key)
}

// enqueueAll asks for reconciles of all Tenants of a ControlPlane, and of those that are in none: the
// cache may not know yet that this has become theirs.
func (c *connections) enqueueAll(ctx context.Context, key types.NamespacedName) {
	for _, request := range ofOrUndecided(ctx, c.host, key) {
		c.queue.Add(request)
	}
}

// bare is what the cache keeps of a Tenant. Of lists, single objects have not been bounded before.
func bare(object any) (any, error) {
	if t, is := object.(*v1alpha1.Tenant); is {
		n := len(t.Spec.Quota)
		if q := t.Status.Quota; q != nil {
			n += len(q.Hard) + len(q.Used)
		}
		if n > planeclient.ObjectQuantities {
			return nil, fmt.Errorf("the Tenant %q has more than %d quantities: check what answers at the address of its ControlPlane", t.Name, planeclient.ObjectQuantities)
		}
	}
	return cache.TransformStripManagedFields()(object)
}
