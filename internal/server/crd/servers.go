package crd

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensionsapiserver "k8s.io/apiextensions-apiserver/pkg/apiserver"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/util/webhook"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"

	"github.com/tenantry/tenantry/internal/follow"
	"github.com/tenantry/tenantry/internal/process/keyed"
	"github.com/tenantry/tenantry/internal/server/discovery"
	"github.com/tenantry/tenantry/internal/server/egress"
	"github.com/tenantry/tenantry/internal/server/storage"
	"github.com/tenantry/tenantry/internal/spaces"
	"github.com/tenantry/tenantry/internal/tenant"
)

var definitions = apiextensionsv1.SchemeGroupVersion.WithResource("customresourcedefinitions")

// Options are what servers of definitions need.
type Options struct {
	// Definitions learns what Servers follow and run.
	*Definitions
	// Config is that of the extension server of the system space, like which the others
	// are made.
	Config *apiextensionsapiserver.Config
	// Builtin returns the API groups that every space has.
	Builtin func() []apidiscoveryv2.APIGroupDiscovery
	// Services resolves services by flattened names, and Egress is how tenants'
	// conversion webhooks are reached.
	Services webhook.ServiceResolver
	Egress   egress.Options
	// NotFound answers what nobody serves.
	NotFound http.Handler
	// Terminating reports whether a tenant is being deleted.
	Terminating func(tenant.Name) bool
	// Fits returns why a body must not be decoded by a definition.
	Fits func(Content, *apiextensionsv1.CustomResourceDefinition) error
	// Ranges counts what tenants have in etcd.
	Ranges *storage.Ranges
}

// Servers runs the extension servers of the spaces that have definitions, and the one
// for published definitions, which counts as that of the system space here.
type Servers struct {
	Options
	synced atomic.Bool
	// starting are the spaces that had definitions when the process started, until these are served.
	starting keyed.Values[tenant.Name, bool]
	// listeners wait for changes of what In returns.
	listeners listeners

	queue workqueue.TypedRateLimitingInterface[tenant.Name]
	// purges is apart from queue: deleting objects waits for webhooks of their tenants.
	purges workqueue.TypedRateLimitingInterface[tenant.Name]
}

// New returns Servers that serve nothing before they are run.
func New(options Options) *Servers {
	return &Servers{
		Options: options,
		queue:   newQueue("space_crds"),
		purges:  newQueue("purged_crds"),
	}
}

func newQueue(name string) workqueue.TypedRateLimitingInterface[tenant.Name] {
	return workqueue.NewTypedRateLimitingQueueWithConfig(
		workqueue.DefaultTypedControllerRateLimiter[tenant.Name](),
		workqueue.TypedRateLimitingQueueConfig[tenant.Name]{Name: name})
}

// In returns what serves the custom resources of the space of n, its own server first.
func (s *Servers) In(n tenant.Name) []discovery.Server {
	own, shared := s.running(n), s.running(tenant.System)
	var in []discovery.Server
	if own != nil && n != tenant.System {
		in = append(in, discovery.Server{
			Handler: own.handler, Groups: own.groups, Definitions: own.all,
			Serves: func(resource schema.GroupResource, _ bool) bool { return s.index.defines(n, resource.String()) },
		})
	}
	if shared != nil {
		in = append(in, discovery.Server{
			Shared: true, Handler: shared.handler, Groups: shared.groups, Definitions: shared.all,
			Serves:   func(resource schema.GroupResource, hidden bool) bool { return s.serves(n, resource, hidden) },
			Excluded: strings.Join(s.index.excluded(n, s.Terminating(n)), " "),
		})
	}
	return in
}

// Published returns what serves the published resource of all spaces, nil if it is none.
func (s *Servers) Published(resource schema.GroupResource) http.Handler {
	if shared := s.running(tenant.System); shared != nil && s.index.shares(resource.String(), true) {
		return shared.handler
	}
	return nil
}

// Changes returns a channel that gets something after each change of what serves the
// space of n or of what that serves, and what to call when nobody reads it any more.
func (s *Servers) Changes(n tenant.Name) (<-chan struct{}, func()) { return s.listeners.add(n) }

// serves reports whether a resource is that of a published definition in a space. Those
// that are hidden are for the controllers of the platform, and while a space is emptied.
func (s *Servers) serves(n tenant.Name, resource schema.GroupResource, hidden bool) bool {
	name := resource.String()
	return !s.index.defines(n, name) && s.index.shares(name, hidden || s.Terminating(n))
}

// IsStarting reports whether definitions that there were when the process started, in the space of n or by publication,
// are not served yet, or not known: that these are not there would be a lie, by which clients delete what belongs to
// them.
func (s *Servers) IsStarting(n tenant.Name) bool {
	return !s.HasSynced() || s.isStarting(n) || s.isStarting(tenant.System)
}

func (s *Servers) isStarting(n tenant.Name) bool {
	if !s.starting.Get(n) {
		return false
	}
	if running := s.running(n); s.index.wants(n) && (running == nil || !running.hasSynced()) {
		return true
	}
	s.starting.Delete(n)
	return false
}

