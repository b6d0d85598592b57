package crd

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensionsapiserver "k8s.io/apiextensions-apiserver/pkg/apiserver"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/util/webhook"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"

	"github.com/tenantry/tenantry/internal/server/egress"
	"github.com/tenantry/tenantry/internal/tenant"
)

var definitions = apiextensionsv1.SchemeGroupVersion.WithResource("customresourcedefinitions")

// Servers runs the extension servers of the spaces that have definitions.
type Servers struct {
	config   *apiextensionsapiserver.Config
	notFound http.Handler
	builtin  func() []apidiscoveryv2.APIGroupDiscovery
	services webhook.ServiceResolver
	egress   egress.Options

	mu      sync.RWMutex
	counts  map[tenant.Name]map[string]struct{}
	servers map[tenant.Name]*server
	queue   workqueue.TypedRateLimitingInterface[tenant.Name]
}

// server is a running extension server.
type server struct {
	handler http.Handler
	groups  http.Handler
	stop    context.CancelFunc
}

// New returns Servers that are made like the extension server of the system
// space, whose configuration config is. builtin returns the API groups that
// every space has; services resolves services by flattened names,
// and egress is how conversion webhooks are reached.
func New(config *apiextensionsapiserver.Config, builtin func() []apidiscoveryv2.APIGroupDiscovery, services webhook.ServiceResolver,
	egress egress.Options, notFound http.Handler) *Servers {
	return &Servers{
		config:   config,
		notFound: notFound,
		builtin:  builtin,
		services: services,
		egress:   egress,
		counts:   make(map[tenant.Name]map[string]struct{}),
		servers:  make(map[tenant.Name]*server),
		queue: workqueue.NewTypedRateLimitingQueueWithConfig(
			workqueue.DefaultTypedControllerRateLimiter[tenant.Name](),
			workqueue.TypedRateLimitingQueueConfig[tenant.Name]{Name: "space_crds"}),
	}
}

// Handler returns what serves the custom resources of n.
func (s *Servers) Handler(n tenant.Name) http.Handler {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if running, ok := s.servers[n]; ok {
		return running.handler
	}
	return s.notFound
}

// Groups returns what serves the aggregated discovery of n, or nil if the space
// has the built-in groups only.
func (s *Servers) Groups(n tenant.Name) http.Handler {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if running, ok := s.servers[n]; ok {
		return running.groups
	}
	return nil
}

// listWatch is read by list and watch: a streaming list would key definitions by
// name, by which those of two tenants are one.
type listWatch struct{ *cache.ListWatch }

// IsWatchListSemanticsUnSupported is asked by reflectors.
func (listWatch) IsWatchListSemanticsUnSupported() bool { return true }

// Run follows the definitions of all tenants until ctx ends.
func (s *Servers) Run(ctx context.Context) error {
	all := rest.CopyConfig(s.config.GenericConfig.LoopbackClientConfig)
	all.Host += "/tenants/" + string(tenant.All)
	client, err := metadata.NewForConfig(metadata.ConfigFor(all))
	if err != nil {
		return fmt.Errorf("creating the client of all definitions: %w", err)
	}
	source := listWatch{&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			return client.Resource(definitions).List(ctx, options)
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			return client.Resource(definitions).Watch(ctx, options)
		},
	}}
	go func() {
		<-ctx.Done()
		s.queue.ShutDown()
	}()
	go s.work(ctx)
	reflector := cache.NewReflectorWithOptions(source, &metav1.PartialObjectMetadata{}, s, cache.ReflectorOptions{Name: "space-definitions"})
	reflector.RunWithContext(ctx)
	return nil
}

func (s *Servers) work(ctx context.Context) {
	for {
		n, shutdown := s.queue.Get()
		if shutdown {
			return
		}
		if err := s.sync(ctx, n); err != nil {
			klog.ErrorS(err, "Serving the custom resources of a space", "tenant", n)
			s.queue.AddRateLimited(n)
		} else {
			s.queue.Forget(n)
		}
		s.queue.Done(n)
	}
}

// sync starts or stops the server of n.
func (s *Servers) sync(ctx context.Context, n tenant.Name) error {
	s.mu.RLock()
	wanted := len(s.counts[n]) > 0
	running, ok := s.servers[n]
	s.mu.RUnlock()
	switch {
	case wanted && !ok:
		started, err := s.start(ctx, n)
		if err != nil {
			return fmt.Errorf("starting: %w", err)
		}
		s.mu.Lock()
		s.servers[n] = started
		s.mu.Unlock()
	case !wanted && ok:
		s.mu.Lock()
		delete(s.servers, n)
		s.mu.Unlock()
		running.stop()
	}
	return nil
}

// lingering is how long a server outlives its last definition, whose finalizer
// it has just served.
const lingering = 5 * time.Second

func (s *Servers) set(obj any, present bool) error {
	definition, ok := obj.(*metav1.PartialObjectMetadata)
	if !ok {
		return fmt.Errorf("unexpected object %T", obj)
	}
	n := tenant.Name(definition.Annotations[tenant.Annotation])
	s.mu.Lock()
	defer s.mu.Unlock()
	if present {
		if s.counts[n] == nil {
			s.counts[n] = make(map[string]struct{})
		}
		s.counts[n][definition.Name] = struct{}{}
		s.queue.Add(n)
		return nil
	}
	delete(s.counts[n], definition.Name)
	if len(s.counts[n]) == 0 {
		delete(s.counts, n)
		s.queue.AddAfter(n, lingering)
	}
	return nil
}

// Add implements cache.ReflectorStore.
func (s *Servers) Add(obj any) error { return s.set(obj, true) }

// Update implements cache.ReflectorStore.
func (s *Servers) Update(obj any) error { return s.set(obj, true) }

// Delete implements cache.ReflectorStore.
func (s *Servers) Delete(obj any) error { return s.set(obj, false) }

// Replace implements cache.ReflectorStore.
func (s *Servers) Replace(objs []any, _ string) error {
	s.mu.Lock()
	s.counts = make(map[tenant.Name]map[string]struct{})
	for n := range s.servers {
		s.queue.AddAfter(n, lingering)
	}
	s.mu.Unlock()
	for _, obj := range objs {
		if err := s.set(obj, true); err != nil {
			return err
		}
	}
	return nil
}

// Resync implements cache.ReflectorStore.
func (*Servers) Resync() error { return nil }
