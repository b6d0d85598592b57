package sync

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	networkinglisters "k8s.io/client-go/listers/networking/v1"
	policylisters "k8s.io/client-go/listers/policy/v1"
	storagelisters "k8s.io/client-go/listers/storage/v1"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/cache"
	endpointsliceutil "k8s.io/endpointslice/util"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/controller/volume/common"
	"k8s.io/utils/clock"

	"github.com/tenantry/tenantry/api/v1alpha1"
	"github.com/tenantry/tenantry/internal/objects"
	"github.com/tenantry/tenantry/internal/process/keyed"
	"github.com/tenantry/tenantry/internal/process/ratelimit"
	"github.com/tenantry/tenantry/internal/tenant"
	"github.com/tenantry/tenantry/internal/workloads/names"
	"github.com/tenantry/tenantry/internal/workloads/network"
	"github.com/tenantry/tenantry/internal/workloads/translate"
)

// requestTimeout is how long a worker waits for an answer: webhooks of tenants may take their time.
const requestTimeout = 10 * time.Second

// workTimeout is how long a worker is busy with one item.
const workTimeout = 3 * requestTimeout

// syncer is what runs while the leases are held.
type syncer struct {
	clock clock.Clock
	clients
	settings

	caches
	tenants cache.SharedIndexInformer
	// liveTenants asks the system space itself.
	liveTenants getter[v1alpha1.Tenant]
	hostCaches  *hostCaches
	hostNodes   cache.SharedIndexInformer
	ranges      *hostRanges
	dns         *dnsService
	ending      *endings

	pacing
	notes
	guards

	// leads is whether this is the one that works.
	leads atomic.Bool
}

// clients are those of both sides, and what these say of the syncer.
type clients struct {
	// spaces writes by flattened names.
	spaces       kubernetes.Interface
	host         kubernetes.Interface
	hostMetadata metadata.Interface
	installation string
	owner        names.Owner
	subjects     []rbacv1.Subject
	routes       *routes
}

// settings are what somebody has chosen.
type settings struct {
	options translate.Options
	// connects is whether the syncer's ServiceAccount connects to pods as well.
	connects bool
	// isolated is nil if nobody asks whether the host enforces policies.
	isolated   *isolation
	testPeriod time.Duration
	// maxNamespaces is how many namespaces of the host a tenant has at most.
	maxNamespaces int
	// image is that of the canaries.
	image string
	// reachable is what pods of all tenants reach.
	reachable network.Reachable
}

// caches are those of all spaces.
type caches struct {
	informers  informers.SharedInformerFactory
	podIndexer cache.Indexer
	pods       corelisters.PodLister
	services   corelisters.ServiceLister
	namespaces corelisters.NamespaceLister
	configMaps corelisters.ConfigMapLister
	secrets    corelisters.SecretLister
	policies   networkinglisters.NetworkPolicyLister
	claims     corelisters.PersistentVolumeClaimLister
	volumes    corelisters.PersistentVolumeLister
	classes    storagelisters.StorageClassLister
	nodes      corelisters.NodeLister
	budgets    policylisters.PodDisruptionBudgetLister
	ingresses  networkinglisters.IngressLister
}

func newCaches(views informers.SharedInformerFactory) (caches, error) {
	core, storage := views.Core().V1(), views.Storage().V1()
	c := caches{
		informers: views, podIndexer: core.Pods().Informer().GetIndexer(),
		pods: core.Pods().Lister(), services: core.Services().Lister(), namespaces: core.Namespaces().Lister(),
		configMaps: core.ConfigMaps().Lister(), secrets: core.Secrets().Lister(), nodes: core.Nodes().Lister(),
		claims: core.PersistentVolumeClaims().Lister(), volumes: core.PersistentVolumes().Lister(), classes: storage.StorageClasses().Lister(),
		policies: views.Networking().V1().NetworkPolicies().Lister(), budgets: views.Policy().V1().PodDisruptionBudgets().Lister(),
		ingresses: views.Networking().V1().Ingresses().Lister(),
	}
	return c, errors.Join(
		common.AddIndexerIfNotPresent(c.podIndexer, byClaim, common.PodPVCIndexFunc()),
		common.AddIndexerIfNotPresent(core.PersistentVolumeClaims().Informer().GetIndexer(), byClass, classOf),
	)
}

