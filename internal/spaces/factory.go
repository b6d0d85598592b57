package spaces

import (
	"context"
	"fmt"
	"net/http"
	"reflect"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/informers/internalinterfaces"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/tenantry/tenantry/internal/tenant"
)

// Factory is a SharedInformerFactory whose informers read the objects of all
// spaces, flattened. What ends before the factory has a Scope of it.
type Factory struct {
	Groups
	config *rest.Config
	client *http.Client
	resync time.Duration

	mu        sync.Mutex
	informers map[reflect.Type]*shared
	stopped   bool
	running   sync.WaitGroup
}

// shared is an informer of a factory. Its fields are read with the factory's lock.
type shared struct {
	cache.SharedIndexInformer
	// kept is whether the factory itself was asked for it: it goes on when no scope uses it.
	kept   bool
	scopes int
	// stop ends it, and ended is closed then. Both are nil before it runs.
	stop  context.CancelFunc
	ended chan struct{}
	// bound is whether it ends with what the factory was started with.
	bound bool
	// left are the indexes of scopes that have ended.
	left sets.Set[string]
}

var _ informers.SharedInformerFactory = &Factory{}

// NewInformerFactory returns a factory of shared informers over every space, the
// system space included, in the flattened view. config is that of a system
// administrator and names the server's plain URL. resync is how often handlers
// see every object again without a change; zero means never.
//
// Fields that no consumer reads are dropped from the objects: managed fields, the tenant
// annotation (the flattened name says it), and the contents of secrets and config maps,
// except service account tokens and root certificate bundles. Informers with list options
// or indexers are not supported: they get the shared informer of the type.
func NewInformerFactory(config *rest.Config, resync time.Duration) (*Factory, error) {
	config = ConfigIn(config, tenant.Everything)
	config.ContentType = runtime.ContentTypeProtobuf
	config.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	config.NegotiatedSerializer = flatteningSerializer{scheme.Codecs.WithoutConversion()}
	config.RateLimiter = nil
	config.QPS = -1
	config.UserAgent = "tenantry-informers"
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("creating the client of the shared informers: %w", err)
	}
	f := &Factory{
		config:    config,
		client:    client,
		resync:    resync,
		informers: map[reflect.Type]*shared{},
	}
	f.Groups = Groups{f}
	return f, nil
}

// InformerFor returns the shared informer of the type of obj, which must be in
// client-go's scheme. newFunc is not used: the informer reads through the
// factory's own client.
func (f *Factory) InformerFor(obj runtime.Object, _ internalinterfaces.NewInformerFunc) cache.SharedIndexInformer {
	f.mu.Lock()
	defer f.mu.Unlock()
	informer := f.shared(obj)
	informer.kept = true
	return informer.SharedIndexInformer
}

// shared returns the informer of the type of obj. It is called with the lock.
func (f *Factory) shared(obj runtime.Object) *shared {
	key := reflect.TypeOf(obj)
	if informer, ok := f.informers[key]; ok {
		return informer
	}
	informer, err := f.newInformer(obj)
	if err != nil {
		// The signature has no error, and a type outside the scheme is a
		// mistake of the program.
		panic(fmt.Sprintf("creating the shared informer of %T: %v", obj, err))
	}
	f.informers[key] = &shared{SharedIndexInformer: informer, left: sets.New[string]()}
	return f.informers[key]
}

func (f *Factory) newInformer(obj runtime.Object) (cache.SharedIndexInformer, error) {
	kinds, _, err := scheme.Scheme.ObjectKinds(obj)
	if err != nil {
		return nil, err
	}
	resource := resourceOf(kinds[0])
	client, err := f.restClient(resource.GroupVersion())
	if err != nil {
		return nil, err
	}
	lw := cache.NewFilteredListWatchFromClient(client, resource.Resource, metav1.NamespaceAll, func(*metav1.ListOptions) {})
	return cache.NewSharedIndexInformerWithOptions(
		cache.ToListWatcherWithWatchListSemantics(lw, client), obj,
		cache.SharedIndexInformerOptions{
			ResyncPeriod: f.resync,
			Indexers:     cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc},
		}), nil
}