// Run follows the definitions of all spaces until ctx ends.
func (s *Servers) Run(ctx context.Context) error {
	client, err := s.metadataIn(tenant.Everything)
	if err != nil {
		return err
	}
	source := follow.ListWatch{ListWatch: follow.Metadata(client, definitions, metav1.ListOptions{})}
	go func() {
		<-ctx.Done()
		s.queue.ShutDown()
		s.purges.ShutDown()
	}()
	go work(ctx, s.queue, s.sync)
	go work(ctx, s.purges, func(ctx context.Context, _ tenant.Name) error { return s.purge(ctx) })
	reflector := cache.NewReflectorWithOptions(source, &metav1.PartialObjectMetadata{}, s, cache.ReflectorOptions{Name: "space-definitions"})
	reflector.RunWithContext(ctx)
	return nil
}

// metadataIn returns a client of a scope.
func (s *Servers) metadataIn(in tenant.Scope) (metadata.Interface, error) {
	config := spaces.ConfigIn(s.Config.GenericConfig.LoopbackClientConfig, in)
	client, err := metadata.NewForConfig(metadata.ConfigFor(config))
	if err != nil {
		return nil, fmt.Errorf("creating the metadata client of %q: %w", in, err)
	}
	return client, nil
}

func work(ctx context.Context, queue workqueue.TypedRateLimitingInterface[tenant.Name], do func(context.Context, tenant.Name) error) {
	for {
		n, shutdown := queue.Get()
		if shutdown {
			return
		}
		if err := do(ctx, n); err != nil {
			klog.ErrorS(err, "Serving the custom resources of a space", "tenant", n)
			queue.AddRateLimited(n)
		} else {
			queue.Forget(n)
		}
		queue.Done(n)
	}
}

// sync starts or stops the server of n.
func (s *Servers) sync(ctx context.Context, n tenant.Name) error {
	wanted, running := s.index.wants(n), s.running(n)
	switch {
	case wanted && running == nil:
		started, err := s.start(ctx, n)
		if err != nil {
			return fmt.Errorf("starting: %w", err)
		}
		s.setRunning(n, started)
		s.listeners.tell(n)
	case !wanted && running != nil:
		s.setRunning(n, nil)
		s.listeners.tell(n)
		running.stop()
	}
	if n == tenant.System {
		s.purges.Add(n)
	}
	return nil
}

// lingering is how long a server outlives its last definition, whose finalizer
// it has just served.
const lingering = 5 * time.Second

// Add implements cache.ReflectorStore.
func (s *Servers) Add(obj any) error { return s.Update(obj) }

// Update implements cache.ReflectorStore.
func (s *Servers) Update(obj any) error {
	definition, err := metadataOf(obj)
	if err != nil {
		return err
	}
	s.index.set(definition)
	s.listeners.tell(spaceOf(definition))
	s.queue.Add(spaceOf(definition))
	return s.know(definition)
}

// know has what spaces have of shared definitions counted, although this server may
// not have been asked for it yet.
func (s *Servers) know(definition *metav1.PartialObjectMetadata) error {
	if spaceOf(definition) != tenant.System || !s.index.shares(definition.Name, true) {
		return nil
	}
	return s.Ranges.Learn(schema.ParseGroupResource(definition.Name))
}

// ServeNone notes that there are no definitions, because their API is disabled.
func (s *Servers) ServeNone() { s.synced.Store(true) }

// HasSynced reports whether it is known which definitions there are.
func (s *Servers) HasSynced() bool { return s.synced.Load() }

// Delete implements cache.ReflectorStore.
func (s *Servers) Delete(obj any) error {
	definition, err := metadataOf(obj)
	if err != nil {
		return err
	}
	s.index.unset(definition)
	s.listeners.tell(spaceOf(definition))
	s.queue.AddAfter(spaceOf(definition), lingering)
	return nil
}

// Replace implements cache.ReflectorStore.
func (s *Servers) Replace(objs []any, version string) error {
	all := make([]*metav1.PartialObjectMetadata, len(objs))
	for i, obj := range objs {
		var err error
		if all[i], err = metadataOf(obj); err != nil {
			return err
		}
	}
	s.index.replace(all, version)
	s.listeners.tell(tenant.System)
	for _, n := range s.served() {
		s.queue.AddAfter(n, lingering)
	}
	for _, definition := range all {
		if !s.synced.Load() {
			s.starting.Set(spaceOf(definition), true)
		}
		s.queue.Add(spaceOf(definition))
		if err := s.know(definition); err != nil {
			return err
		}
	}
	s.synced.Store(true)
	return nil
}

// Resync implements cache.ReflectorStore.
func (*Servers) Resync() error { return nil }

func metadataOf(obj any) (*metav1.PartialObjectMetadata, error) {
	definition, ok := obj.(*metav1.PartialObjectMetadata)
	if !ok {
		return nil, fmt.Errorf("unexpected object %T", obj)
	}
	return definition, nil
}

// servedVersion returns a version in which a definition serves its objects, if there is one.
func servedVersion(definition *apiextensionsv1.CustomResourceDefinition) (schema.GroupVersionResource, bool) {
	gvr := schema.GroupVersionResource{Group: definition.Spec.Group, Resource: definition.Spec.Names.Plural}
	i := slices.IndexFunc(definition.Spec.Versions, func(v apiextensionsv1.CustomResourceDefinitionVersion) bool { return v.Served })
	if i < 0 {
		return gvr, false
	}
	gvr.Version = definition.Spec.Versions[i].Name
	return gvr, true
}
