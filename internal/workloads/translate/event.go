package translate

import (
	"cmp"
	"regexp"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	podv1 "k8s.io/kubernetes/pkg/api/v1/pod"
	"k8s.io/kubernetes/pkg/kubelet/events"

	"github.com/tenantry/tenantry/internal/workloads/names"
)

// reasonScheduled is that of the scheduler's event that a pod has a node. Upstream has no constant for it.
const reasonScheduled = "Scheduled"

var (
	// aboutPod are reasons of events whose messages are about the pod and its node alone. Autoscalers, descheduling and
	// others name nodes, groups of nodes and pods of everybody.
	aboutPod = sets.New(reasonScheduled, events.CreatedContainer, events.StartedContainer, events.FailedToCreateContainer, events.KillingContainer,
		events.BackOffStartContainer, events.ExceededGracePeriod, events.FailedToCreatePodContainer, events.NetworkNotReady,
		events.ResizeDeferred, events.ResizeInfeasible, events.ResizeCompleted, events.ResizeStarted, events.ResizeError,
		events.PullingImage, events.PulledImage, events.FailedToInspectImage, events.ErrImageNeverPullPolicy, events.InvalidImageID,
		events.VolumeResizeSuccess, events.FileSystemResizeSuccess, events.VolumePermissionChangeInProgress, events.SuccessfulAttachVolume,
		events.SuccessfulMountVolume, events.SandboxChanged, events.ContainerUnhealthy, events.ContainerProbeWarning, events.FailedSync,
		events.FailedValidation, events.FailedPostStartHook, events.FailedPreStopHook, "Evicted")
	// ofPlugins are those whose messages end with what a plugin of the node says, which may name what others have there.
	ofPlugins = sets.New(events.FailedAttachVolume, events.FailedMountVolume, events.FailedMapVolume, events.VolumeResizeFailed, events.FileSystemResizeFailed,
		events.FailedCreatePodSandBox, events.FailedStatusPodSandBox, events.FailedToKillPod, events.FailedPrepareDynamicResources)
)

// notShown is what a tenant is told where a message may be about others.
const notShown = "only the reason is shown, because the message may be about others; the platform's administrators see it on the host cluster"

// containerOfEvent is the field that a kubelet names in an event about a container.
var containerOfEvent = regexp.MustCompile(`^spec\.(?:initContainers|containers|ephemeralContainers)\{(.*)\}$`)

// isOfAnother reports whether an event is about a container that a webhook of the host has added.
func isOfAnother(event *corev1.Event, pod *corev1.Pod) bool {
	about := containerOfEvent.FindStringSubmatch(event.InvolvedObject.FieldPath)
	if about == nil {
		return false
	}
	own := false
	podv1.VisitContainers(&pod.Spec, podv1.AllContainers, func(c *corev1.Container, of podv1.ContainerType) bool {
		own = about[1] == c.Name && of != podv1.EphemeralContainers || about[1] == names.Debugger(c.Name) && of == podv1.EphemeralContainers
		return !own
	})
	return !own
}

// LastSeen returns when what an event tells of was last seen, whichever API it was written by.
func LastSeen(event *corev1.Event) metav1.Time {
	switch {
	case event.Series != nil:
		return metav1.Time(event.Series.LastObservedTime)
	case !event.EventTime.IsZero():
		return metav1.Time(event.EventTime)
	default:
		return event.LastTimestamp
	}
}

// Event returns what a tenant is told of an event about a pod of the host: its reason, and its message where that is
// about the pod. It is one of the core API, also if it was written by events.k8s.io, as by the scheduler: of those,
// the server asks for an action and an instance, which are the host's.
func Event(event *corev1.Event, host, pod *corev1.Pod, home names.Namespace) corev1.Event {
	shown := corev1.Event{
		Reason: event.Reason, Type: event.Type, Count: event.Count, FirstTimestamp: event.FirstTimestamp, LastTimestamp: LastSeen(event),
		Source: corev1.EventSource{Component: cmp.Or(event.Source.Component, event.ReportingController)}, ReportingController: event.ReportingController,
	}
	if !event.EventTime.IsZero() {
		shown.FirstTimestamp, shown.Count = metav1.Time(event.EventTime), 1
	}
	if event.Series != nil {
		shown.Count = event.Series.Count
	}
	message, plain := event.Message, texts(pod, home)
	if !containerOfEvent.MatchString(event.InvolvedObject.FieldPath) {
		message = withoutAdded(message, addedTo(host, pod))
	}
	message = plain(message)
	shown.InvolvedObject.FieldPath = plain(event.InvolvedObject.FieldPath)
	switch {
	case isOfAnother(event, pod):
		shown.Message, shown.InvolvedObject.FieldPath = notShown, ""
	case event.Reason == "FailedScheduling":
		shown.Message = unschedulable(message)
	case aboutPod.Has(event.Reason):
		shown.Message = message
	case ofPlugins.Has(event.Reason):
		shown.Message, _, _ = strings.Cut(message, "rpc error")
		shown.Message = strings.TrimRight(shown.Message, ": ")
	default:
		shown.Message = notShown
	}
	if node := host.Spec.NodeName; node != "" && event.Source.Host == node {
		shown.Source.Host, shown.ReportingInstance = node, node
	}
	return shown
}
