package view

import (
	"context"
	"fmt"
	"reflect"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/informers/internalinterfaces"
	"k8s.io/client-go/tools/cache"

	"github.com/tenantry/tenantry/internal/spaces"
)

// InformerFor returns the informer of the type of obj.
type InformerFor func(obj runtime.Object, newFunc internalinterfaces.NewInformerFunc) cache.SharedIndexInformer

// factory is a SharedInformerFactory whose informers come from a function.
type factory struct {
	spaces.Groups
	shared      informers.SharedInformerFactory
	informerFor InformerFor
}

var _ informers.SharedInformerFactory = &factory{}

// Factory returns a factory that gets its informers from informerFor. It does not start
// them: they belong to shared.
func Factory(shared informers.SharedInformerFactory, informerFor InformerFor) informers.SharedInformerFactory {
	f := &factory{shared: shared, informerFor: informerFor}
	f.Groups = spaces.Groups{Factory: f}
	return f
}

func (f *factory) InformerFor(obj runtime.Object, newFunc internalinterfaces.NewInformerFunc) cache.SharedIndexInformer {
	return f.informerFor(obj, newFunc)
}

func (f *factory) Start(<-chan struct{})            {}
func (f *factory) StartWithContext(context.Context) {}
func (f *factory) Shutdown()                        {}

func (f *factory) InformerName() *cache.InformerName { return f.shared.InformerName() }

func (f *factory) WaitForCacheSync(stop <-chan struct{}) map[reflect.Type]bool {
	return f.shared.WaitForCacheSync(stop)
}

func (f *factory) WaitForCacheSyncWithContext(ctx context.Context) cache.SyncResult {
	return f.shared.WaitForCacheSyncWithContext(ctx)
}

// ForResource is refused. Only parameters of admission policies are looked up this way.
// They may need contents that the shared informers drop (those of config maps), so they
// have an informer in the space itself.
func (f *factory) ForResource(resource schema.GroupVersionResource) (informers.GenericInformer, error) {
	return nil, fmt.Errorf("no shared informer of %v offers whole objects", resource)
}
