package kubecontrollers

import (
	"sync/atomic"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	appsinformers "k8s.io/client-go/informers/apps/v1"
	batchinformers "k8s.io/client-go/informers/batch/v1"
	coreinformers "k8s.io/client-go/informers/core/v1"
	policyinformers "k8s.io/client-go/informers/policy/v1"
	appslisters "k8s.io/client-go/listers/apps/v1"
	batchlisters "k8s.io/client-go/listers/batch/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	policylisters "k8s.io/client-go/listers/policy/v1"
	"k8s.io/client-go/tools/cache"
)

// offered is an informer with a lister of its own.
type offered[L any] struct {
	informer cache.SharedIndexInformer
	lister   L
}

// Informer is that of the informers of all types.
func (o offered[L]) Informer() cache.SharedIndexInformer { return o.informer }

// Lister is that of the informers of type L.
func (o offered[L]) Lister() L { return o.lister }

// notEmpty returns a selector that matches nothing in the place of an empty one.
func notEmpty(selector *metav1.LabelSelector) *metav1.LabelSelector {
	if selector == nil || len(selector.MatchLabels)+len(selector.MatchExpressions) == 0 {
		return nil
	}
	return selector
}

// Empty selectors match nothing, except those of Jobs and PodDisruptionBudgets.

type replicaSetLister struct {
	appslisters.ReplicaSetLister
	selecting[*appsv1.ReplicaSet]
}

func newReplicaSets(informer appsinformers.ReplicaSetInformer, t *debts) (offered[appslisters.ReplicaSetLister], error) {
	s, err := newSelecting(informer.Informer(), func(rs *appsv1.ReplicaSet) *metav1.LabelSelector { return notEmpty(rs.Spec.Selector) })
	s, fair := s.taking(t, informer.Informer())
	return offered[appslisters.ReplicaSetLister]{fair, replicaSetLister{appslisters.NewReplicaSetLister(fair.GetIndexer()), s}}, err
}

// GetPodReplicaSets implements appslisters.ReplicaSetListerExpansion.
func (l replicaSetLister) GetPodReplicaSets(pod *corev1.Pod) ([]*appsv1.ReplicaSet, error) {
	return l.labelled(pod)
}

type controllerLister struct {
	corelisters.ReplicationControllerLister
	selecting[*corev1.ReplicationController]
}

func newReplicationControllers(informer coreinformers.ReplicationControllerInformer, t *debts) (offered[corelisters.ReplicationControllerLister], error) {
	s, err := newSelecting(informer.Informer(), func(rc *corev1.ReplicationController) *metav1.LabelSelector {
		return notEmpty(&metav1.LabelSelector{MatchLabels: rc.Spec.Selector})
	})
	s, fair := s.taking(t, informer.Informer())
	return offered[corelisters.ReplicationControllerLister]{fair, controllerLister{corelisters.NewReplicationControllerLister(fair.GetIndexer()), s}}, err
}

// GetPodControllers implements corelisters.ReplicationControllerListerExpansion.
func (l controllerLister) GetPodControllers(pod *corev1.Pod) ([]*corev1.ReplicationController, error) {
	return l.labelled(pod)
}

type statefulSetLister struct {
	appslisters.StatefulSetLister
	selecting[*appsv1.StatefulSet]
}

// newStatefulSets returns the small ones. Those of a pod, which are queued, are all: to look
// at how large each is takes longer.
func newStatefulSets(informer appsinformers.StatefulSetInformer, revisions appslisters.ControllerRevisionLister, t *debts) (offered[appslisters.StatefulSetLister], error) {
	s, err := newSelecting(informer.Informer(), func(set *appsv1.StatefulSet) *metav1.LabelSelector { return notEmpty(set.Spec.Selector) })
	s, fair := s.taking(t, smallSets(informer, revisions).informer)
	return offered[appslisters.StatefulSetLister]{fair, statefulSetLister{appslisters.NewStatefulSetLister(fair.GetIndexer()), s}}, err
}

// GetPodStatefulSets implements appslisters.StatefulSetListerExpansion.
func (l statefulSetLister) GetPodStatefulSets(pod *corev1.Pod) ([]*appsv1.StatefulSet, error) {
	return l.labelled(pod)
}

type jobLister struct {
	batchlisters.JobLister
	selecting[*batchv1.Job]
}

