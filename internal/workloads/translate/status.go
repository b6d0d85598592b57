package translate

import (
	"maps"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	podv1 "k8s.io/kubernetes/pkg/api/v1/pod"

	"github.com/tenantry/tenantry/internal/workloads/names"
)

// OwnsAddresses reports whether the addresses of a host's pod are its own, if it has any. The kubelet says of a pod
// whose network is gone that it is over, or that it is not ready to start containers, before others have its address.
func OwnsAddresses(host *corev1.Pod) bool {
	return !podv1.IsPodTerminal(host) && !slices.ContainsFunc(host.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReadyToStartContainers && c.Status == corev1.ConditionFalse
	})
}

// Status returns the status of a pod in a space, whose host's pod has another one. What is the space's own stays, such
// as the conditions of readiness gates, which the host has from the space. hostIsCurrent is whether the host's pod has
// all that this one asks for, but for what it refuses. Only then does a generation that the host has observed stand for
// the space's.
func Status(host *corev1.Pod, pod *corev1.Pod, home names.Namespace, hostIsCurrent bool) corev1.PodStatus {
	status := *host.Status.DeepCopy()
	plain := texts(pod, home)
	added := addedTo(host, pod)
	observed := func(is, was int64) int64 {
		if hostIsCurrent && is > 0 && is >= host.Generation {
			return pod.Generation
		}
		return was
	}
	status.QOSClass, status.NominatedNodeName = pod.Status.QOSClass, pod.Status.NominatedNodeName
	status.ObservedGeneration = observed(status.ObservedGeneration, pod.Status.ObservedGeneration)
	status.ResourceClaimStatuses, status.ExtendedResourceClaimStatus, status.NodeAllocatableResourceClaimStatuses = nil, nil, nil
	status.VolumeHealth = nil // it is what drivers of the host's volumes write
	if held := host.Spec.Resources; held != nil && status.Resources == nil && status.AllocatedResources == nil {
		// Its node says nothing of resources of a pod, and resizes none: quotas count what the host's pod has.
		status.Resources, status.AllocatedResources = &corev1.ResourceRequirements{Requests: held.Requests, Limits: held.Limits}, held.Requests
	}
	status.Message, status.Reason = plain(withoutAdded(status.Message, added)), plain(status.Reason)
	status.Conditions = slices.DeleteFunc(status.Conditions, func(c corev1.PodCondition) bool { return isGate(pod, c.Type) })
	for i := range status.Conditions {
		c := &status.Conditions[i]
		c.ObservedGeneration = observed(c.ObservedGeneration, generationOf(pod, c.Type))
		c.Message = plain(withoutAdded(c.Message, added))
		if c.Type != corev1.PodScheduled {
			continue
		}
		if c.Status == corev1.ConditionFalse {
			c.Message = unschedulable(c.Message)
		}
		c.LastTransitionTime = sinceWhen(pod, *c)
	}
	status.Conditions = append(status.Conditions, ownConditions(pod, status.Conditions)...)
	status.InitContainerStatuses = ofOwn(pod.Spec.InitContainers, status.InitContainerStatuses)
	status.ContainerStatuses = ofOwn(pod.Spec.Containers, status.ContainerStatuses)
	status.EphemeralContainerStatuses = debuggers(pod, status.EphemeralContainerStatuses)
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
	if _, own := podv1.GetPodCondition(&pod.Status, c.Type); own != nil && own.Status == c.Status {
		return own.LastTransitionTime
	}
	return c.LastTransitionTime
}

// generationOf returns the generation of a pod that a condition of it is about.
func generationOf(pod *corev1.Pod, t corev1.PodConditionType) int64 {
	if _, own := podv1.GetPodCondition(&pod.Status, t); own != nil {
		return own.ObservedGeneration
	}
	return 0
}

// ofOwn returns the statuses of containers that a pod has in its space. A webhook of the host may have added others,
// which are the platform's.
func ofOwn(own []corev1.Container, host []corev1.ContainerStatus) []corev1.ContainerStatus {
	var of []corev1.ContainerStatus
	for _, status := range host {
		if i := slices.IndexFunc(own, func(c corev1.Container) bool { return c.Name == status.Name }); i >= 0 {
			status.AllocatedResourcesStatus = devicesOf(&own[i], status.AllocatedResourcesStatus)
			of = append(of, status)
		}
	}
	return of
}

// devicesOf returns the health of the devices that a container has in its space, which lets no others in. A webhook of
// the host may have added some.
func devicesOf(own *corev1.Container, host []corev1.ResourceStatus) []corev1.ResourceStatus {
	return slices.DeleteFunc(host, func(r corev1.ResourceStatus) bool {
		_, limited := own.Resources.Limits[r.Name]
		_, requested := own.Resources.Requests[r.Name]
		return !limited && !requested
	})
}

