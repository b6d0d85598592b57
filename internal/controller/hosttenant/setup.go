package hosttenant

import (
	"context"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/tenantry/tenantry/api/v1alpha1"
	"github.com/tenantry/tenantry/internal/controller/conditions"
	"github.com/tenantry/tenantry/internal/controller/controlplane"
	"github.com/tenantry/tenantry/internal/controller/planeclient"
)

const (
	// concurrency is the number of Tenants that are reconciled at once. A reconcile mostly
	// waits for servers. Those of a ControlPlane that are slow have a quarter of the workers, which
	// must be enough for one that all Tenants are in, on machines that are busy.
	concurrency = 64
	// minBackoff and maxBackoff bound the time after which what has failed is tried again.
	minBackoff = 50 * time.Millisecond
	maxBackoff = time.Minute

	// byControlPlane is the index of Tenants by NAMESPACE/NAME of their ControlPlane, or
	// undecided.
	byControlPlane = "controlPlane"
	undecided      = "-"
)

// Options configure the controller.
type Options struct {
	// Namespaces are those whose ControlPlanes the operator looks after.
	Namespaces []string
	Default    Default
	// Outside says that the operator is not in the host cluster: it asks ControlPlanes at the
	// addresses for their clients, and not at those of their Services.
	Outside bool
}

// Setup adds the controller to the manager of a host cluster.
func Setup(ctx context.Context, mgr manager.Manager, opts Options) error {
	if err := mgr.GetFieldIndexer().IndexField(ctx, &v1alpha1.Tenant{}, byControlPlane, controlPlaneOf); err != nil {
		return err
	}
	spaces := &connections{host: mgr.GetClient(), life: planeclient.Life, outside: opts.Outside, shares: planeclient.NewShares(concurrency)}
	host, err := ownWrites(mgr)
	if err != nil {
		return err
	}
	r := &Reconciler{
		Client: host, Live: mgr.GetAPIReader(), Events: mgr.GetEventRecorder(fieldManager),
		Connect: spaces.connect, Options: opts, now: time.Now, conflicts: conditions.NewConflicts(conditions.ConflictPeriod, maxBackoff),
	}
	if err := builder.ControllerManagedBy(mgr).
		Named("host-tenant-connection").
		For(&v1alpha1.ControlPlane{}, builder.WithPredicates(reachedOtherwise)).
		Watches(&corev1.Secret{}, handler.EnqueueRequestsFromMapFunc(controlplane.ToControlPlane)).
		Watches(&corev1.Service{}, handler.EnqueueRequestsFromMapFunc(controlplane.ToControlPlane)).
		Complete(&refresher{mgr.GetClient(), spaces}); err != nil {
		return err
	}
	toTenants := func(ctx context.Context, cp client.Object) []reconcile.Request {
		return ofOrUndecided(ctx, mgr.GetClient(), client.ObjectKeyFromObject(cp))
	}
	return builder.ControllerManagedBy(mgr).
		Named("host-tenant").
		For(&v1alpha1.Tenant{}, builder.WithPredicates(changed)).
		Watches(&v1alpha1.ControlPlane{}, handler.EnqueueRequestsFromMapFunc(toTenants), builder.WithPredicates(reachedOtherwise)).
		Watches(&corev1.Secret{}, handler.EnqueueRequestsFromMapFunc(ofTenant)).
		WatchesRawSource(spaces).
		WithOptions(controller.Options{
			MaxConcurrentReconciles: concurrency,
			RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](minBackoff, maxBackoff),
		}).
		Complete(r)
}

// ownWrites returns a client whose reads of a Tenant wait until the cache has what this process has written of it: a
// control plane answers sooner than a busy host's watch, and what is decided by an older Tenant is a request that
// conflicts.
func ownWrites(mgr manager.Manager) (client.Client, error) {
	return client.New(mgr.GetConfig(), client.Options{
		HTTPClient: mgr.GetHTTPClient(), Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper(),
		Cache: &client.CacheOptions{Reader: mgr.GetCache(), EnableReadYourWritesConsistency: new(true)},
	})
}

// refresher keeps connections to ControlPlanes as these are.
type refresher struct {
	host   client.Reader
	spaces *connections
}

// Reconcile implements reconcile.Reconciler.
func (r *refresher) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	cp := &v1alpha1.ControlPlane{}
	err := r.host.Get(ctx, request.NamespacedName, cp)
	switch {
	case client.IgnoreNotFound(err) != nil:
		return reconcile.Result{}, err
	case err != nil:
		r.spaces.stop(request.NamespacedName)
		return reconcile.Result{}, nil
	}
	if err := r.spaces.refresh(ctx, cp); err != nil { // Tenants say so when they need it
		log.FromContext(ctx).Info("The connection to the ControlPlane stays as it is", "reason", err.Error())
	}
	return reconcile.Result{}, nil
}

// controlPlaneOf indexes Tenants.
func controlPlaneOf(object client.Object) []string {
	if ref := refOf(object.(*v1alpha1.Tenant)); ref != nil {
		return []string{ref.String()}
	}
	return []string{undecided}
}

// ofOrUndecided returns requests for the Tenants of a ControlPlane, and for those of none.
func ofOrUndecided(ctx context.Context, host client.Reader, cp types.NamespacedName) []reconcile.Request {
	return slices.Concat(tenantsOf(ctx, host, cp.String()), tenantsOf(ctx, host, undecided))
}

// tenantsOf returns requests for the Tenants of a value of the index.
func tenantsOf(ctx context.Context, host client.Reader, indexed string) []reconcile.Request {
	all := &v1alpha1.TenantList{}
	if err := host.List(ctx, all, client.MatchingFields{byControlPlane: indexed}); err != nil {
		log.FromContext(ctx).Error(err, "Listing Tenants", "controlPlane", indexed)
		return nil
	}
	requests := make([]reconcile.Request, len(all.Items))
	for i := range all.Items {
		requests[i].Name = all.Items[i].Name
	}
	return requests
}

// ofTenant maps a Secret with a kubeconfig to its Tenant.
func ofTenant(_ context.Context, made client.Object) []reconcile.Request {
	name := made.GetLabels()[controlplane.TenantLabel]
	if name == "" {
		return nil
	}
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Name: name}}}
}

// changed passes what people change of a Tenant, and not what the operator writes: its status, and the
// finalizer, unless somebody has taken that away.
var changed = predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
	before, after := e.ObjectOld, e.ObjectNew
	return before.GetGeneration() != after.GetGeneration() ||
		(before.GetDeletionTimestamp() == nil) != (after.GetDeletionTimestamp() == nil) ||
		!maps.Equal(before.GetLabels(), after.GetLabels()) ||
		!maps.Equal(before.GetAnnotations(), after.GetAnnotations()) ||
		isHeld(before) && !isHeld(after)
}}

// reachedOtherwise passes ControlPlanes that come, go, become available or have another address.
var reachedOtherwise = predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
	before, after := e.ObjectOld.(*v1alpha1.ControlPlane).Status, e.ObjectNew.(*v1alpha1.ControlPlane).Status
	return before.Endpoint != after.Endpoint || before.CertificateAuthority != after.CertificateAuthority ||
		controlplane.IsAvailable(e.ObjectOld) != controlplane.IsAvailable(e.ObjectNew)
}}
