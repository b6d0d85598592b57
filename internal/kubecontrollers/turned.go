package kubecontrollers

import (
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
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
// tenant. What is not in turn is parked, and the controller hears of it again: some controllers
// give an item up after some errors. Handlers do not get single objects from these listers: there
// an event would be lost.
type inTurn struct {
	cache.SharedIndexInformer
	turns *turns
	// cost, if not nil, is what an item takes beside its requests, which are charged when they
	// are sent.
	cost func(obj any) (time.Duration, error)
	// absent is whether an object that is not in turn is shown as one that is not there. It is for
	// controllers that have nothing to do then. An error takes a worker longer: it logs and waits.
	absent bool

	mu       sync.Mutex
	handlers []cache.ResourceEventHandler
	parked   map[tenant.Name]*parked
}

// parked are the keys of a tenant's objects that are not in turn, in the order in which they came.
type parked struct {
	keys []string
	set  sets.Set[string]
	// namespaces are those of which all objects are to be parked.
	namespaces sets.Set[string]
}

func (p *parked) add(keys ...string) {
	for _, key := range keys {
		if !p.set.Has(key) {
			p.set.Insert(key)
			p.keys = append(p.keys, key)
		}
	}
}

const (
	// releasedAtOnce is how many of them the controller hears of at once, so that others' wait for
	// few in its queue, and releasePause the time until it hears of more.
	releasedAtOnce = 16
	releasePause   = 100 * time.Millisecond
)

func (t *turns) informer(of cache.SharedIndexInformer, cost func(obj any) (time.Duration, error)) *inTurn {
	return &inTurn{SharedIndexInformer: of, turns: t, cost: cost, parked: map[tenant.Name]*parked{}}
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
	if err != nil && i.of.absent {
		return nil, false, nil
	}
	return obj, exists, err
}

// take charges a tenant for an item, or returns an error and parks it.
func (i *inTurn) take(key string, obj any) error {
	namespace, _, err := cache.SplitMetaNamespaceKey(key)
	if err != nil {
		return fmt.Errorf("reading the namespace of %q: %w", key, err)
	}
	n := tenant.Flat(namespace).Space()
	if !n.IsSpace() {
		return nil
	}
	if err := i.turns.take(n, 0); err != nil {
		i.park(n, key)
		return err
	}
	if i.cost == nil {
		return nil
	}
	began := time.Now()
	took, err := i.cost(obj)
	looked := time.Since(began)
	if err == nil {
		err = i.turns.take(n, took+looked)
	}
	if err != nil { // another worker may have been faster
		i.turns.charge(n, looked)
		i.park(n, key)
	}
	return err
}

// park has the controller hear of an object when it is the turn of its tenant, if it is still
// there. There is one timer for each tenant that has parked objects.
func (i *inTurn) park(n tenant.Name, key string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.of(n).add(key)
}

// parkAll is park for all objects of a namespace.
func (i *inTurn) parkAll(n tenant.Name, namespace string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.of(n).namespaces.Insert(namespace)
}

// of returns what is parked of a tenant. It is called with the lock.
func (i *inTurn) of(n tenant.Name) *parked {
	p := i.parked[n]
	if p == nil {
		p = &parked{set: sets.New[string](), namespaces: sets.New[string]()}
		i.parked[n] = p
		i.releaseLater(n)
	}
	return p
}

// releaseLater is called with the lock.
func (i *inTurn) releaseLater(n tenant.Name) {
	time.AfterFunc(max(releasePause, i.turns.debt(n)-maxTurnDebt/2), func() { i.release(n) })
}

func (i *inTurn) release(n tenant.Name) {
	for _, key := range i.next(n) {
		if obj, exists, err := i.SharedIndexInformer.GetIndexer().GetByKey(key); err == nil && exists {
			for _, handler := range i.handlers {
				handler.OnUpdate(obj, obj)
			}
		}
	}
}

// next returns the keys to release, none if it is not yet the turn of the tenant.
func (i *inTurn) next(n tenant.Name) []string {
	i.mu.Lock()
	defer i.mu.Unlock()
	p := i.parked[n]
	if i.turns.debt(n) > maxTurnDebt/2 {
		i.releaseLater(n)
		return nil
	}
	for namespace := range p.namespaces {
		keys, err := i.SharedIndexInformer.GetIndexer().IndexKeys(cache.NamespaceIndex, namespace)
		if err == nil { // the index is there
			p.add(keys...)
		}
	}
	clear(p.namespaces)
	released := p.keys[:min(releasedAtOnce, len(p.keys))]
	p.keys = p.keys[len(released):]
	p.set.Delete(released...)
	if len(p.keys) > 0 {
		i.releaseLater(n)
	} else {
		delete(i.parked, n)
	}
	return released
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
	budgets.absent = true
	lister := budgetsInTurn{from.lister, budgets, policylisters.NewPodDisruptionBudgetLister(budgets.GetIndexer())}
	return offered[policylisters.PodDisruptionBudgetLister]{budgets, lister}
}

type budgetsInTurn struct {
	policylisters.PodDisruptionBudgetLister
	informer *inTurn
	inTurn   policylisters.PodDisruptionBudgetLister
}

// GetPodPodDisruptionBudgets implements policylisters.PodDisruptionBudgetListerExpansion. It is called
// for each event of a pod, in a handler that serves all spaces.
func (l budgetsInTurn) GetPodPodDisruptionBudgets(pod *corev1.Pod) ([]*policyv1.PodDisruptionBudget, error) {
	n := tenant.Flat(pod.Namespace).Space()
	if !n.IsSpace() {
		return l.PodDisruptionBudgetLister.GetPodPodDisruptionBudgets(pod)
	}
	if l.informer.turns.debt(n) > maxTurnDebt {
		l.informer.parkAll(n, pod.Namespace)
		return nil, errNoneSelects
	}
	began := time.Now()
	defer func() { l.informer.turns.charge(n, time.Since(began)) }()
	return l.PodDisruptionBudgetLister.GetPodPodDisruptionBudgets(pod)
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
