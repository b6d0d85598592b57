package serviceips

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/informers/core"
	coreinformers "k8s.io/client-go/informers/core/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/tenantry/tenantry/internal/tenant"
)

// All returns system with a lister of Services that finds those of all spaces by
// namespace and name. views are the informers of the flattened view, before they are
// started.
func All(system, views informers.SharedInformerFactory) (informers.SharedInformerFactory, error) {
	services := views.Core().V1().Services()
	if err := services.Informer().AddIndexers(cache.Indexers{plainIndex: indexPlain}); err != nil {
		return nil, fmt.Errorf("indexing services: %w", err)
	}
	return factory{system, informer{system.Core().V1().Services(), services.Informer()}}, nil
}

// The types below replace one informer of a factory.
type (
	factory struct {
		informers.SharedInformerFactory
		services informer
	}
	group struct {
		core.Interface
		services informer
	}
	version struct {
		coreinformers.Interface
		services informer
	}
)

func (f factory) Core() core.Interface { return group{f.SharedInformerFactory.Core(), f.services} }

func (g group) V1() coreinformers.Interface { return version{g.Interface.V1(), g.services} }

func (v version) Services() coreinformers.TypedServiceInformer { return v.services }

// informer has the events and the list of the system space only.
type informer struct {
	coreinformers.TypedServiceInformer
	views cache.SharedIndexInformer
}

// Informer returns one that has synced when the Services of all spaces have been read, too: the loop deletes
// the address of a Service that it does not find.
func (i informer) Informer() cache.SharedIndexInformer {
	return both{i.TypedServiceInformer.Informer(), i.views.HasSynced}
}

// both is an informer that has synced when others have, too.
type both struct {
	cache.SharedIndexInformer
	others cache.InformerSynced
}

// HasSynced implements cache.SharedInformer.
func (b both) HasSynced() bool { return b.SharedIndexInformer.HasSynced() && b.others() }

func (i informer) Lister() corelisters.ServiceLister {
	return lister{i.TypedServiceInformer.Lister(), i.views.GetIndexer()}
}

// plainIndex indexes the Services of tenants' spaces by plain namespace and name.
const plainIndex = "plain"

func indexPlain(obj any) ([]string, error) {
	service, ok := obj.(*corev1.Service)
	if !ok {
		return nil, fmt.Errorf("unexpected object %T", obj)
	}
	space, namespace := tenant.Flat(service.Namespace).Split()
	if !space.IsSpace() {
		return nil, nil
	}
	return []string{namespace + "/" + service.Name}, nil
}

type lister struct {
	corelisters.ServiceLister
	views cache.Indexer
}

func (l lister) Services(namespace string) corelisters.ServiceNamespaceLister {
	return namespaceLister{l.ServiceLister.Services(namespace), l.views, namespace}
}

type namespaceLister struct {
	corelisters.ServiceNamespaceLister
	views     cache.Indexer
	namespace string
}

// kubernetes is the Service of the API server. Spaces do not have it, and a controller of
// the system space manages it.
const kubernetes = "kubernetes"

// Get returns one Service with the addresses of all Services of that name. Its type makes
// the loop wait before it deletes an address that is not among them, as long as a Service
// may take to be created: a new one may not be in the view yet.
func (l namespaceLister) Get(name string) (*corev1.Service, error) {
	service, err := l.ServiceNamespaceLister.Get(name)
	if err != nil && !apierrors.IsNotFound(err) {
		return nil, err
	}
	others, indexErr := l.views.ByIndex(plainIndex, l.namespace+"/"+name)
	if indexErr != nil {
		return nil, indexErr
	}
	if err != nil && len(others) == 0 || l.namespace == metav1.NamespaceDefault && name == kubernetes {
		return service, err
	}
	combined := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: l.namespace, Name: name},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName},
	}
	if service != nil {
		combined.Spec.ClusterIPs = slices.Clone(service.Spec.ClusterIPs)
	}
	for _, other := range others {
		combined.Spec.ClusterIPs = append(combined.Spec.ClusterIPs, other.(*corev1.Service).Spec.ClusterIPs...)
	}
	return combined, nil
}