func newJobs(informer batchinformers.JobInformer, t *debts) (offered[batchlisters.JobLister], error) {
	s, err := newSelecting(informer.Informer(), func(job *batchv1.Job) *metav1.LabelSelector { return job.Spec.Selector })
	s, fair := s.taking(t, informer.Informer())
	return offered[batchlisters.JobLister]{fair, jobLister{batchlisters.NewJobLister(fair.GetIndexer()), s}}, err
}

// GetPodJobs implements batchlisters.JobListerExpansion.
func (l jobLister) GetPodJobs(pod *corev1.Pod) ([]batchv1.Job, error) {
	found, err := l.labelled(pod)
	jobs := make([]batchv1.Job, len(found))
	for i, job := range found {
		jobs[i] = *job
	}
	return jobs, err
}

type budgetLister struct {
	policylisters.PodDisruptionBudgetLister
	selecting[*policyv1.PodDisruptionBudget]
}

func newBudgets(informer policyinformers.PodDisruptionBudgetInformer) (offered[policylisters.PodDisruptionBudgetLister], error) {
	s, err := newSelecting(informer.Informer(), func(budget *policyv1.PodDisruptionBudget) *metav1.LabelSelector { return budget.Spec.Selector })
	return offered[policylisters.PodDisruptionBudgetLister]{informer.Informer(), budgetLister{informer.Lister(), s}}, err
}

// GetPodPodDisruptionBudgets implements policylisters.PodDisruptionBudgetListerExpansion.
func (l budgetLister) GetPodPodDisruptionBudgets(pod *corev1.Pod) ([]*policyv1.PodDisruptionBudget, error) {
	return l.matching(pod.Namespace, pod.Labels)
}

// The Deployments of a ReplicaSet without an owner are not looked up by a lister's method:
// upstream lists those of the namespace, for nothing else, in the handler of the ReplicaSet's
// event. So the handler notes the ReplicaSet, and the lister lists what selects it.

// newDeployments returns what the Deployment controller is offered.
func newDeployments(deployments appsinformers.DeploymentInformer, replicaSets appsinformers.ReplicaSetInformer, t *debts) (
	offered[appslisters.DeploymentLister], offered[appslisters.ReplicaSetLister], error) {
	s, err := newSelecting(deployments.Informer(), func(d *appsv1.Deployment) *metav1.LabelSelector { return notEmpty(d.Spec.Selector) })
	handled := &atomic.Pointer[appsv1.ReplicaSet]{}
	fair := t.informer(deployments.Informer(), t.hideParked())
	return offered[appslisters.DeploymentLister]{fair, deploymentLister{appslisters.NewDeploymentLister(fair.GetIndexer()), s, handled}},
		offered[appslisters.ReplicaSetLister]{newNotedReplicaSets(replicaSets.Informer(), handled), replicaSets.Lister()}, err
}

// notedReplicaSets notes the ReplicaSet that the handler of the controller is called for. It
// is called for one after another.
type notedReplicaSets struct {
	wrapping
	handled *atomic.Pointer[appsv1.ReplicaSet]
}

func newNotedReplicaSets(informer cache.SharedIndexInformer, handled *atomic.Pointer[appsv1.ReplicaSet]) notedReplicaSets {
	return notedReplicaSets{noting(exempting(informer), func(obj any) {
		if rs, ok := obj.(*appsv1.ReplicaSet); ok {
			handled.Store(rs)
		}
	}), handled}
}

type deploymentLister struct {
	appslisters.DeploymentLister
	selecting[*appsv1.Deployment]
	handled *atomic.Pointer[appsv1.ReplicaSet]
}

// Deployments implements appslisters.DeploymentLister.
func (l deploymentLister) Deployments(namespace string) appslisters.DeploymentNamespaceLister {
	return deploymentNamespaceLister{l.DeploymentLister.Deployments(namespace), l}
}

type deploymentNamespaceLister struct {
	appslisters.DeploymentNamespaceLister
	of deploymentLister
}

// List lists what selects the ReplicaSet. The controller parses the selectors that it gets,
// and queues the names, so these are short: each selects one of the ReplicaSet's labels.
func (l deploymentNamespaceLister) List(all labels.Selector) ([]*appsv1.Deployment, error) {
	rs := l.of.handled.Load()
	if rs == nil {
		return l.DeploymentNamespaceLister.List(all)
	}
	found, err := l.of.matching(rs.Namespace, rs.Labels)
	short := &metav1.LabelSelector{}
	for key, value := range rs.Labels {
		short.MatchLabels = map[string]string{key: value}
		break
	}
	for i, d := range found {
		found[i] = &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: d.Namespace, Name: d.Name}, Spec: appsv1.DeploymentSpec{Selector: short}}
	}
	return found, err
}
