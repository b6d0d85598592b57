package kubecontrollers

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/labels"
	autoscalinginformers "k8s.io/client-go/informers/autoscaling/v2"
	batchinformers "k8s.io/client-go/informers/batch/v1"
	coreinformers "k8s.io/client-go/informers/core/v1"
	autoscalinglisters "k8s.io/client-go/listers/autoscaling/v2"
	batchlisters "k8s.io/client-go/listers/batch/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	policylisters "k8s.io/client-go/listers/policy/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/tenantry/tenantry/internal/tenant"
)

// services returns those of which Endpoints or EndpointSlices are made.
func (t *turns) services(informer coreinformers.ServiceInformer) offered[corelisters.ServiceLister] {
	services := t.informer(smallServices{informer}.Informer())
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
	l.informer.look(l.namespace, func() { found, err = l.ServiceNamespaceLister.List(selector) })
	return found, err
}

// budgets returns PodDisruptionBudgets, for each of which the controller asks for the scale of all
// that controls a pod.
func (t *turns) budgets(from offered[policylisters.PodDisruptionBudgetLister]) offered[policylisters.PodDisruptionBudgetLister] {
	budgets := t.absentInformer(from.informer)
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
	if !l.informer.look(pod.Namespace, func() { found, err = l.PodDisruptionBudgetLister.GetPodPodDisruptionBudgets(pod) }) {
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
	namespaces := t.absentInformer(informer.Informer())
	// The controller waits for seconds before it takes one that it hears of.
	namespaces.most, namespaces.countQueued = deletionWorkers/2, false
	return offeredInTurn(namespaces, corelisters.NewNamespaceLister)
}

// pods returns pods, of which a controller lists those that a selector matches: of thousands of selectors of one item, and
// can do without (ReplicaSets), or in a queue whose items are tried again after errors (Jobs that have gone). Lists
// of a tenant that owes much are errors.
func (t *turns) pods(informer coreinformers.PodInformer) offered[corelisters.PodLister] {
	return offered[corelisters.PodLister]{exempting(informer.Informer()), limitedPods{informer.Lister(), t}}
}

type limitedPods struct {
	corelisters.PodLister
	turns *turns
}

// Pods implements corelisters.PodLister.
func (m limitedPods) Pods(namespace string) corelisters.PodNamespaceLister {
	return limitedPodsIn{m.PodLister.Pods(namespace), m.turns, tenant.Flat(namespace).Space()}
}

type limitedPodsIn struct {
	corelisters.PodNamespaceLister
	turns *turns
	of    tenant.Name
}

// List implements corelisters.PodNamespaceLister.
func (m limitedPodsIn) List(selector labels.Selector) ([]*corev1.Pod, error) {
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
	inTurn := t.informer(informer.Informer())
	inTurn.failed = nil // all come again after the same time, failures or not
	return offeredInTurn(inTurn, autoscalinglisters.NewHorizontalPodAutoscalerLister)
}

// quotas returns ResourceQuotas of namespaces.
func (t *turns) quotas(quotas coreinformers.ResourceQuotaInformer) offered[corelisters.ResourceQuotaLister] {
	return offeredInTurn(t.absentInformer(quotas.Informer()), corelisters.NewResourceQuotaLister)
}

// cronJobs returns CronJobs.
func (t *turns) cronJobs(cronJobs batchinformers.CronJobInformer) offered[batchlisters.CronJobLister] {
	return offeredInTurn(t.absentInformer(cronJobs.Informer()), batchlisters.NewCronJobLister)
}

// jobs returns Jobs that are deleted some time after they have finished.
func (t *turns) jobs(jobs batchinformers.JobInformer) offered[batchlisters.JobLister] {
	return offeredInTurn(t.absentInformer(jobs.Informer()), batchlisters.NewJobLister)
}

// claims returns PersistentVolumeClaims.
func (t *turns) claims(claims coreinformers.PersistentVolumeClaimInformer) offered[corelisters.PersistentVolumeClaimLister] {
	return offeredInTurn(t.absentInformer(claims.Informer()), corelisters.NewPersistentVolumeClaimLister)
}

// endpoints returns Endpoints that are mirrored. The EndpointSlices of absent ones would be deleted.
func (t *turns) endpoints(endpoints coreinformers.EndpointsInformer) offered[corelisters.EndpointsLister] {
	return offeredInTurn(t.informer(endpoints.Informer()), corelisters.NewEndpointsLister)
}

// absentInformer is informer for a controller that has nothing to do for what is not there.
func (t *turns) absentInformer(of cache.SharedIndexInformer) *inTurn {
	i := t.informer(of)
	i.absent = true
	return i
}

func offeredInTurn[L any](i *inTurn, lister func(cache.Indexer) L) offered[L] {
	return offered[L]{i, lister(i.GetIndexer())}
}
