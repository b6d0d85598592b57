package kubecontrollers

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	quotageneric "k8s.io/apiserver/pkg/quota/v1/generic"
	batchlisters "k8s.io/client-go/listers/batch/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/controller-manager/pkg/informerfactory"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/controller"
	"k8s.io/kubernetes/pkg/controller/certificates/rootcacertpublisher"
	"k8s.io/kubernetes/pkg/controller/deployment"
	"k8s.io/kubernetes/pkg/controller/disruption"
	"k8s.io/kubernetes/pkg/controller/endpoint"
	"k8s.io/kubernetes/pkg/controller/endpointslice"
	"k8s.io/kubernetes/pkg/controller/endpointslicemirroring"
	"k8s.io/kubernetes/pkg/controller/job"
	"k8s.io/kubernetes/pkg/controller/namespace"
	"k8s.io/kubernetes/pkg/controller/replicaset"
	"k8s.io/kubernetes/pkg/controller/replication"
	"k8s.io/kubernetes/pkg/controller/resourcequota"
	"k8s.io/kubernetes/pkg/controller/serviceaccount"
	"k8s.io/kubernetes/pkg/controller/statefulset"
	"k8s.io/kubernetes/pkg/controller/ttlafterfinished"
	"k8s.io/kubernetes/pkg/controller/volume/ephemeral"
	"k8s.io/kubernetes/pkg/controller/volume/pvcprotection"
	"k8s.io/kubernetes/pkg/controller/volume/pvprotection"
	quotainstall "k8s.io/kubernetes/pkg/quota/v1/install"

	"github.com/tenantry/tenantry/internal/tenant"
)

// runner is a controller that has been created. It runs until the context ends.
type runner interface {
	Run(ctx context.Context, workers int)
}

// runFunc is a runner that is a function.
type runFunc func(ctx context.Context, workers int)

// Run implements runner.
func (f runFunc) Run(ctx context.Context, workers int) { f(ctx, workers) }

// idle is a controller that the server is not configured for.
var idle = runFunc(func(context.Context, int) {})

// builder creates a controller.
type builder struct {
	name    string
	workers int
	build   func(context.Context, *environment) (runner, error)
	// ownsPods is for controllers of which one worker at a time changes all pods of one
	// owner. The workers of the garbage collector take each pod by itself.
	ownsPods bool
	// inTurn is for a controller that may send thousands of requests for one item, nil for others. It returns whether
	// a worker may send one for a tenant.
	inTurn func(t *debts, method string, n tenant.Name) bool
	// charged is for a controller whose workers get no items from a lister, by which they are measured (see fairInformer):
	// tenants owe the time of each request.
	charged bool
}

// controllers is the list of all controllers.
var controllers = []builder{
	{name: "namespace", workers: deletionWorkers, build: newNamespace},
	{name: "serviceaccount", workers: tenancyWorkers, build: newServiceAccount},
	{name: "serviceaccount-token", workers: fewWorkers, build: newServiceAccountToken},
	{name: "root-ca", workers: tenancyWorkers, build: newRootCA},
	{name: "certificate-signing", workers: fewWorkers, build: newSigning},
	{name: "certificate-request-cleaner", workers: oneWorker, build: newRequestCleaner},
	{name: "pod-certificate-request-cleaner", workers: oneWorker, build: newPodRequestCleaner},
	{name: "resourcequota", workers: quotaWorkers, build: newResourceQuota},
	{name: "garbage-collector", workers: garbageWorkers, build: newGarbageCollector, inTurn: (*debts).collects, charged: true},
	{name: "clusterrole-aggregation", workers: fewWorkers, build: newClusterRoleAggregation},
	{name: "validatingadmissionpolicy-status", workers: oneWorker, build: newPolicyStatus},
	{name: "deployment", workers: workloadWorkers, build: newDeployment, inTurn: mayStillSend},
	{name: "replicaset", workers: workloadWorkers, build: newReplicaSet, ownsPods: true},
	{name: "replication", workers: fewWorkers, build: newReplication, ownsPods: true},
	{name: "statefulset", workers: workloadWorkers, build: newStatefulSet, ownsPods: true, inTurn: mayStillSend},
	{name: "job", workers: workloadWorkers, build: newJob, ownsPods: true},
	{name: "cronjob", workers: fewWorkers, build: newCronJob, inTurn: mayStillSend},
	{name: "endpoints", workers: fewWorkers, build: newEndpoints},
	{name: "endpointslice", workers: fewWorkers, build: newEndpointSlice},
	{name: "endpointslice-mirroring", workers: fewWorkers, build: newEndpointSliceMirroring, inTurn: mayStillSend},
	{name: "disruption", workers: oneWorker, build: newDisruption, inTurn: mayStillRead},
	{name: "ttl-after-finished", workers: fewWorkers, build: newTTLAfterFinished},
	{name: "horizontal-pod-autoscaler", workers: fewWorkers, build: newHorizontalPodAutoscaler},
	{name: "pvc-protection", workers: fewWorkers, build: newPVCProtection},
	{name: "pv-protection", workers: oneWorker, build: newPVProtection},
	{name: "vac-protection", workers: oneWorker, build: newVACProtection},
	{name: "ephemeral-volume", workers: fewWorkers, build: newEphemeralVolume},
	{name: "pod-garbage-collector", workers: oneWorker, build: newPodGC},
}

