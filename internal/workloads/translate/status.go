package translate

import (
	"maps"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tenantry/tenantry/internal/workloads/names"
)

// Status returns the status of a pod in a space, whose host's pod has another one. What is the
// space's own stays, such as the conditions of readiness gates, which the host has from the space.
func Status(host *corev1.Pod, pod *corev1.Pod, home names.Namespace) corev1.PodStatus {
	status := *host.Status.DeepCopy()
	plain := texts(pod, home)
	status.QOSClass, status.NominatedNodeName = pod.Status.QOSClass, pod.Status.NominatedNodeName
	status.ObservedGeneration = 0
	status.ResourceClaimStatuses, status.ExtendedResourceClaimStatus = nil, nil
	status.Message, status.Reason = plain(status.Message), plain(status.Reason)
	status.Conditions = slices.DeleteFunc(status.Conditions, func(c corev1.PodCondition) bool { return IsGate(pod, c.Type) })
	for i := range status.Conditions {
		c := &status.Conditions[i]
		c.ObservedGeneration = 0
		c.Message = plain(c.Message)
		if c.Type != corev1.PodScheduled {
			continue
		}
		if c.Status == corev1.ConditionFalse {
			c.Message = Unschedulable(c.Message)
		}
		c.LastTransitionTime = sinceWhen(pod, *c)
	}
	status.Conditions = append(status.Conditions, ownConditions(pod, status.Conditions)...)
	for _, containers := range [][]corev1.ContainerStatus{status.InitContainerStatuses, status.ContainerStatuses, status.EphemeralContainerStatuses} {
		for i := range containers {
			plainState(&containers[i].State, plain)
			plainState(&containers[i].LastTerminationState, plain)
		}
	}
	return status
}

// sinceWhen returns since when a condition is what it is: in the space the binding writes that a pod is scheduled, and
// another moment would be another write.
func sinceWhen(pod *corev1.Pod, c corev1.PodCondition) metav1.Time {
	for i := range pod.Status.Conditions {
		if own := &pod.Status.Conditions[i]; own.Type == c.Type && own.Status == c.Status {
			return own.LastTransitionTime
		}
	}
	return c.LastTransitionTime
}

// ofKubelet are the conditions that a host's scheduler and kubelet write.
var ofKubelet = []corev1.PodConditionType{
	corev1.PodScheduled, corev1.PodReady, corev1.PodInitialized, corev1.ContainersReady, corev1.PodReadyToStartContainers,
	corev1.PodResizePending, corev1.PodResizeInProgress,
}

// IsHostCondition reports whether a host's scheduler or kubelet writes a condition of a pod.
func IsHostCondition(t corev1.PodConditionType) bool { return slices.Contains(ofKubelet, t) }

// ownConditions returns the conditions of a pod that somebody in its space has set, such as an eviction, and of which
// the host's pod knows nothing.
func ownConditions(pod *corev1.Pod, host []corev1.PodCondition) []corev1.PodCondition {
	return slices.DeleteFunc(slices.Clone(pod.Status.Conditions), func(own corev1.PodCondition) bool {
		return IsHostCondition(own.Type) ||
			slices.ContainsFunc(host, func(has corev1.PodCondition) bool { return has.Type == own.Type })
	})
}

func plainState(s *corev1.ContainerState, plain func(string) string) {
	if s.Waiting != nil {
		s.Waiting.Message = plain(s.Waiting.Message)
	}
	// What the container itself has written when it ended is in the message, too.
	if s.Terminated != nil {
		s.Terminated.Message = plain(s.Terminated.Message)
	}
}

var insufficient = regexp.MustCompile(`Insufficient [A-Za-z0-9._/-]*[A-Za-z0-9]`)

// Unschedulable returns what a tenant is told of a message of the host's scheduler, which counts nodes and
// names their taints.
func Unschedulable(message string) string {
	told := "no node of the host cluster can run the pod now"
	found := insufficient.FindAllString(message, -1)
	slices.Sort(found)
	if found = slices.Compact(found); len(found) > 0 {
		told += ": " + strings.Join(found, ", ")
	}
	return told
}

// texts returns a function that puts the names of the space in the place of the host's in texts for
// people.
func texts(pod *corev1.Pod, home names.Namespace) func(string) string {
	pairs := []string{home.Host(), home.Name, names.Tokens(pod.UID), "token of the service account"}
	read := ReferencesOf(&pod.Spec)
	all := maps.Clone(read.ConfigMaps)
	maps.Copy(all, read.Secrets)
	// Longer names first: one may begin with another.
	for _, name := range slices.SortedFunc(maps.Keys(all), func(a, b string) int { return len(b) - len(a) }) {
		pairs = append(pairs, names.Copy(name), name)
	}
	replacer := strings.NewReplacer(pairs...)
	return replacer.Replace
}

// Text returns a text for people about the host's pod with the names of the space.
func Text(text string, pod *corev1.Pod, home names.Namespace) string { return texts(pod, home)(text) }
