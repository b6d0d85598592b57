package admission

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/informers/internalinterfaces"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/tenantry/tenantry/internal/spaces/view"
)

// withLiveNamespaces returns shared with a lister of namespaces that asks the
// server for those it has not seen yet. Upstream's NamespaceLifecycle would
// sleep for 50 ms in front of the same question, and a new tenant asks it for
// each of its namespaces.
func withLiveNamespaces(shared informers.SharedInformerFactory, client kubernetes.Interface) informers.SharedInformerFactory {
	return view.Factory(shared, func(obj runtime.Object, newFunc internalinterfaces.NewInformerFunc) cache.SharedIndexInformer {
		informer := shared.InformerFor(obj, newFunc)
		if _, ok := obj.(*corev1.Namespace); ok {
			return liveNamespaces{informer, client}
		}
		return informer
	})
}

type liveNamespaces struct {
	cache.SharedIndexInformer
	client kubernetes.Interface
}

func (l liveNamespaces) GetIndexer() cache.Indexer {
	return liveNamespaceIndexer{l.SharedIndexInformer.GetIndexer(), l.client}
}

type liveNamespaceIndexer struct {
	cache.Indexer
	client kubernetes.Interface
}

// GetByKey returns the namespace named key. What the server says is not kept: a
// namespace that is gone again must not stay behind.
func (l liveNamespaceIndexer) GetByKey(key string) (any, bool, error) {
	if obj, exists, err := l.Indexer.GetByKey(key); exists || err != nil {
		return obj, exists, err
	}
	namespace, err := l.client.CoreV1().Namespaces().Get(context.Background(), key, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil, false, nil
	case err != nil:
		return nil, false, err
	default:
		return namespace, true, nil
	}
}
