package kubecontrollers

import (
	"context"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	podv1 "k8s.io/kubernetes/pkg/api/v1/pod"
	utilpod "k8s.io/kubernetes/pkg/util/pod"

	"github.com/tenantry/tenantry/internal/tenant"
)

const (
	// podGCPeriod is upstream's.
	podGCPeriod = 20 * time.Second
	// podGCTime is how long it works for a space in a period. One pod comes after the other, and webhooks may take
	// their time, or take back that a pod has failed.
	podGCTime = time.Second
	// podGCTimeout is how long it waits for the last of these, and podGCSpaces for how many spaces it works at once.
	podGCTimeout = 5 * time.Second
	podGCSpaces  = 16
)

// podGC has pods fail that are deleted before they had a node. Jobs that replace pods which have failed alone wait for
// that, and namespaces for these Jobs. Upstream's controller does the same, and brings the kubelet along. What it does
// about pods of nodes is left out: in a space there are none.
type podGC struct {
	client kubernetes.Interface
	pods   corelisters.PodLister
	synced cache.InformerSynced
}

func newPodGC(_ context.Context, e *environment) (runner, error) {
	pods := e.informers.Core().V1().Pods()
	return &podGC{e.client, pods.Lister(), pods.Informer().HasSynced}, nil
}

// Run implements runner.
func (c *podGC) Run(ctx context.Context, _ int) {
	if cache.WaitForCacheSync(ctx.Done(), c.synced) {
		wait.UntilWithContext(ctx, c.collect, podGCPeriod)
	}
}

func (c *podGC) collect(ctx context.Context) {
	pods, err := c.pods.List(labels.Everything())
	if err != nil {
		utilruntime.HandleErrorWithContext(ctx, err, "Listing pods")
		return
	}
	unscheduled := map[tenant.Name][]*corev1.Pod{}
	for _, pod := range pods {
		if isUnscheduled(pod) {
			n := tenant.Flat(pod.Namespace).Space()
			unscheduled[n] = append(unscheduled[n], pod)
		}
	}
	spaces := slices.Collect(maps.Values(unscheduled))
	workqueue.ParallelizeUntil(ctx, podGCSpaces, len(spaces), func(i int) { c.collectIn(ctx, spaces[i]) })
}

// collectIn has pods of one space fail.
func (c *podGC) collectIn(ctx context.Context, pods []*corev1.Pod) {
	ctx, cancel := context.WithTimeout(ctx, podGCTimeout)
	defer cancel()
	begin := time.Now()
	for _, pod := range pods {
		if time.Since(begin) > podGCTime {
			return
		}
		if err := c.fail(ctx, pod); err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			utilruntime.HandleErrorWithContext(ctx, err, "Having a deleted pod without a node fail", "pod", cache.MetaObjectToName(pod))
		}
	}
}

func isUnscheduled(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp != nil && pod.Spec.NodeName == "" && !podv1.IsPodTerminal(pod)
}

func (c *podGC) fail(ctx context.Context, pod *corev1.Pod) error {
	failed := pod.Status.DeepCopy()
	failed.Phase = corev1.PodFailed
	if _, _, _, err := utilpod.PatchPodStatus(ctx, c.client, pod.Namespace, pod.Name, pod.UID, pod.Status, *failed); err != nil {
		return err
	}
	return c.client.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, *metav1.NewDeleteOptions(0))
}
