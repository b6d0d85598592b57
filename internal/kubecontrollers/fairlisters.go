package kubecontrollers

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	autoscalinginformers "k8s.io/client-go/informers/autoscaling/v2"
	coreinformers "k8s.io/client-go/informers/core/v1"
	autoscalinglisters "k8s.io/client-go/listers/autoscaling/v2"
	corelisters "k8s.io/client-go/listers/core/v1"
	policylisters "k8s.io/client-go/listers/policy/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/tenantry/tenantry/internal/tenant"
)

// services returns those of which Endpoints or EndpointSlices are made.
func (d *debts) services(informer coreinformers.ServiceInformer) offered[corelisters.ServiceLister] {
	services := d.informer(smallServices(informer).informer, d.failParked())
	return offered[corelisters.ServiceLister]{services, fairServices{corelisters.NewServiceLister(services.GetIndexer()), services}}
}

// fairServices charges a tenant for finding the Services of a pod, which is once for each event of each.
type fairServices struct {
	corelisters.ServiceLister
	informer *fairInformer
}

// Services implements corelisters.ServiceLister.
func (l fairServices) Services(namespace string) corelisters.ServiceNamespaceLister {
	return servicesIn{l.ServiceLister.Services(namespace), l.informer, namespace}
}

type servicesIn struct {
	corelisters.ServiceNamespaceLister
	informer  *fairInformer
	namespace string
}

// List implements corelisters.ServiceNamespaceLister. Of a tenant that is not in turn it lists none, and the
// controller hears of all later.
func (l servicesIn) List(selector labels.Selector) (found []*corev1.Service, err error) {
	l.informer.look(l.namespace, func() { found, err = l.ServiceNamespaceLister.List(selector) })
	return found, err
}

// budgets returns PodDisruptionBudgets, for each of which the controller asks for the scale of all
// that controls a pod.
func (d *debts) budgets(from offered[policylisters.PodDisruptionBudgetLister]) offered[policylisters.PodDisruptionBudgetLister] {
	budgets := d.informer(from.informer, d.hideParked())
	lister := fairBudgets{from.lister, budgets, policylisters.NewPodDisruptionBudgetLister(budgets.GetIndexer())}
	return offered[policylisters.PodDisruptionBudgetLister]{budgets, lister}
}

type fairBudgets struct {
	policylisters.PodDisruptionBudgetLister
	informer *fairInformer
	inTurn   policylisters.PodDisruptionBudgetLister
}

// GetPodPodDisruptionBudgets implements policylisters.PodDisruptionBudgetListerExpansion. It is called
// for each event of a pod, in a handler that serves all spaces.
func (l fairBudgets) GetPodPodDisruptionBudgets(pod *corev1.Pod) (found []*policyv1.PodDisruptionBudget, err error) {
	if !l.informer.look(pod.Namespace, func() { found, err = l.PodDisruptionBudgetLister.GetPodPodDisruptionBudgets(pod) }) {
		return nil, errNoneSelects
	}
	return found, err
}

// PodDisruptionBudgets implements policylisters.PodDisruptionBudgetLister.
func (l fairBudgets) PodDisruptionBudgets(namespace string) policylisters.PodDisruptionBudgetNamespaceLister {
	return l.inTurn.PodDisruptionBudgets(namespace)
}

// namespaces returns Namespaces, of which the controller asks for everything in one that is deleted, again
// and again while something has a finalizer.
func (d *debts) namespaces(informer coreinformers.NamespaceInformer) offered[corelisters.NamespaceLister] {
	s := d.hideParked()
	// The controller waits for seconds before it takes one that it hears of.
	s.most, s.countQueued = deletionWorkers/2, false
	return offeredFairly(d.informer(informer.Informer(), s), corelisters.NewNamespaceLister)
}

