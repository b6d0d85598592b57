package kubecontrollers

import (
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	quota "k8s.io/apiserver/pkg/quota/v1"
	autoscalinginformers "k8s.io/client-go/informers/autoscaling/v2"
	coreinformers "k8s.io/client-go/informers/core/v1"
	autoscalinglisters "k8s.io/client-go/listers/autoscaling/v2"
	corelisters "k8s.io/client-go/listers/core/v1"
	policylisters "k8s.io/client-go/listers/policy/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/tenantry/tenantry/internal/tenant"
)

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
	return offered[corelisters.ServiceLister]{services, servicesInTurn{corelisters.NewServiceLister(services.GetIndexer()), services}}
}

// servicesInTurn charges a tenant for finding the Services of a pod, which is once for each event of each.
type servicesInTurn struct {
	corelisters.ServiceLister
	informer *inTurn
}

// Services implements corelisters.ServiceLister.
func (l servicesInTurn) Services(namespace string) corelisters.ServiceNamespaceLister {
	return servicesIn{l.ServiceLister.Services(namespace), l.informer, namespace}
}

type servicesIn struct {
	corelisters.ServiceNamespaceLister
	informer  *inTurn
	namespace string
}

// List implements corelisters.ServiceNamespaceLister. Of a tenant that is not in turn it lists none, and the
// controller hears of all later.
func (l servicesIn) List(selector labels.Selector) (found []*corev1.Service, err error) {
	l.informer.look(l.namespace, func() time.Duration {
		found, err = l.ServiceNamespaceLister.List(selector)
		return timeOf(nil, len(found))
	})
	return found, err
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
func (l budgetsInTurn) GetPodPodDisruptionBudgets(pod *corev1.Pod) (found []*policyv1.PodDisruptionBudget, err error) {
	if !l.informer.look(pod.Namespace, func() time.Duration {
		found, err = l.PodDisruptionBudgetLister.GetPodPodDisruptionBudgets(pod)
		return 0
	}) {
		return nil, errNoneSelects
	}
	return found, err
}

// PodDisruptionBudgets implements policylisters.PodDisruptionBudgetLister.
func (l budgetsInTurn) PodDisruptionBudgets(namespace string) policylisters.PodDisruptionBudgetNamespaceLister {
	return l.inTurn.PodDisruptionBudgets(namespace)
}

// namespaces returns Namespaces, of which the controller asks for everything in one that is deleted, again
// and again while something has a finalizer.
func (t *turns) namespaces(informer coreinformers.NamespaceInformer) offered[corelisters.NamespaceLister] {
	namespaces := t.informer(informer.Informer(), nil)
	namespaces.absent = true
	return offered[corelisters.NamespaceLister]{namespaces, corelisters.NewNamespaceLister(namespaces.GetIndexer())}
}

// pods returns pods that charge tenants for the time that it takes to find those that a selector matches,
// or that have no owner. limited is for a controller that does so for thousands of selectors of one item,
// and can do without.
func (t *turns) pods(informer coreinformers.PodInformer, limited bool) offered[corelisters.PodLister] {
	return offered[corelisters.PodLister]{meteredPodInformer{exempting{informer.Informer()}, t}, meteredPods{informer.Lister(), t, limited}}
}

type meteredPodInformer struct {
	cache.SharedIndexInformer
	turns *turns
}

// GetIndexer implements cache.SharedIndexInformer.
func (i meteredPodInformer) GetIndexer() cache.Indexer {
	return meteredPodIndexer{i.SharedIndexInformer.GetIndexer(), i.turns}
}

type meteredPodIndexer struct {
	cache.Indexer
	turns *turns
}

// ByIndex implements cache.Indexer. The controllers compare pods without an owner with a selector.
func (i meteredPodIndexer) ByIndex(name, value string) ([]any, error) {
	began := time.Now()
	found, err := i.Indexer.ByIndex(name, value)
	if len(found) > 0 {
		if pod, ok := found[0].(*corev1.Pod); ok {
			if n := tenant.Flat(pod.Namespace).Space(); n.IsSpace() {
				i.turns.charge(n, time.Since(began)+timeOf(nil, len(found)))
			}
		}
	}
	return found, err
}

type meteredPods struct {
	corelisters.PodLister
	turns   *turns
	limited bool
}

// Pods implements corelisters.PodLister.
func (m meteredPods) Pods(namespace string) corelisters.PodNamespaceLister {
	return meteredPodsIn{m.PodLister.Pods(namespace), m, tenant.Flat(namespace).Space()}
}

type meteredPodsIn struct {
	corelisters.PodNamespaceLister
	meteredPods
	of tenant.Name
}

// List implements corelisters.PodNamespaceLister.
func (m meteredPodsIn) List(selector labels.Selector) ([]*corev1.Pod, error) {
	if !m.of.IsSpace() {
		return m.PodNamespaceLister.List(selector)
	}
	if m.limited {
		if err := m.turns.take(m.of, 0); err != nil {
			return nil, err
		}
	}
	began := time.Now()
	defer func() { m.turns.charge(m.of, time.Since(began)) }()
	return m.PodNamespaceLister.List(selector)
}

// autoscalers returns HorizontalPodAutoscalers, for each of which the controller asks for all of its
// metrics.
func (t *turns) autoscalers(informer autoscalinginformers.HorizontalPodAutoscalerInformer) offered[autoscalinglisters.HorizontalPodAutoscalerLister] {
	autoscalers := t.informer(informer.Informer(), nil)
	return offered[autoscalinglisters.HorizontalPodAutoscalerLister]{autoscalers, autoscalinglisters.NewHorizontalPodAutoscalerLister(autoscalers.GetIndexer())}
}

// What it takes to compare the labels of an object with a selector.
const (
	selectorTime      = 200 * time.Nanosecond
	selectorValueTime = 20 * time.Nanosecond
)

// timeOf returns what it takes to compare a selector with a number of objects.
func timeOf(selector *metav1.LabelSelector, objects int) time.Duration {
	each := selectorTime
	if selector != nil {
		values := len(selector.MatchLabels)
		for i := range selector.MatchExpressions {
			values += 1 + len(selector.MatchExpressions[i].Values)
		}
		each += time.Duration(values) * selectorValueTime
	}
	return time.Duration(objects) * each
}

// deployments returns Deployments, each of which is compared with all ReplicaSets of its namespace.
func (t *turns) deployments(deployments cache.SharedIndexInformer, replicaSets cache.Indexer) *inTurn {
	inTurn := t.informer(deployments, func(obj any) (time.Duration, error) {
		d, ok := obj.(*appsv1.Deployment)
		if !ok {
			return 0, nil
		}
		found, err := replicaSets.ByIndex(cache.NamespaceIndex, d.Namespace)
		return timeOf(d.Spec.Selector, len(found)), err
	})
	inTurn.absent = true
	return inTurn
}

// What it takes to add a pod, and a container of it, to what a quota counts.
const (
	countedPodTime       = time.Microsecond
	countedContainerTime = 2 * time.Microsecond
	// countedResourceTime is that of each of its resources.
	countedResourceTime = 2 * time.Microsecond
	// scopeValueTime is that of a value of a scope, which is validated for each pod.
	scopeValueTime = 500 * time.Nanosecond
	// countedObjectTime is what it takes to add anything else.
	countedObjectTime = 200 * time.Nanosecond
)

// quotas returns ResourceQuotas of namespaces, for each of which all pods of the namespace are counted if it
// limits anything of pods.
func (t *turns) quotas(quotas coreinformers.ResourceQuotaInformer, pods corelisters.PodLister) offered[corelisters.ResourceQuotaLister] {
	inTurn := t.informer(quotas.Informer(), func(obj any) (took time.Duration, _ error) {
		q, ok := obj.(*corev1.ResourceQuota)
		if !ok || !limitsPods(q) {
			return 0, nil
		}
		all, err := pods.Pods(q.Namespace).List(labels.Everything())
		if err != nil {
			return 0, err
		}
		for _, pod := range all {
			took += countedPodTime + timeOfContainers(pod.Spec.InitContainers) + timeOfContainers(pod.Spec.Containers)
		}
		return took + time.Duration(len(all)*scopesOf(q))*scopeValueTime, nil
	})
	inTurn.absent = true
	return offered[corelisters.ResourceQuotaLister]{inTurn, corelisters.NewResourceQuotaLister(inTurn.GetIndexer())}
}

func timeOfContainers(containers []corev1.Container) (took time.Duration) {
	for i := range containers {
		resources := len(containers[i].Resources.Requests) + len(containers[i].Resources.Limits)
		took += countedContainerTime + time.Duration(resources)*countedResourceTime
	}
	return took
}

// scopesOf returns the values of the scopes of a quota.
func scopesOf(q *corev1.ResourceQuota) (values int) {
	if q.Spec.ScopeSelector != nil {
		for i := range q.Spec.ScopeSelector.MatchExpressions {
			values += len(q.Spec.ScopeSelector.MatchExpressions[i].Values)
		}
	}
	return values
}

// limitsPods reports whether a quota limits something that pods are counted for.
func limitsPods(q *corev1.ResourceQuota) bool {
	for name := range q.Spec.Hard {
		kind := strings.TrimPrefix(string(name), "count/")
		if kind == "pods" || kind == string(name) && !strings.Contains(kind, "storageclass") {
			return true
		}
	}
	return false
}

// counted returns listers of what quotas count, which charge tenants for it.
func (t *turns) counted(listers quota.ListerForResourceFunc) quota.ListerForResourceFunc {
	return func(resource schema.GroupVersionResource) (cache.GenericLister, error) {
		lister, err := listers(resource)
		if err != nil {
			return nil, err
		}
		return countedLister{lister, t}, nil
	}
}

type countedLister struct {
	cache.GenericLister
	turns *turns
}

// ByNamespace implements cache.GenericLister.
func (l countedLister) ByNamespace(namespace string) cache.GenericNamespaceLister {
	return countedIn{l.GenericLister.ByNamespace(namespace), l.turns, tenant.Flat(namespace).Space()}
}

type countedIn struct {
	cache.GenericNamespaceLister
	turns *turns
	of    tenant.Name
}

// List implements cache.GenericNamespaceLister.
func (l countedIn) List(selector labels.Selector) ([]runtime.Object, error) {
	began := time.Now()
	found, err := l.GenericNamespaceLister.List(selector)
	if l.of.IsSpace() {
		l.turns.charge(l.of, time.Since(began)+time.Duration(len(found))*countedObjectTime)
	}
	return found, err
}
