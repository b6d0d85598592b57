package kubecontrollers

import (
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/sets"
	autoscalinginformers "k8s.io/client-go/informers/autoscaling/v2"
	coreinformers "k8s.io/client-go/informers/core/v1"
	autoscalinglisters "k8s.io/client-go/listers/autoscaling/v2"
	corelisters "k8s.io/client-go/listers/core/v1"
	policylisters "k8s.io/client-go/listers/policy/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/tenantry/tenantry/internal/tenant"
)

// inTurn is the informer of the objects that a controller works on. A worker begins an item by
// getting its object from the lister, so that is where it is told that it is not the turn of a
// tenant. Some controllers give an item up after some errors; so they hear of the object again
// when it is. Handlers do not get single objects from these listers: there an event would be lost.
type inTurn struct {
	cache.SharedIndexInformer
	turns *turns
	// cost, if not nil, is what an item takes beside its requests, which are charged when they
	// are sent.
	cost func(obj any) (time.Duration, error)

	mu       sync.Mutex
	handlers []cache.ResourceEventHandler
	waiting  sets.Set[string]
}

func (t *turns) informer(of cache.SharedIndexInformer, cost func(obj any) (time.Duration, error)) *inTurn {
	return &inTurn{SharedIndexInformer: of, turns: t, cost: cost, waiting: sets.New[string]()}
}

// AddEventHandler implements cache.SharedInformer.
func (i *inTurn) AddEventHandler(handler cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	i.handlers = append(i.handlers, handler)
	return i.SharedIndexInformer.AddEventHandler(handler)
}

// AddEventHandlerWithResyncPeriod implements cache.SharedInformer.
func (i *inTurn) AddEventHandlerWithResyncPeriod(handler cache.ResourceEventHandler, resync time.Duration) (cache.ResourceEventHandlerRegistration, error) {
	i.handlers = append(i.handlers, handler)
	return i.SharedIndexInformer.AddEventHandlerWithResyncPeriod(handler, resync)
}

// GetIndexer implements cache.SharedIndexInformer.
func (i *inTurn) GetIndexer() cache.Indexer {
	return indexerInTurn{i.SharedIndexInformer.GetIndexer(), i}
}

type indexerInTurn struct {
	cache.Indexer
	of *inTurn
}

// GetByKey implements cache.Store.
func (i indexerInTurn) GetByKey(key string) (any, bool, error) {
	obj, exists, err := i.Indexer.GetByKey(key)
	if err == nil && exists {
		err = i.of.take(key, obj)
	}
	return obj, exists, err
}

// take charges a tenant for an item, or returns an error and queues it for later.
func (i *inTurn) take(key string, obj any) error {
	namespace, _, err := cache.SplitMetaNamespaceKey(key)
	if err != nil {
		return fmt.Errorf("reading the namespace of %q: %w", key, err)
	}
	n := tenant.Flat(namespace).Space()
	if !n.IsSpace() {
		return nil
	}
	took := time.Duration(0)
	if i.cost != nil {
		if took, err = i.cost(obj); err != nil {
			return err
		}
	}
	if err := i.turns.take(n, took); err != nil {
		i.queue(key, i.turns.debt(n))
		return err
	}
	return nil
}

// queue has the controller hear of an object after some time, if it is still there.
func (i *inTurn) queue(key string, after time.Duration) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.waiting.Has(key) {
		return
	}
	i.waiting.Insert(key)
	time.AfterFunc(after, func() {
		i.mu.Lock()
		i.waiting.Delete(key)
		i.mu.Unlock()
		if obj, exists, err := i.SharedIndexInformer.GetIndexer().GetByKey(key); err == nil && exists {
			for _, handler := range i.handlers {
				handler.OnUpdate(obj, obj)
			}
		}
	})
}

// What it takes to make Endpoints or EndpointSlices of a pod, and of each port of it.
const (
	endpointTime = 10 * time.Microsecond
	portTime     = 20 * time.Microsecond
)

// services returns those of which Endpoints or EndpointSlices are made.
func (t *turns) services(informer coreinformers.ServiceInformer, pods corelisters.PodLister) offered[corelisters.ServiceLister] {
	services := t.informer(smallServices{informer}.Informer(), func(obj any) (time.Duration, error) {
		service, ok := obj.(*corev1.Service)
		if !ok || len(service.Spec.Selector) == 0 {
			return 0, nil
		}
		selected, err := pods.Pods(service.Namespace).List(labels.Set(service.Spec.Selector).AsSelectorPreValidated())
		return time.Duration(len(selected)) * (endpointTime + time.Duration(len(service.Spec.Ports))*portTime), err
	})
	return offered[corelisters.ServiceLister]{services, corelisters.NewServiceLister(services.GetIndexer())}
}

// budgets returns PodDisruptionBudgets, for each of which the controller asks for the scale of all
// that controls a pod.
func (t *turns) budgets(from offered[policylisters.PodDisruptionBudgetLister]) offered[policylisters.PodDisruptionBudgetLister] {
	budgets := t.informer(from.informer, nil)
	lister := budgetsInTurn{from.lister, policylisters.NewPodDisruptionBudgetLister(budgets.GetIndexer())}
	return offered[policylisters.PodDisruptionBudgetLister]{budgets, lister}
}

type budgetsInTurn struct {
	policylisters.PodDisruptionBudgetLister
	inTurn policylisters.PodDisruptionBudgetLister
}

// PodDisruptionBudgets implements policylisters.PodDisruptionBudgetLister.
func (l budgetsInTurn) PodDisruptionBudgets(namespace string) policylisters.PodDisruptionBudgetNamespaceLister {
	return l.inTurn.PodDisruptionBudgets(namespace)
}

// autoscalers returns HorizontalPodAutoscalers, for each of which the controller asks for all of its
// metrics.
func (t *turns) autoscalers(informer autoscalinginformers.HorizontalPodAutoscalerInformer) offered[autoscalinglisters.HorizontalPodAutoscalerLister] {
	autoscalers := t.informer(informer.Informer(), nil)
	return offered[autoscalinglisters.HorizontalPodAutoscalerLister]{autoscalers, autoscalinglisters.NewHorizontalPodAutoscalerLister(autoscalers.GetIndexer())}
}