// pacing is what has tenants, and what is written for them, wait.
type pacing struct {
	queue        *queue
	backoffs     *backoffs
	surplus      *surplus
	room         *room
	scheduling   *scheduling
	writeBudgets writeBudgets
	// statuses are those of pods that are on the host.
	statuses *ratelimit.Limits[item]
	batches  *batches
	// stale are namespaces of the host whose slices may have addresses that no pod of theirs has any more, and
	// staleBytes what is written of such slices.
	stale      *queue
	staleBytes *ratelimit.Limits[tenant.Name]
	// staleEndpoints are what was stale when the slices of a namespace were last looked at: what is so again has been
	// for stalePeriod.
	staleEndpoints *keyed.Values[item, addresses]
}

func newPacing(c clock.Clock, workers int) pacing {
	return pacing{
		queue: newQueue("workloads", workers), backoffs: &backoffs{clock: c}, surplus: newSurplus(), room: newRoom(), scheduling: newScheduling(c),
		writeBudgets: newWriteBudgets(c), batches: newBatches(c),
		statuses: &ratelimit.Limits[item]{PerSecond: rate.Every(statusInterval), AtOnce: statusesAtOnce},
		stale:    newQueue("workloads-stale-endpointslices", staleWorkers), staleBytes: &ratelimit.Limits[tenant.Name]{PerSecond: staleBytes, AtOnce: staleAtOnce},
		staleEndpoints: &keyed.Values[item, addresses]{},
	}
}

// notes are what is known beside the caches.
type notes struct {
	references *references
	copies     *copies
	deleted    *deletions
	idle       *idleSince
	making     *idleSince
	governed   *governed
	checked    *checked
	recent     *recentEvents
	events     *hostEvents
	// selected are labels by which Services have selected pods that have changed since. sliceTracker knows the slices
	// that caches are to have.
	selected     *selected
	sliceTracker *endpointsliceutil.EndpointSliceTracker
	// behind are Services of the host whose slices the cache does not have as they were written.
	behind *idleSince
}

func newNotes(c clock.Clock) notes {
	return notes{
		references: newReferences(), copies: &copies{byNamespace: map[string]*copiesIn{}}, deleted: newDeletions(c), governed: &governed{}, checked: &checked{}, recent: newRecentEvents(c), events: &hostEvents{limits: newEventLimits()},
		selected: &selected{}, sliceTracker: endpointsliceutil.NewEndpointSliceTracker(),
		idle: newIdleSince(c, idleNamespace), making: newIdleSince(c, inTheMaking), behind: newIdleSince(c, behindPeriod),
	}
}

// run reads both sides, and works until ctx ends.
func (s *syncer) run(ctx context.Context, workers int) error {
	s.leads.Store(true)
	remove, synced, err := s.watch()
	defer remove()
	if err != nil {
		return err
	}
	s.informers.StartWithContext(ctx)
	go s.hostNodes.RunWithContext(ctx)
	if !s.hostCaches.run(ctx) || !objects.Follow(ctx, s.tenants) || !s.dns.run(ctx) || !cache.WaitForCacheSync(ctx.Done(), synced...) {
		return ctx.Err()
	}
	if err := s.ranges.watch(ctx, s.enqueueHostNamespaces); err != nil {
		return err
	}
	if err := s.countOrphans(); err != nil {
		klog.FromContext(ctx).Error(err, "Looking what is on the host cluster")
	}
	s.queue.Add(item{kind: receiptItem}) // of an earlier syncer
	s.nameCertificates()
	s.enqueueHostNamespaces()
	if err := s.followRoutes(ctx); err != nil {
		return err
	}
	go s.watchEvents(ctx)
	var running sync.WaitGroup
	if s.isolated != nil {
		running.Go(func() { s.testIsolation(ctx) })
	}
	for range workers {
		running.Go(func() {
			for s.work(ctx, s.queue, workTimeout, s.sync) {
			}
		})
	}
	for range staleWorkers {
		running.Go(func() {
			for s.work(ctx, s.stale, requestTimeout, s.removeStale) {
			}
		})
	}
	<-ctx.Done()
	s.queue.ShutDown()
	s.stale.ShutDown()
	running.Wait()
	return ctx.Err()
}

