package admission

import (
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/informers/internalinterfaces"
	"k8s.io/client-go/tools/cache"

	"github.com/tenantry/tenantry/internal/server/admission/spacepolicy"
	"github.com/tenantry/tenantry/internal/spaces/view"
	"github.com/tenantry/tenantry/internal/tenant"
)

// withLiveNamespaces returns shared with a lister that gets namespaces from the server that
// are not in the informer yet. Upstream's NamespaceLifecycle would sleep for 50 ms before
// the same request, and a new tenant causes it for each of its namespaces.
func withLiveNamespaces(shared informers.SharedInformerFactory, live spacepolicy.Namespaces) informers.SharedInformerFactory {
	return view.Factory(shared, func(obj runtime.Object, newFunc internalinterfaces.NewInformerFunc) cache.SharedIndexInformer {
		informer := shared.InformerFor(obj, newFunc)
		if _, ok := obj.(*corev1.Namespace); ok {
			return liveNamespaces{informer, live}
		}
		return informer
	})
}

type liveNamespaces struct {
	cache.SharedIndexInformer
	live spacepolicy.Namespaces
}

func (l liveNamespaces) GetIndexer() cache.Indexer {
	return liveNamespaceIndexer{l.SharedIndexInformer.GetIndexer(), l.live}
}

type liveNamespaceIndexer struct {
	cache.Indexer
	live spacepolicy.Namespaces
}

// GetByKey returns the namespace named key. A namespace from the server is not cached,
// because it may be deleted without an event.
func (l liveNamespaceIndexer) GetByKey(key string) (any, bool, error) {
	if obj, exists, err := l.Indexer.GetByKey(key); exists || err != nil {
		return obj, exists, err
	}
	namespace, err := l.live(tenant.Flat(key))
	switch {
	case apierrors.IsNotFound(err):
		return nil, false, nil
	case err != nil:
		return nil, false, err
	default:
		return namespace, true, nil
	}
}
