package sync

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/tenantry/tenantry/internal/objects"
	"github.com/tenantry/tenantry/internal/process/signal"
)

// optionalPeriod is how often it is asked whether a kind is served that need not be: chosen, so that nobody waits long
// who has installed its definition.
const optionalPeriod = 10 * time.Second

// optional is an informer of a kind that a cluster may not have. It begins when the kind is served: before, each of its
// lists would be an error.
type optional struct {
	resource  schema.GroupVersionResource
	discovery discovery.ServerResourcesInterface
	informer  cache.SharedIndexInformer
	state     atomic.Int32
}

const (
	// unknown is not known yet.
	unknown int32 = iota
	// unserved is what the cluster has no definition of: there are no objects.
	unserved
	// followed has a cache of what there is.
	followed
)

func (o *optional) isKnown() bool { return o.state.Load() != unknown }

// follow runs the informer from when the kind is served until ctx ends. known is called whenever it has become known
// which objects there are.
func (o *optional) follow(ctx context.Context, known func()) {
	logger := klog.FromContext(ctx).WithValues("resource", o.resource)
	for {
		served, err := o.isServed()
		switch {
		case err != nil:
			logger.V(2).Info("Cannot look whether a resource is served; trying again", "err", err)
		case served:
			if objects.Follow(ctx, o.informer) {
				o.state.Store(followed)
				known()
			}
			return
		case o.state.Swap(unserved) != unserved:
			known()
		}
		if signal.Pause(ctx, optionalPeriod) != nil {
			return
		}
	}
}

func (o *optional) isServed() (bool, error) {
	list, err := o.discovery.ServerResourcesForGroupVersion(o.resource.GroupVersion().String())
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("reading which resources are served: %w", err)
	}
	return slices.ContainsFunc(list.APIResources, func(r metav1.APIResource) bool { return r.Name == o.resource.Resource }), nil
}

// quietly has an informer not report again and again that its kind is served no more: what it knows stays as it was.
func quietly(informer cache.SharedIndexInformer) error {
	return informer.SetWatchErrorHandlerWithContext(func(ctx context.Context, r *cache.Reflector, err error) {
		if !apierrors.IsNotFound(err) {
			cache.DefaultWatchErrorHandler(ctx, r, err)
		}
	})
}
