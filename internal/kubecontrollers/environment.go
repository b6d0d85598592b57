package kubecontrollers

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/scale"
	jobutil "k8s.io/kubernetes/pkg/controller/job/util"

	"github.com/tenantry/tenantry/internal/spaces"
	"github.com/tenantry/tenantry/internal/tenant"
)

// environment is what the controllers share.
type environment struct {
	server    Server
	informers informers.SharedInformerFactory
	// config is that of clients on the flattened view, identities that of the
	// garbage collector's, and unwrapped that of clients of the server as it is.
	config, identities, unwrapped *rest.Config
	// options are those of a controller's clients.
	options   []spaces.Option
	client    *kubernetes.Clientset
	metadata  metadata.Interface
	discovery discovery.DiscoveryInterface
	mapper    *restmapper.DeferredDiscoveryRESTMapper
	scales    scale.ScalesGetter
	// metadataInformers are those of resources without a Go type.
	metadataInformers metadatainformer.SharedInformerFactory
	bursts            *spaces.Bursts
	// debts are those of one controller.
	debts   *debts
	custom  *customResources
	started chan struct{}
}

const userAgent = "tenantry-controllers"

// mapperPeriod is how often the REST mapper forgets what it knows, as upstream's
// controller manager does.
const mapperPeriod = 30 * time.Second

func newEnvironment(s Server) (*environment, error) {
	named := rest.CopyConfig(s.LoopbackConfig())
	named.UserAgent = userAgent
	named.WarningHandler = rest.NoWarnings{} // Endpoints are deprecated
	e := &environment{
		server:     s,
		informers:  s.Informers(),
		config:     spaces.NewClientConfig(named),
		identities: spaces.NewIdentityClientConfig(named),
		unwrapped:  named,
		bursts:     spaces.NewBursts(runtime.GOMAXPROCS(0)),
		started:    make(chan struct{}),
	}
	discoveryClient, err := discovery.NewDiscoveryClientForConfig(e.config)
	if err != nil {
		return nil, fmt.Errorf("creating the discovery client of all spaces: %w", err)
	}
	e.discovery = discoveryClient
	e.mapper = restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(e.discovery))
	if err := e.createClients(); err != nil {
		return nil, err
	}
	if e.custom, err = newCustomResources(e.config); err != nil {
		return nil, fmt.Errorf("creating the informer of custom resources: %w", err)
	}
	e.metadataInformers = metadatainformer.NewSharedInformerFactory(e.metadata, 0)
	return e, nil
}

// createClients creates the clients by the environment's configuration.
func (e *environment) createClients() (err error) {
	if e.client, err = kubernetes.NewForConfig(e.config); err != nil {
		return fmt.Errorf("creating the client of all spaces: %w", err)
	}
	if e.metadata, err = spaces.NewMetadataClient(e.config); err != nil {
		return fmt.Errorf("creating the metadata client of all spaces: %w", err)
	}
	e.scales, err = scale.NewForConfig(e.config, e.mapper, dynamic.LegacyAPIPathResolverFunc,
		scale.NewDiscoveryScaleKindResolver(e.discovery))
	if err != nil {
		return fmt.Errorf("creating the scale client of all spaces: %w", err)
	}
	return nil
}

// with returns the environment of a controller. Its clients give each tenant its share
// of the workers.
func (e *environment) with(c builder) (*environment, error) {
	own := *e
	var ownerOf func(namespace tenant.Flat, pod string) types.UID
	if c.ownsPods {
		ownerOf = e.ownerOfPod
	}
	own.debts = newDebts(c.workers)
	options := []spaces.Option{spaces.WithWorkers(c.workers, ownerOf), spaces.WithBursts(e.bursts), spaces.WithMeter(own.debts.request)}
	if c.workers == oneWorker {
		options = append(options, spaces.WithTimeout(oneWorkerTimeout))
	}
	if c.inTurn != nil {
		options = append(options, spaces.WithTurns(func(method string, n tenant.Name) bool { return c.inTurn(own.debts, method, n) }))
	}
	own.options = options
	own.config = spaces.NewClientConfig(e.unwrapped, options...)
	own.identities = spaces.NewIdentityClientConfig(e.unwrapped, options...)
	return &own, own.createClients()
}

// ownerOfPod returns the UID of what controls a pod, empty if that is not known, or a Job
// that is no more or has finished: each of its pods is by itself what a worker releases.
func (e *environment) ownerOfPod(namespace tenant.Flat, name string) types.UID {
	pod, err := e.informers.Core().V1().Pods().Lister().Pods(namespace.String()).Get(name)
	if err != nil {
		return ""
	}
	owner := metav1.GetControllerOf(pod)
	if owner == nil {
		return ""
	}
	if owner.Kind == "Job" {
		owning, err := e.informers.Batch().V1().Jobs().Lister().Jobs(namespace.String()).Get(owner.Name)
		if err != nil || owning.UID != owner.UID || jobutil.IsJobFinished(owning) {
			return ""
		}
	}
	return owner.UID
}

// start starts the informers that the controllers asked for.
func (e *environment) start(ctx context.Context) {
	e.informers.StartWithContext(ctx)
	e.metadataInformers.Start(ctx.Done())
	go e.custom.definitions.RunWithContext(ctx)
	close(e.started)
	go wait.Until(e.mapper.Reset, mapperPeriod, ctx.Done())
}

// discoveryAge is how long discovery is believed. It is less than the five
// seconds that the namespace controller waits before it empties a namespace:
// whatever could be created in a namespace before its deletion is known by then.
const discoveryAge = 3 * time.Second

// namespacedResources returns a function that returns the namespaced resources of
// all spaces without asking for every namespace again.
func (e *environment) namespacedResources() func() ([]*metav1.APIResourceList, error) {
	var mu sync.Mutex
	var known []*metav1.APIResourceList
	var asked time.Time
	return func() ([]*metav1.APIResourceList, error) {
		mu.Lock()
		defer mu.Unlock()
		now := time.Now()
		if known != nil && now.Sub(asked) < discoveryAge {
			return known, nil
		}
		resources, err := e.discovery.ServerPreferredNamespacedResources()
		if err != nil {
			return resources, err // what is incomplete is not kept
		}
		select {
		case <-e.started:
		default:
			// The namespace controller asks while it is created, which must not
			// fail, and empties nothing by the answer.
			return resources, nil
		}
		if resources, err = e.custom.addNamespaced(resources); err != nil {
			return nil, err
		}
		known, asked = resources, now
		return known, nil
	}
}
