package sync

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	utilcache "k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/client-go/kubernetes/scheme"
	objectreference "k8s.io/client-go/tools/reference"
	podv1 "k8s.io/kubernetes/pkg/api/v1/pod"
	utilpod "k8s.io/kubernetes/pkg/util/pod"
	"k8s.io/utils/clock"

	"github.com/tenantry/tenantry/internal/process/ratelimit"
	"github.com/tenantry/tenantry/internal/tenant"
	"github.com/tenantry/tenantry/internal/text"
	"github.com/tenantry/tenantry/internal/workloads/names"
)

const (
	// component is the source of events of the syncer itself.
	component = "tenantry-syncer"
	// reasonRefused is the reason of the condition and of the event of a pod that does not get to the host.
	reasonRefused = "RefusedByHost"
	// maxRecentEvents is how many of its own events the syncer remembers, and recentFor for how long: spaces forget
	// them after an hour.
	maxRecentEvents = 8192
	recentFor       = 50 * time.Minute
	// unrecordedTime is after what time an object is looked at again of which an event could not be recorded.
	unrecordedTime = time.Minute
	// messageLen is how long a message of an event may be.
	messageLen = 1024
)

// recentEvents remembers the syncer's own events, so that one small write of a tenant does not make hundreds of equal
// ones.
type recentEvents struct {
	limits *ratelimit.Limits[tenant.Name]
	events *utilcache.LRUExpireCache
}

func newRecentEvents(c clock.PassiveClock) *recentEvents {
	return &recentEvents{limits: newEventLimits(), events: utilcache.NewLRUExpireCacheWithClock(maxRecentEvents, c)}
}

// refuse says in the space why a pod is not on the host. It is not an error of the syncer: another look
// comes when the pod, its namespace or its Tenant changes.
func (s *syncer) refuse(ctx context.Context, pod *corev1.Pod, why string) error {
	return s.unscheduled(ctx, pod, reasonRefused, why)
}

// unscheduled says in the space why a pod does not run yet.
func (s *syncer) unscheduled(ctx context.Context, pod *corev1.Pod, reason, why string) error {
	status, why := *pod.Status.DeepCopy(), s.wayOut(why)
	if !s.setCondition(&status, pod, corev1.PodCondition{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: reason, Message: why}) {
		return nil
	}
	if err := s.updateStatus(ctx, pod, status, why); err != nil {
		return fmt.Errorf("writing why the pod does not run: %w", err)
	}
	return s.recordEvent(ctx, pod, reason, why)
}

// setCondition sets a condition in a status of a pod, and reports whether the pod has another one. It is since now,
// unless the pod has had it before.
func (s *syncer) setCondition(status *corev1.PodStatus, pod *corev1.Pod, condition corev1.PodCondition) bool {
	condition.LastTransitionTime = metav1.NewTime(s.clock.Now())
	_, has := podv1.GetPodCondition(&pod.Status, condition.Type)
	is := has != nil && has.Status == condition.Status
	if is {
		condition.LastTransitionTime = has.LastTransitionTime
	}
	status.Conditions = utilpod.ReplaceOrAppendPodCondition(status.Conditions, &condition)
	return !is || has.Reason != condition.Reason || has.Message != condition.Message
}

// recordRefusal records an event in the space that an object of it, or a change, is not on the host, and why.
func (s *syncer) recordRefusal(ctx context.Context, obj runtime.Object, why string) error {
	return s.recordEvent(ctx, obj, reasonRefused, s.wayOut(why))
}

// recordEvent creates an event about an object in its space: the same one once an hour at most, and so many of a tenant
// in a minute. What is too much is recorded when the object is looked at again, which is soon. Of a pod that does not
// run, a condition says it, too, and what is too much of that is not recorded.
func (s *syncer) recordEvent(ctx context.Context, obj runtime.Object, reason, message string) error {
	about, err := objectreference.GetReference(scheme.Scheme, obj)
	if err != nil {
		return err
	}
	message = shortened(message)
	name := "tn-" + names.Digest(string(about.UID), reason, message)
	key := about.Namespace + "/" + name
	if _, is := s.recent.events.Get(key); is {
		return nil
	}
	if s.recent.limits.Take(s.clock.Now(), tenant.Flat(about.Namespace).Space(), 1) > 0 {
		s.lookLater(obj)
		return nil
	}
	now := metav1.NewTime(s.clock.Now().Truncate(time.Second))
	event := &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Name: name, Namespace: about.Namespace},
		InvolvedObject: *about,
		Reason:         reason, Message: message, Type: corev1.EventTypeWarning, Source: corev1.EventSource{Component: component},
		FirstTimestamp: now, LastTimestamp: now, Count: 1,
	}
	_, err = s.spaces.CoreV1().Events(about.Namespace).Create(ctx, event, metav1.CreateOptions{})
	switch {
	case apierrors.IsTooManyRequests(err):
		s.lookLater(obj)
		return nil
	case err != nil && !apierrors.IsAlreadyExists(err) && !apierrors.IsForbidden(err) && !apierrors.IsNotFound(err):
		return fmt.Errorf("recording an event: %w", err)
	}
	s.recent.events.Add(key, nil, recentFor)
	return nil
}

// lookLater has an object looked at again, of which an event could not be recorded.
func (s *syncer) lookLater(obj runtime.Object) {
	var kinds []kind
	switch obj.(type) {
	case *corev1.Pod:
		kinds = []kind{podItem}
	case *corev1.PersistentVolumeClaim:
		kinds = []kind{claimItem}
	case *corev1.Service:
		kinds = []kind{serviceItem, slicesItem}
	case *networkingv1.NetworkPolicy:
		kinds = []kind{policyItem}
	case *networkingv1.Ingress:
		kinds = []kind{ingressItem}
	case *policyv1.PodDisruptionBudget:
		kinds = []kind{budgetItem}
	case *unstructured.Unstructured:
		kinds = []kind{routeItem}
	}
	for _, k := range kinds {
		s.queue.AddAfter(itemOf(k, obj.(metav1.Object)), unrecordedTime)
	}
}

// shortened returns as much of a message as an event may have.
func shortened(message string) string {
	return text.Cut(message, messageLen)
}
