package hostpublish

import (
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/tenantry/tenantry/api/v1alpha1"
	"github.com/tenantry/tenantry/internal/controller/conditions"
	"github.com/tenantry/tenantry/internal/controller/controlplane"
	"github.com/tenantry/tenantry/internal/controller/hosttenant"
	"github.com/tenantry/tenantry/internal/controller/planeclient"
)

const (
	// concurrency is the number of ControlPlanes that are reconciled at once, and reconcileTimeout
	// how long one may take: then it is the turn of others.
	concurrency      = 8
	reconcileTimeout = time.Minute
)

// Options configure the controller.
type Options struct {
	// Outside says that the operator is not in the host cluster.
	Outside bool
}

// Setup adds the controller to the manager of a host cluster.
func Setup(mgr manager.Manager, opts Options) error {
	followers, err := newFollowers(mgr.GetConfig())
	if err != nil {
		return err
	}
	spaces := &connections{
		host: mgr.GetClient(), mapper: mgr.GetRESTMapper(), outside: opts.Outside, shares: planeclient.NewShares(concurrency),
		made: map[types.NamespacedName]connection{}, now: time.Now,
	}
	r := &Reconciler{
		Client: mgr.GetClient(), Host: mgr.GetAPIReader(), Mapper: mgr.GetRESTMapper(),
		Connect: spaces.connect, conflicts: conditions.NewConflicts(conflictPeriod, conflictLimit),
		Follow: func(cp *v1alpha1.ControlPlane, all []*kind) {
			if len(all) == 0 {
				spaces.forget(client.ObjectKeyFromObject(cp))
			}
			followers.follow(cp, all)
		},
	}
	return builder.ControllerManagedBy(mgr).
		Named("host-publish").
		For(&v1alpha1.ControlPlane{}, builder.WithPredicates(concerned)).
		WatchesRawSource(followers).
		WithOptions(controller.Options{MaxConcurrentReconciles: concurrency, ReconciliationTimeout: reconcileTimeout}).
		Complete(r)
}

// concerned passes ControlPlanes that come and go, whose spec is another one, or that become
// available.
var concerned = predicate.Or[client.Object](predicate.GenerationChangedPredicate{}, predicate.Funcs{
	UpdateFunc: func(e event.UpdateEvent) bool {
		return !controlplane.IsAvailable(e.ObjectOld) && controlplane.IsAvailable(e.ObjectNew)
	},
})

// connections are those to the system spaces of ControlPlanes that publish something. Nothing runs
// for one.
type connections struct {
	host    client.Reader
	mapper  meta.RESTMapper
	outside bool
	shares  *planeclient.Shares
	now     func() time.Time

	mu   sync.Mutex
	made map[types.NamespacedName]connection
}

type connection struct {
	space *Space
	of    string
	until time.Time
}

// connect returns the system space of a ControlPlane.
func (c *connections) connect(ctx context.Context, cp *v1alpha1.ControlPlane) (*Space, error) {
	access, err := controlplane.ReadAccess(ctx, c.host, cp, "")
	if err != nil {
		return nil, err
	}
	key, of := client.ObjectKeyFromObject(cp), access.Version+" "+cp.Status.Endpoint
	c.mu.Lock()
	defer c.mu.Unlock()
	if made, is := c.made[key]; is && made.of == of && c.now().Before(made.until) {
		return made.space, nil
	}
	admin, err := planeclient.Config(cp, access, c.outside, hosttenant.User, hosttenant.UserGroup)
	if err != nil {
		return nil, err
	}
	publisher, err := planeclient.Config(cp, access, c.outside, PublisherUser)
	if err != nil {
		return nil, err
	}
	bound := func(config *rest.Config) *rest.Config { return planeclient.Bound(config, c.shares, key) }
	space, err := newSpace(bound(admin), bound(publisher), c.mapper)
	if err != nil {
		return nil, err
	}
	c.made[key] = connection{space: space, of: of, until: c.now().Add(planeclient.Life)}
	return space, nil
}

func (c *connections) forget(key types.NamespacedName) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.made, key)
}