// Workers. What runs for every new tenant has enough of them for a hundred new
// tenants, with four namespaces each, in a second: a request takes some
// milliseconds on a busy server.
const (
	tenancyWorkers  = 32
	deletionWorkers = 32
	garbageWorkers  = 20
	quotaWorkers    = 16
	workloadWorkers = 10
	fewWorkers      = 5
	oneWorker       = 1

	// oneWorkerTimeout is how long a request of the only worker for all tenants may take: webhooks are called one after
	// the other.
	oneWorkerTimeout = 5 * time.Second
)

const (
	// namespaceResync and quotaResync are upstream's defaults.
	namespaceResync = 5 * time.Minute
	quotaResync     = 5 * time.Minute
	// quotaDiscovery is how often the quota controller looks for new resources.
	quotaDiscovery = 30 * time.Second

	maxEndpoints = 100
)

func newNamespace(ctx context.Context, e *environment) (runner, error) {
	return namespace.NewNamespaceController(ctx, e.client, definedMetadata{e.metadata, e.custom}, e.namespacedResources(),
		e.debts.namespaces(e.informers.Core().V1().Namespaces()), namespaceResync, corev1.FinalizerKubernetes), nil
}

func newServiceAccount(ctx context.Context, e *environment) (runner, error) {
	core := e.informers.Core().V1()
	namespaces := offeredIfInTurn(e.debts, core.Namespaces().Informer(), corelisters.NewNamespaceLister)
	return serviceaccount.NewServiceAccountsController(klog.FromContext(ctx), core.ServiceAccounts(), namespaces, e.client,
		serviceaccount.DefaultServiceAccountsControllerOptions())
}

func newRootCA(_ context.Context, e *environment) (runner, error) {
	core := e.informers.Core().V1()
	configMaps, namespaces := e.debts.rootConfigMaps(core.ConfigMaps(), core.Namespaces())
	return rootcacertpublisher.NewPublisher(configMaps, namespaces, e.client, e.server.RootCA())
}

func newResourceQuota(ctx context.Context, e *environment) (runner, error) {
	listers := quotageneric.ListerFuncForResourceFunc(e.informers.ForResource)
	quotas, err := quotainstall.NewQuotaConfigurationForControllers(listers, e.informers)
	if err != nil {
		return nil, err
	}
	resources := e.discovery.ServerPreferredNamespacedResources
	ofNamespaces := namespaceQuotas(e.informers.Core().V1().ResourceQuotas())
	c, err := resourcequota.NewController(ctx, &resourcequota.ControllerOptions{
		QuotaClient:               newCarefulQuotas(e.client.CoreV1(), ofNamespaces.Lister()),
		ResourceQuotaInformer:     replenished{offeredIfInTurn(e.debts, ofNamespaces.Informer(), corelisters.NewResourceQuotaLister)},
		ResyncPeriod:              controller.StaticResyncPeriodFunc(quotaResync),
		ReplenishmentResyncPeriod: controller.NoResyncPeriodFunc,
		Registry:                  quotageneric.NewRegistry(linearly(quotas.Evaluators(), listers)),
		DiscoveryFunc:             resources,
		IgnoredResourcesFunc:      quotas.IgnoredResources,
		InformersStarted:          e.started,
		InformerFactory:           informerfactory.NewInformerFactory(e.informers, e.metadataInformers),
		UpdateFilter:              quotainstall.DefaultUpdateFilter(),
	})
	return runFunc(func(ctx context.Context, workers int) {
		go c.Sync(ctx, resources, quotaDiscovery)
		c.Run(ctx, workers)
	}), err
}

func newDeployment(ctx context.Context, e *environment) (runner, error) {
	apps := e.informers.Apps().V1()
	deployments, replicaSets, err := newDeployments(apps.Deployments(), apps.ReplicaSets(), e.debts)
	if err != nil {
		return nil, err
	}
	return deployment.NewDeploymentController(ctx, deployments, replicaSets, handledPods(e.informers.Core().V1().Pods()), e.client)
}

