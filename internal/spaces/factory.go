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
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/informers/internalinterfaces"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/tenantry/tenantry/internal/tenant"
)

// factory is a SharedInformerFactory whose informers read the objects of all
// spaces, flattened.
type factory struct {
	Groups
	config *rest.Config
	client *http.Client
	resync time.Duration

	mu        sync.Mutex
	informers map[reflect.Type]cache.SharedIndexInformer
	started   map[reflect.Type]bool
	stopped   bool
	running   sync.WaitGroup
}

var _ informers.SharedInformerFactory = &factory{}

// NewInformerFactory returns a factory of shared informers over every space, the
// system space included, in the flattened view. config is that of a system
// administrator and names the server's plain URL. resync is how often handlers
// see every object again without a change; zero means never.
//
// Fields that no consumer reads are dropped from the objects: managed fields, the tenant
// annotation (the flattened name says it), and the contents of secrets and config maps,
// except service account tokens and root certificate bundles. Informers with list options
// or indexers are not supported: they get the shared informer of the type.
func NewInformerFactory(config *rest.Config, resync time.Duration) (informers.SharedInformerFactory, error) {
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
	f := &factory{
		config:    config,
		client:    client,
		resync:    resync,
		informers: map[reflect.Type]cache.SharedIndexInformer{},
		started:   map[reflect.Type]bool{},
	}
	f.Groups = Groups{f}
	return f, nil
}

// InformerFor returns the shared informer of the type of obj, which must be in
// client-go's scheme. newFunc is not used: the informer reads through the
// factory's own client.
func (f *factory) InformerFor(obj runtime.Object, _ internalinterfaces.NewInformerFunc) cache.SharedIndexInformer {
	f.mu.Lock()
	defer f.mu.Unlock()
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
	f.informers[key] = informer
	return informer
}

func (f *factory) newInformer(obj runtime.Object) (cache.SharedIndexInformer, error) {
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

func (f *factory) restClient(gv schema.GroupVersion) (*rest.RESTClient, error) {
	config := rest.CopyConfig(f.config)
	config.GroupVersion = &gv
	config.APIPath = "/apis"
	if gv.Group == "" {
		config.APIPath = "/api"
	}
	return rest.RESTClientForConfigAndClient(config, f.client)
}

// ForResource returns the shared informer of a resource in client-go's scheme.
func (f *factory) ForResource(resource schema.GroupVersionResource) (informers.GenericInformer, error) {
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
func (f *factory) Start(stop <-chan struct{}) {
	f.StartWithContext(wait.ContextForChannel(stop))
}

// StartWithContext is Start with a context that ends the informers.
func (f *factory) StartWithContext(ctx context.Context) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.stopped {
		return
	}
	for key, informer := range f.informers {
		if !f.started[key] {
			f.started[key] = true
			f.running.Go(func() { informer.RunWithContext(ctx) })
		}
	}
}

// Shutdown waits until all informers have ended; none is started afterwards.
func (f *factory) Shutdown() {
	f.mu.Lock()
	f.stopped = true
	f.mu.Unlock()
	f.running.Wait()
}

// WaitForCacheSync waits for the informers that run to have read everything.
func (f *factory) WaitForCacheSync(stop <-chan struct{}) map[reflect.Type]bool {
	return f.WaitForCacheSyncWithContext(wait.ContextForChannel(stop)).Synced
}

// WaitForCacheSyncWithContext is WaitForCacheSync with a context that ends the
// wait.
func (f *factory) WaitForCacheSyncWithContext(ctx context.Context) cache.SyncResult {
	running := f.runningInformers()
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

func (f *factory) runningInformers() map[reflect.Type]cache.SharedIndexInformer {
	f.mu.Lock()
	defer f.mu.Unlock()
	running := map[reflect.Type]cache.SharedIndexInformer{}
	for key, informer := range f.informers {
		if f.started[key] {
			running[key] = informer
		}
	}
	return running
}

// InformerName is the name of the informers in metrics: none.
func (f *factory) InformerName() *cache.InformerName { return nil }

type genericInformer struct {
	informer cache.SharedIndexInformer
	resource schema.GroupResource
}

func (g genericInformer) Informer() cache.SharedIndexInformer { return g.informer }

func (g genericInformer) Lister() cache.GenericLister {
	return cache.NewGenericLister(g.informer.GetIndexer(), g.resource)
}