// rootConfigMaps returns ConfigMaps of which a worker takes one for its namespace, which may be there or not, and the
// namespaces of which the controller hears when it is their turn. An absent ConfigMap would be created.
func (d *debts) rootConfigMaps(configMaps coreinformers.ConfigMapInformer, informer coreinformers.NamespaceInformer) (
	offered[corelisters.ConfigMapLister], offered[corelisters.NamespaceLister]) {
	namespaces := offeredFairly(d.informer(informer.Informer(), d.failParked()), corelisters.NewNamespaceLister)
	return offered[corelisters.ConfigMapLister]{configMaps.Informer(), takingConfigMaps{configMaps.Lister(), namespaces.lister}}, namespaces
}

type takingConfigMaps struct {
	corelisters.ConfigMapLister
	namespaces corelisters.NamespaceLister
}

// ConfigMaps implements corelisters.ConfigMapLister.
func (l takingConfigMaps) ConfigMaps(namespace string) corelisters.ConfigMapNamespaceLister {
	return takingConfigMapsIn{l.ConfigMapLister.ConfigMaps(namespace), l.namespaces, namespace}
}

type takingConfigMapsIn struct {
	corelisters.ConfigMapNamespaceLister
	namespaces corelisters.NamespaceLister
	namespace  string
}

// Get implements corelisters.ConfigMapNamespaceLister.
func (l takingConfigMapsIn) Get(name string) (*corev1.ConfigMap, error) {
	if _, err := l.namespaces.Get(l.namespace); err != nil && !apierrors.IsNotFound(err) {
		return nil, err
	}
	return l.ConfigMapNamespaceLister.Get(name)
}

// pods returns pods, of which a controller lists those that a selector matches: of thousands of selectors of one item,
// and can do without (ReplicaSets), or in a queue whose items are tried again after errors (Jobs that have gone). Lists
// of a tenant that owes much are errors.
func (d *debts) pods(informer coreinformers.PodInformer) offered[corelisters.PodLister] {
	return offered[corelisters.PodLister]{exempting(informer.Informer()), limitedPods{informer.Lister(), d}}
}

type limitedPods struct {
	corelisters.PodLister
	debts *debts
}

// Pods implements corelisters.PodLister.
func (m limitedPods) Pods(namespace string) corelisters.PodNamespaceLister {
	return limitedPodsIn{m.PodLister.Pods(namespace), m.debts, tenant.Flat(namespace).Space()}
}

type limitedPodsIn struct {
	corelisters.PodNamespaceLister
	debts *debts
	of    tenant.Name
}

// List implements corelisters.PodNamespaceLister.
func (m limitedPodsIn) List(selector labels.Selector) ([]*corev1.Pod, error) {
	if !m.of.IsSpace() {
		return m.PodNamespaceLister.List(selector)
	}
	if err := m.debts.take(m.of, 0); err != nil {
		return nil, err
	}
	began := time.Now()
	defer func() { m.debts.charge(m.of, time.Since(began)) }()
	return m.PodNamespaceLister.List(selector)
}

// autoscalers returns HorizontalPodAutoscalers, for each of which the controller asks for all of its
// metrics.
func (d *debts) autoscalers(informer autoscalinginformers.HorizontalPodAutoscalerInformer) offered[autoscalinglisters.HorizontalPodAutoscalerLister] {
	s := d.failParked()
	s.retries = false // all come again after the same time, failures or not
	return offeredFairly(d.informer(informer.Informer(), s), autoscalinglisters.NewHorizontalPodAutoscalerLister)
}

// offeredIfInTurn is for a controller that has nothing to do for what is not there.
func offeredIfInTurn[L any](t *debts, informer cache.SharedIndexInformer, lister func(cache.Indexer) L) offered[L] {
	return offeredFairly(t.informer(informer, t.hideParked()), lister)
}

func offeredFairly[L any](i *fairInformer, lister func(cache.Indexer) L) offered[L] {
	return offered[L]{i, lister(i.GetIndexer())}
}