func (f *Factory) restClient(gv schema.GroupVersion) (*rest.RESTClient, error) {
	config := rest.CopyConfig(f.config)
	config.GroupVersion = &gv
	config.APIPath = "/apis"
	if gv.Group == "" {
		config.APIPath = "/api"
	}
	return rest.RESTClientForConfigAndClient(config, f.client)
}

// ForResource returns the shared informer of a resource in client-go's scheme.
func (f *Factory) ForResource(resource schema.GroupVersionResource) (informers.GenericInformer, error) {
	return forResource(f, resource)
}

func forResource(f internalinterfaces.SharedInformerFactory, resource schema.GroupVersionResource) (informers.GenericInformer, error) {
	kind, ok := kindsByResource()[resource]
	if !ok {
		return nil, fmt.Errorf("no informer found for %v", resource)
	}
	obj, err := scheme.Scheme.New(kind)
	if err != nil {
		return nil, fmt.Errorf("creating a %v: %w", kind, err)
	}
	return genericInformer{f.InformerFor(obj, nil), resource.GroupResource()}, nil
}

// Start runs the requested informers that do not run yet. It does not block.
func (f *Factory) Start(stop <-chan struct{}) {
	f.StartWithContext(wait.ContextForChannel(stop))
}

// StartWithContext is Start with a context that ends the informers.
func (f *Factory) StartWithContext(ctx context.Context) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, informer := range f.informers {
		if !informer.kept || informer.bound {
			continue
		}
		f.start(informer)
		if informer.stop != nil {
			informer.bound = true
			context.AfterFunc(ctx, informer.stop)
		}
	}
}

// start runs an informer that does not run yet. It is called with the lock.
func (f *Factory) start(informer *shared) {
	if informer.stop != nil || f.stopped {
		return
	}
	var ctx context.Context
	ctx, informer.stop = context.WithCancel(context.Background())
	informer.ended = make(chan struct{})
	f.running.Go(func() {
		defer close(informer.ended)
		informer.RunWithContext(ctx)
	})
}

// Shutdown waits until all informers have ended; none is started afterwards.
func (f *Factory) Shutdown() {
	f.mu.Lock()
	f.stopped = true
	f.mu.Unlock()
	f.running.Wait()
}

// WaitForCacheSync waits for the informers that run to have read everything.
func (f *Factory) WaitForCacheSync(stop <-chan struct{}) map[reflect.Type]bool {
	return f.WaitForCacheSyncWithContext(wait.ContextForChannel(stop)).Synced
}

// WaitForCacheSyncWithContext is WaitForCacheSync with a context that ends the
// wait.
func (f *Factory) WaitForCacheSyncWithContext(ctx context.Context) cache.SyncResult {
	return waitForSync(ctx, f.runningInformers())
}

func waitForSync(ctx context.Context, running map[reflect.Type]cache.SharedIndexInformer) cache.SyncResult {
	checks := make([]cache.DoneChecker, 0, len(running))
	for _, informer := range running {
		checks = append(checks, informer.HasSyncedChecker())
	}
	synced := cache.WaitFor(ctx, "", checks...)
	result := cache.SyncResult{Synced: make(map[reflect.Type]bool, len(running))}
	for key, informer := range running {
		result.Synced[key] = informer.HasSynced()
	}
	if !synced {
		result.Err = context.Cause(ctx)
	}
	return result
}

func (f *Factory) runningInformers() map[reflect.Type]cache.SharedIndexInformer {
	f.mu.Lock()
	defer f.mu.Unlock()
	running := map[reflect.Type]cache.SharedIndexInformer{}
	for key, informer := range f.informers {
		if informer.stop != nil {
			running[key] = informer.SharedIndexInformer
		}
	}
	return running
}

// InformerName is the name of the informers in metrics: none.
func (f *Factory) InformerName() *cache.InformerName { return nil }

type genericInformer struct {
	informer cache.SharedIndexInformer
	resource schema.GroupResource
}

func (g genericInformer) Informer() cache.SharedIndexInformer { return g.informer }

func (g genericInformer) Lister() cache.GenericLister {
	return cache.NewGenericLister(g.informer.GetIndexer(), g.resource)
}
