package kubecontrollers

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
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

// shared is what the controllers share.
type shared struct {
	server    Server
	informers informers.SharedInformerFactory
	// unwrapped is the configuration of clients of the server as it is.
	unwrapped *rest.Config
	discovery discovery.DiscoveryInterface
	mapper    *restmapper.DeferredDiscoveryRESTMapper
	// metadataInformers are those of resources without a Go type.
	metadataInformers metadatainformer.SharedInformerFactory
	bursts            *spaces.Bursts
	custom            *customResources
	started           chan struct{}
}

// environment is what one controller is made with. Its clients give each tenant its share of
// the workers.
type environment struct {
	*shared
	debts *debts
	// options are those of the clients on the flattened view, and identities the configuration
	// of the garbage collector's.
	options    []spaces.Option
	identities *rest.Config
	client     *kubernetes.Clientset
	metadata   metadata.Interface
	scales     scale.ScalesGetter
}

const userAgent = "tenantry-controllers"

// mapperPeriod is how often the REST mapper forgets what it knows, as upstream's
// controller manager does.
const mapperPeriod = 30 * time.Second

func newShared(s Server, views informers.SharedInformerFactory, fence func(http.RoundTripper) http.RoundTripper) (*shared, error) {
	named := rest.CopyConfig(s.LoopbackConfig())
	named.Wrap(fence)
	named.UserAgent = userAgent
	named.WarningHandler = rest.NoWarnings{} // Endpoints are deprecated
	config := spaces.NewClientConfig(named, spaces.WithShortMessages())
	resources, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("creating the discovery client of all spaces: %w", err)
	}
	objects, err := spaces.NewMetadataClient(config)
	if err != nil {
		return nil, fmt.Errorf("creating the metadata client of all spaces: %w", err)
	}
	custom, err := newCustomResources(config)
	if err != nil {
		return nil, fmt.Errorf("creating the informer of custom resources: %w", err)
	}
	return &shared{
		server:            s,
		informers:         views,
		unwrapped:         named,
		discovery:         resources,
		mapper:            restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(resources)),
		metadataInformers: metadatainformer.NewSharedInformerFactory(objects, 0),
		bursts:            spaces.NewBursts(runtime.GOMAXPROCS(0)),
		custom:            custom,
		started:           make(chan struct{}),
	}, nil
}

// environment returns what a controller is made with.
func (e *shared) environment(c builder) (*environment, error) {
	debts := newDebts(c.workers)
	options := e.optionsOf(c, debts)
	config := spaces.NewClientConfig(e.unwrapped, options...)
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("creating its client: %w", err)
	}
	objects, err := spaces.NewMetadataClient(config)
	if err != nil {
		return nil, fmt.Errorf("creating its metadata client: %w", err)
	}
	scales, err := scale.NewForConfig(config, e.mapper, dynamic.LegacyAPIPathResolverFunc, scale.NewDiscoveryScaleKindResolver(e.discovery))
	if err != nil {
		return nil, fmt.Errorf("creating its scale client: %w", err)
	}
	return &environment{
		shared: e, debts: debts, options: options, identities: spaces.NewIdentityClientConfig(e.unwrapped, options...),
		client: client, metadata: objects, scales: boundedScales{scales},
	}, nil
}

// optionsOf returns those of a controller's clients.
func (e *shared) optionsOf(c builder, t *debts) []spaces.Option {
	var ownerOf func(namespace tenant.Flat, pod string) types.UID
	if c.ownsPods {
		ownerOf = e.ownerOfPod
	}
	options := []spaces.Option{spaces.WithWorkers(c.workers, ownerOf), spaces.WithBursts(e.bursts), spaces.WithShortMessages()}
	if c.charged {
		options = append(options, spaces.WithMeter(t.work))
	}
	if c.workers == oneWorker {
		options = append(options, spaces.WithTimeout(oneWorkerTimeout))
	}
	if c.inTurn != nil {
		options = append(options, spaces.WithTurns(func(method string, n tenant.Name) bool { return c.inTurn(t, method, n) }))
	}
	return options
}

// ownerOfPod returns the UID of what controls a pod, empty if that is not known, or a Job
// that is no more or has finished: each of its pods is by itself what a worker releases.
func (e *shared) ownerOfPod(namespace tenant.Flat, name string) types.UID {
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
func (e *shared) start(ctx context.Context) {
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
func (e *shared) namespacedResources() func() ([]*metav1.APIResourceList, error) {
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
		select {
		case <-e.started:
		default:
			// The namespace controller asks while it is created, and empties nothing by the answer. It ends
			// the process if there is none, whose requests need not end with a lease, and notes for good what
			// cannot be done with a resource, of which a space may define another one by the same name.
			return []*metav1.APIResourceList{{GroupVersion: corev1.SchemeGroupVersion.String()}}, nil
		}
		resources, err := e.discovery.ServerPreferredNamespacedResources()
		undiscovered := &discovery.ErrGroupDiscoveryFailed{}
		if err != nil && !errors.As(err, &undiscovered) {
			return resources, err
		}
		if resources, err = e.custom.addNamespaced(resources); err != nil {
			return nil, err
		}
		known, asked = addUndiscovered(resources, undiscovered), now
		return known, nil
	}
}