// debuggers returns the statuses of the ephemeral containers that a pod has in its space, by their names there.
func debuggers(pod *corev1.Pod, host []corev1.ContainerStatus) []corev1.ContainerStatus {
	var own []corev1.ContainerStatus
	eachEphemeral(&pod.Spec, nil, func(c *corev1.Container, _ *field.Path) {
		for i := range host {
			if host[i].Name == names.Debugger(c.Name) {
				own = append(own, host[i])
				own[len(own)-1].Name = c.Name
			}
		}
	})
	return own
}

// ofKubelet are the conditions that a host's scheduler and kubelet write.
var ofKubelet = []corev1.PodConditionType{
	corev1.PodScheduled, corev1.PodReady, corev1.PodInitialized, corev1.ContainersReady, corev1.PodReadyToStartContainers,
	corev1.PodResizePending, corev1.PodResizeInProgress,
}

// IsHostCondition reports whether a host's scheduler or kubelet writes a condition of a pod.
func IsHostCondition(t corev1.PodConditionType) bool { return slices.Contains(ofKubelet, t) }

// maxOwnConditions is how many conditions that somebody in a space has set a status keeps: with as many as a list may
// have in a space, those of the host would not get in. It is chosen.
const maxOwnConditions = 500

// ownConditions returns the conditions of a pod that somebody in its space has set, such as an eviction, and of which
// the host's pod knows nothing.
func ownConditions(pod *corev1.Pod, host []corev1.PodCondition) []corev1.PodCondition {
	own := slices.DeleteFunc(slices.Clone(pod.Status.Conditions), func(own corev1.PodCondition) bool {
		return IsHostCondition(own.Type) ||
			slices.ContainsFunc(host, func(has corev1.PodCondition) bool { return has.Type == own.Type })
	})
	return own[:min(len(own), maxOwnConditions)]
}

func plainState(s *corev1.ContainerState, plain func(string) string) {
	if s.Waiting != nil {
		s.Waiting.Message = plain(s.Waiting.Message)
	}
	// The message also has what the container itself wrote when it ended.
	if s.Terminated != nil {
		s.Terminated.Message = plain(s.Terminated.Message)
	}
}

var insufficient = regexp.MustCompile(`Insufficient [A-Za-z0-9._/-]*[A-Za-z0-9]`)

// unmet are what the host's scheduler says of nodes because of what the pod itself asks for. It tells nothing of
// others.
var unmet = []string{
	"didn't match Pod's node affinity/selector", "didn't match pod topology spread constraints", "didn't match pod affinity rules", "didn't match pod anti-affinity rules",
	"didn't find available persistent volumes to bind", "didn't match PersistentVolume's node affinity",
}

// unschedulable returns what a tenant is told of a message of the host's scheduler, which counts nodes and
// names their taints.
func unschedulable(message string) string {
	told := "no node of the host cluster can run the pod now"
	found := insufficient.FindAllString(message, -1)
	slices.Sort(found)
	for _, reason := range unmet {
		if strings.Contains(message, reason) {
			found = append(found, "nodes "+reason)
		}
	}
	if found = slices.Compact(found); len(found) > 0 {
		told += ": " + strings.Join(found, ", ")
	}
	return told
}

// roomOfNode is how much a node has, and how much of it others use.
var roomOfNode = regexp.MustCompile(`(requested: [0-9]+)(, used: [0-9]+)?, (capacity|allocatable): [0-9]+`)

// texts returns a function that puts the names of the space in the place of the host's in texts for
// people, and leaves out what other pods use of a node.
func texts(pod *corev1.Pod, home names.Namespace) func(string) string {
	pairs := []string{home.Host(), home.Name, names.Tokens(pod.UID), "token of the service account"}
	read := ReferencesOf(&pod.Spec)
	all := maps.Clone(read.ConfigMaps)
	maps.Copy(all, read.Secrets)
	// Longer names first: one may begin with another.
	for _, name := range slices.SortedFunc(maps.Keys(all), func(a, b string) int { return len(b) - len(a) }) {
		pairs = append(pairs, names.Copy(name), name)
	}
	eachEphemeral(&pod.Spec, nil, func(c *corev1.Container, _ *field.Path) { pairs = append(pairs, names.Debugger(c.Name), c.Name) })
	replacer := strings.NewReplacer(pairs...)
	return func(text string) string { return roomOfNode.ReplaceAllString(replacer.Replace(text), "$1") }
}

// Text returns a text for people about the host's pod as a whole with the names of the space, and without those of what
// others have added.
func Text(text string, host, pod *corev1.Pod, home names.Namespace) string {
	return texts(pod, home)(withoutAdded(text, addedTo(host, pod)))
}