func newReplicaSet(ctx context.Context, e *environment) (runner, error) {
	pods := e.informers.Core().V1().Pods()
	replicaSets, err := newReplicaSets(e.informers.Apps().V1().ReplicaSets(), e.debts)
	return replicaset.NewReplicaSetController(ctx, replicaSets, e.debts.pods(pods), e.client, replicaset.BurstReplicas), err
}

func newReplication(ctx context.Context, e *environment) (runner, error) {
	core := e.informers.Core().V1()
	controllers, err := newReplicationControllers(core.ReplicationControllers(), e.debts)
	return replication.NewReplicationManager(ctx, e.debts.pods(core.Pods()), controllers, e.client, replication.BurstReplicas), err
}

func newStatefulSet(ctx context.Context, e *environment) (runner, error) {
	core, apps := e.informers.Core().V1(), e.informers.Apps().V1()
	revisions := madeRevisions(apps.ControllerRevisions())
	sets, err := newStatefulSets(apps.StatefulSets(), revisions.Lister(), e.debts)
	return statefulset.NewStatefulSetController(ctx, handledPods(core.Pods()), sets, core.PersistentVolumeClaims(), revisions, e.client), err
}

func newJob(ctx context.Context, e *environment) (runner, error) {
	jobs, err := newJobs(e.informers.Batch().V1().Jobs(), e.debts)
	if err != nil {
		return nil, err
	}
	return job.NewController(ctx, e.client, e.debts.pods(e.informers.Core().V1().Pods()), jobs, nil, nil)
}

func newEndpoints(ctx context.Context, e *environment) (runner, error) {
	core := e.informers.Core().V1()
	return endpoint.NewEndpointController(ctx, core.Pods(), e.debts.services(core.Services()), smallEndpoints(core.Endpoints()), namedEndpoints{e.client}, 0), nil
}

func newEndpointSlice(ctx context.Context, e *environment) (runner, error) {
	core := e.informers.Core().V1()
	nodes, err := newHostNodes(core.Nodes(), core.Pods().Informer())
	if err != nil {
		return nil, err
	}
	return endpointslice.NewController(ctx, core.Pods(), e.debts.services(core.Services()), nodes,
		e.informers.Discovery().V1().EndpointSlices(), maxEndpoints, e.client, 0), nil
}

func newEndpointSliceMirroring(ctx context.Context, e *environment) (runner, error) {
	core := e.informers.Core().V1()
	// The EndpointSlices of absent Endpoints would be deleted.
	endpoints := offeredFairly(e.debts.informer(smallEndpoints(core.Endpoints()).informer, e.debts.failParked()), corelisters.NewEndpointsLister)
	return endpointslicemirroring.NewController(ctx, endpoints, e.informers.Discovery().V1().EndpointSlices(),
		core.Services(), maxEndpoints, e.client, 0), nil
}

func newDisruption(ctx context.Context, e *environment) (runner, error) {
	core, apps := e.informers.Core().V1(), e.informers.Apps().V1()
	budgets, err := newBudgets(e.informers.Policy().V1().PodDisruptionBudgets())
	return disruption.NewDisruptionController(ctx, handledPods(core.Pods()), e.debts.budgets(budgets),
		core.ReplicationControllers(), apps.ReplicaSets(), apps.Deployments(), apps.StatefulSets(),
		e.client, e.mapper, e.scales, e.discovery), err
}

func newTTLAfterFinished(ctx context.Context, e *environment) (runner, error) {
	return ttlafterfinished.New(ctx, offeredIfInTurn(e.debts, e.informers.Batch().V1().Jobs().Informer(), batchlisters.NewJobLister), e.client), nil
}

func newPVCProtection(ctx context.Context, e *environment) (runner, error) {
	core := e.informers.Core().V1()
	return pvcprotection.NewPVCProtectionController(klog.FromContext(ctx), offeredIfInTurn(e.debts, core.PersistentVolumeClaims().Informer(), corelisters.NewPersistentVolumeClaimLister), core.Pods(), e.client)
}

func newEphemeralVolume(ctx context.Context, e *environment) (runner, error) {
	core := e.informers.Core().V1()
	claims := offered[corelisters.PersistentVolumeClaimLister]{exempting(core.PersistentVolumeClaims().Informer()), core.PersistentVolumeClaims().Lister()}
	return ephemeral.NewController(ctx, e.client, offeredIfInTurn(e.debts, core.Pods().Informer(), corelisters.NewPodLister), claims)
}

func newPVProtection(ctx context.Context, e *environment) (runner, error) {
	volumes := offeredIfInTurn(e.debts, e.informers.Core().V1().PersistentVolumes().Informer(), corelisters.NewPersistentVolumeLister)
	return pvprotection.NewPVProtectionController(klog.FromContext(ctx), volumes, e.client)
}
