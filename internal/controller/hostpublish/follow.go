package hostpublish

import (
	"context"
	"fmt"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/tenantry/tenantry/api/v1alpha1"
	"github.com/tenantry/tenantry/internal/objects"
	"github.com/tenantry/tenantry/internal/process/keyed"
	"github.com/tenantry/tenantry/internal/tenant"
)

// followed is what one watch sees: the annotated objects of a namespace, or one object by its name.
type followed struct {
	resource        schema.GroupVersionResource
	namespace, name string
}

// followers watch the metadata of what ControlPlanes publish: one watch for each resource of which all
// annotated objects are, and one for each object that is by its name.
type followers struct {
	host metadata.Interface

	mu sync.Mutex
	// ctx and queue are those of the controller.
	ctx     context.Context
	queue   workqueue.TypedRateLimitingInterface[reconcile.Request]
	running map[types.NamespacedName]map[followed]context.CancelFunc
}

func newFollowers(host *rest.Config) (*followers, error) {
	c, err := metadata.NewForConfig(host)
	if err != nil {
		return nil, fmt.Errorf("creating the client of metadata: %w", err)
	}
	return &followers{host: c}, nil
}

// Start implements source.Source.
func (f *followers) Start(ctx context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ctx, f.queue, f.running = ctx, queue, map[types.NamespacedName]map[followed]context.CancelFunc{}
	return nil
}

// follow begins the watches that a ControlPlane needs, and ends those that it no longer does.
func (f *followers) follow(cp *v1alpha1.ControlPlane, all []*kind) {
	f.mu.Lock()
	defer f.mu.Unlock()
	key := client.ObjectKeyFromObject(cp)
	wanted := map[followed]bool{}
	for _, k := range all {
		in := ""
		if k.namespaced {
			in = cp.Namespace
		}
		if k.all {
			wanted[followed{k.GroupVersionResource, in, ""}] = true
			continue
		}
		for _, name := range k.names {
			wanted[followed{k.GroupVersionResource, in, name}] = true
		}
	}
	for one, stop := range f.running[key] {
		if !wanted[one] {
			stop()
			keyed.Delete(f.running, key, one)
		}
	}
	for one := range wanted {
		if f.running[key][one] == nil {
			keyed.Set(f.running, key, one, f.begin(key, one))
		}
	}
}

// begin starts a watch. One that the host refuses is tried again, less and less often; the condition
// says what is missing.
func (f *followers) begin(key types.NamespacedName, one followed) context.CancelFunc {
	ctx, stop := context.WithCancel(f.ctx)
	chosen := func(options *metav1.ListOptions) {
		if one.name != "" {
			options.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, one.name).String()
		}
	}
	informer := metadatainformer.NewFilteredMetadataInformer(f.host, one.resource, one.namespace, 0, toolscache.Indexers{}, chosen).Informer()
	_ = informer.SetTransform(cache.TransformStripManagedFields()) // it fails only once the informer runs
	ask := func(all ...any) {
		for _, object := range all {
			if o, is := objects.LastKnown[metav1.Object](object); is && o.GetAnnotations()[tenant.PublishedAnnotation] != "" {
				f.queue.Add(reconcile.Request{NamespacedName: key})
				return
			}
		}
	}
	_, _ = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{ // it fails only once the informer has ended
		AddFunc: func(o any) { ask(o) }, DeleteFunc: func(o any) { ask(o) }, UpdateFunc: func(before, after any) { ask(before, after) },
	})
	go informer.RunWithContext(ctx)
	return stop
}
