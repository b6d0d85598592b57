package controlplane

import (
	"context"
	"errors"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/tenantry/tenantry/api/v1alpha1"
	"github.com/tenantry/tenantry/internal/controller/conditions"
)

const (
	// renewalPeriod is how often certificates are looked at.
	renewalPeriod = 12 * time.Hour
	// startPeriod is how long a pod may wait for a node and a volume.
	startPeriod = 20 * time.Second
)

// Reconciler reconciles ControlPlanes.
type Reconciler struct {
	// Client reads from the caches, which have nothing but what is the operator's.
	Client client.Client
	// Live reads from the host itself.
	Live   client.Reader
	Events events.EventRecorder
	Options

	// fileGroup is the group of the servers' volumes, nil for that of the host.
	fileGroup *int64
	now       func() time.Time
}

// controllerOptions lets a few ControlPlanes be reconciled at once.
func controllerOptions() controller.Options {
	return controller.Options{MaxConcurrentReconciles: concurrency}
}

// work is what one reconcile knows. The steps fill it in.
type work struct {
	cp *v1alpha1.ControlPlane
	// authorities are set by ensureKeys.
	authorities *authorities
	// adopted are the digests of Secrets of keys that are used because somebody answers for them.
	adopted []string
	// tokenKeys are set by ensureTokenKeys.
	tokenKeys *tokenKeys
	// hosts are the names and addresses of the Service, and endpoint is the URL by which
	// clients reach the servers: as it was before until ensureServices has looked, and empty
	// as long as the host has no address.
	hosts    []string
	endpoint string
	// address is the IP address of the Service in the cluster.
	address string
	// etcdAuthority says which authorities the servers on an external etcd read at their start.
	etcdAuthority string
	// configured are the files by which servers and managers are configured.
	configured sections
	// copies are the Secrets with what others have written, as they have been made.
	copies []v1alpha1.ControlPlaneCopy
	// remaining is a problem that keeps no later step from being done.
	remaining error
	// serversSettled is set by ensureServers: the servers were as the spec says before, and ready.
	serversSettled bool
	// servers, managers and syncer are what observe has found, and syncerIsLeft whether there is one
	// that is not wanted any more.
	servers, managers, syncer observed
	syncerIsLeft              bool
}

// Reconcile implements reconcile.Reconciler.
func (r *Reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	cp := &v1alpha1.ControlPlane{}
	// A cache may not know yet what the last reconcile has written, and a status would be left
	// as it is that only looks as it is to be.
	if err := r.Live.Get(ctx, request.NamespacedName, cp); err != nil {
		if apierrors.IsNotFound(err) {
			forget(request.NamespacedName)
		}
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if cp.DeletionTimestamp != nil { // the host deletes what has an owner
		return reconcile.Result{}, nil
	}
	w := &work{cp: cp, endpoint: cp.Status.Endpoint}
	err := r.ensure(ctx, w)
	if observeErr := r.observe(ctx, w); observeErr != nil {
		return reconcile.Result{}, errors.Join(err, observeErr)
	}
	switch commitErr := r.commit(ctx, w, err); {
	case apierrors.IsConflict(commitErr): // the cache is behind, and what was made is made
		return reconcile.Result{RequeueAfter: conditions.ConflictPeriod}, nil
	case commitErr != nil:
		return reconcile.Result{}, commitErr
	}
	return r.again(w, err)
}

// ensure makes everything, in this order. The first step that fails ends it. The servers come
// late, so that those of a foreign version keep their addresses and certificates, and managers
// and the syncer last, because they talk to servers.
func (r *Reconciler) ensure(ctx context.Context, w *work) error {
	for _, step := range []func(context.Context, *work) error{
		r.ensureAccount,
		r.ensureHostAccounts,
		r.ensureServices,
		r.ensureNetworkPolicy,
		r.ensureBudget,
		r.ensureKeys,
		r.ensureTokenKeys,
		r.ensureServing,
		r.ensureAdmin,
		r.ensureEtcd,
		r.ensureConfiguration,
		r.ensureServers,
		r.ensureManagers,
		r.ensureSyncer,
	} {
		if err := step(ctx, w); err != nil {
			return err
		}
	}
	return w.remaining
}

// again says when to look again if nothing that is watched changes.
func (r *Reconciler) again(w *work, err error) (reconcile.Result, error) {
	switch {
	case conditions.IsProblem(err):
		return reconcile.Result{RequeueAfter: conditions.ProblemPeriod}, nil
	case apierrors.IsInvalid(err):
		return reconcile.Result{}, reconcile.TerminalError(err)
	case err != nil:
		return reconcile.Result{}, err
	case w.servers.starting || w.managers.starting || w.syncer.starting:
		return reconcile.Result{RequeueAfter: startPeriod}, nil
	default:
		return reconcile.Result{RequeueAfter: w.tokenKeys.wait(r.now())}, nil
	}
}
