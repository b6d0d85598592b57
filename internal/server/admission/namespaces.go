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
// the same request, and a new tenant causes it for each of its namespaces. A namespace from
// the server is not cached, because it may be deleted without an event.
func withLiveNamespaces(shared informers.SharedInformerFactory, live spacepolicy.Namespaces) informers.SharedInformerFactory {
	return withGetByKey[*corev1.Namespace](shared, func(cached cache.Indexer, key string) (any, bool, error) {
		if obj, exists, err := cached.GetByKey(key); exists || err != nil {
			return obj, exists, err
		}
		namespace, err := live(tenant.Flat(key))
		switch {
		case apierrors.IsNotFound(err):
			return nil, false, nil
		case err != nil:
			return nil, false, err
		default:
			return namespace, true, nil
		}
	})
}

type getByKey func(cached cache.Indexer, key string) (any, bool, error)

// withGetByKey returns shared with an informer of Ts from whose indexer get gets one T.
func withGetByKey[T runtime.Object](shared informers.SharedInformerFactory, get getByKey) informers.SharedInformerFactory {
	return view.Factory(shared, func(obj runtime.Object, newFunc internalinterfaces.NewInformerFunc) cache.SharedIndexInformer {
		informer := shared.InformerFor(obj, newFunc)
		if _, ok := obj.(T); ok {
			return getInformer{informer, get}
		}
		return informer
	})
}

type getInformer struct {
	cache.SharedIndexInformer
	get getByKey
}

func (i getInformer) GetIndexer() cache.Indexer {
	return getIndexer{i.SharedIndexInformer.GetIndexer(), i.get}
}

type getIndexer struct {
	cache.Indexer
	get getByKey
}

func (i getIndexer) GetByKey(key string) (any, bool, error) { return i.get(i.Indexer, key) }
