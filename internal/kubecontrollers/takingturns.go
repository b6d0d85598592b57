package kubecontrollers

import (
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
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

// namespaces returns Namespaces, of which the controller asks for everything in one that is deleted, again
// and again while something has a finalizer.
func (t *turns) namespaces(informer coreinformers.NamespaceInformer) offered[corelisters.NamespaceLister] {
	namespaces := t.informer(informer.Informer(), nil)
	namespaces.absent = true
	return offered[corelisters.NamespaceLister]{namespaces, corelisters.NewNamespaceLister(namespaces.GetIndexer())}
}

// pods returns pods whose lister charges tenants for the time that it takes to find those that a
// selector matches, for controllers that do so for thousands of selectors of one item.
func (t *turns) pods(informer coreinformers.PodInformer) offered[corelisters.PodLister] {
	return offered[corelisters.PodLister]{informer.Informer(), meteredPods{informer.Lister(), t}}
}

type meteredPods struct {
	corelisters.PodLister
	turns *turns
}

// Pods implements corelisters.PodLister.
func (m meteredPods) Pods(namespace string) corelisters.PodNamespaceLister {
	return meteredPodsIn{m.PodLister.Pods(namespace), m.turns, tenant.Flat(namespace).Space()}
}

type meteredPodsIn struct {
	corelisters.PodNamespaceLister
	turns *turns
	of    tenant.Name
}

// List implements corelisters.PodNamespaceLister.
func (m meteredPodsIn) List(selector labels.Selector) ([]*corev1.Pod, error) {
	if !m.of.IsSpace() {
		return m.PodNamespaceLister.List(selector)
	}
	if err := m.turns.take(m.of, 0); err != nil {
		return nil, err
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
		found, err := replicaSets.IndexKeys(cache.NamespaceIndex, d.Namespace)
		return timeOf(d.Spec.Selector, len(found)), err
	})
	inTurn.absent = true
	return inTurn
}

// What it takes to add a pod, and a container of it, to what a quota counts.
const (
	countedPodTime       = time.Microsecond
	countedContainerTime = 5 * time.Microsecond
)

// quotas returns ResourceQuotas of namespaces, for each of which all pods of the namespace are counted.
func (t *turns) quotas(quotas coreinformers.ResourceQuotaInformer, pods corelisters.PodLister) offered[corelisters.ResourceQuotaLister] {
	inTurn := t.informer(quotas.Informer(), func(obj any) (took time.Duration, _ error) {
		quota, ok := obj.(*corev1.ResourceQuota)
		if !ok {
			return 0, nil
		}
		all, err := pods.Pods(quota.Namespace).List(labels.Everything())
		for _, pod := range all {
			took += countedPodTime + time.Duration(len(pod.Spec.InitContainers)+len(pod.Spec.Containers))*countedContainerTime
		}
		return took, err
	})
	inTurn.absent = true
	return offered[corelisters.ResourceQuotaLister]{inTurn, corelisters.NewResourceQuotaLister(inTurn.GetIndexer())}
}