// work works on one item of a queue, and reports whether there may be another.
func (s *syncer) work(ctx context.Context, q *queue, timeout time.Duration, do func(context.Context, item) error) bool {
	i, shutdown := q.Get()
	if shutdown {
		return false
	}
	began := s.clock.Now()
	defer func() { q.finished(i, s.clock.Since(began)) }()
	if ctx.Err() != nil { // a queue that is shut down still has what is in it
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	if err := do(ctx, i); err != nil {
		report(ctx, q, i, err)
		q.AddRateLimited(i)
		return true
	}
	q.Forget(i)
	return true
}

const (
	// loudRequeues is how often something must have failed to be an error.
	loudRequeues = 6
	// patientRequeues is the same for what passes by itself. Chosen: some minutes after the first failure.
	patientRequeues = 12
)

// errBehind is that a cache has not seen yet what has happened.
var errBehind = errors.New("the cache is behind")

// passes reports whether an error passes by itself: a cache is behind, somebody else changes the object at the same
// time, or a namespace or tenant is being deleted.
func passes(err error) bool {
	return errors.Is(err, errBehind) || errors.Is(err, errNoHome) || apierrors.IsConflict(err) || apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause)
}

// report logs why an item of a queue is to be looked at again.
func report(ctx context.Context, q *queue, i item, err error) {
	logger := klog.FromContext(ctx).WithValues("tenant", i.tenant, "namespace", i.namespace, "name", i.name)
	requeues := q.NumRequeues(i)
	loud := requeues == loudRequeues && !passes(err) || requeues == patientRequeues
	if halted, is := errors.AsType[haltedError](err); is {
		loud = halted.first
	}
	switch {
	case errors.Is(err, context.Canceled):
	case loud:
		logger.Error(err, "Synchronising with the host cluster fails again and again")
	default:
		logger.V(2).Info("Synchronising with the host cluster failed; trying again", "err", err)
	}
}

func (s *syncer) sync(ctx context.Context, i item) error {
	switch i.kind {
	case podItem:
		return s.syncPod(ctx, i)
	case hostNamespaceItem:
		return s.syncHostNamespace(ctx, i)
	case eventItem:
		return s.syncEvent(ctx, i)
	case policyItem:
		return s.syncPolicy(ctx, i)
	case budgetItem:
		return s.syncBudget(ctx, i)
	case ingressItem:
		return s.syncIngress(ctx, i)
	case routeItem:
		return s.syncRoute(ctx, i)
	case serviceItem:
		return s.syncService(ctx, i)
	case slicesItem:
		return s.syncSlices(ctx, i)
	case claimItem:
		return s.syncClaim(ctx, i)
	case nodeItem:
		return s.syncNode(ctx, i)
	case wantedItem:
		return s.syncWanted(ctx, i)
	case receiptItem:
		return s.ending.sync(ctx, i)
	case tenantItem, contentsItem, roomItem, claimantsItem, classItem, selectingItem:
		return s.enqueueMany(i)
	case configMapItem, secretItem, certificateItem:
		return s.syncCopy(ctx, i)
	default:
		return fmt.Errorf("nothing is known of items of the kind %d", i.kind)
	}
}

// countOrphans stops the deletion of orphans before the first one goes, if there are too many in all, or of a tenant.
func (s *syncer) countOrphans() error {
	orphans := map[tenant.Name]int{} // 0 of those that have others
	count := func(host metav1.Object, find func(namespace, name string) (metav1.Object, error)) {
		of, name, ok := s.hostCaches.ours(host)
		if !ok {
			return
		}
		orphan := 0
		if found, err := find(of.Flat().String(), name); err != nil || found.GetUID() != uidOf(host) {
			orphan = 1
		}
		orphans[of.Tenant] += orphan
	}
	for _, obj := range s.hostCaches.pods.GetIndexer().List() {
		count(obj.(*corev1.Pod), func(namespace, name string) (metav1.Object, error) { return s.pods.Pods(namespace).Get(name) })
	}
	for _, obj := range s.hostCaches.services.GetIndexer().List() {
		count(obj.(*corev1.Service), func(namespace, name string) (metav1.Object, error) { return s.services.Services(namespace).Get(name) })
	}
	for _, obj := range s.hostCaches.ingresses.GetIndexer().List() {
		count(obj.(*networkingv1.Ingress), func(namespace, name string) (metav1.Object, error) { return s.ingresses.Ingresses(namespace).Get(name) })
	}
	return s.orphans.begin(orphans, s.hostCaches.objects())
}
