package translate

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	podv1 "k8s.io/kubernetes/pkg/api/v1/pod"
)

// HoldsAll reports whether the status of a pod says that it holds at least all that its spec asks for. Kubelets observe
// a generation before they make what it asks for.
func HoldsAll(pod *corev1.Pod) bool {
	statuses := slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses)
	for _, c := range slices.Concat(sidecarsOf(pod), pod.Spec.Containers) {
		i := slices.IndexFunc(statuses, func(s corev1.ContainerStatus) bool { return s.Name == c.Name })
		if i < 0 || !isAtLeast(statuses[i].Resources, c.Resources) {
			return false
		}
	}
	return pod.Spec.Resources == nil || isAtLeast(pod.Status.Resources, *pod.Spec.Resources)
}

// sidecarsOf returns the init containers of a pod that run as long as it does.
func sidecarsOf(pod *corev1.Pod) []corev1.Container {
	return slices.DeleteFunc(slices.Clone(pod.Spec.InitContainers), func(c corev1.Container) bool { return !podv1.IsRestartableInitContainer(&c) })
}

func isAtLeast(held *corev1.ResourceRequirements, asked corev1.ResourceRequirements) bool {
	if held == nil {
		return len(asked.Requests) == 0 && len(asked.Limits) == 0
	}
	within := func(held, asked corev1.ResourceList) bool {
		for name, quantity := range asked {
			if has, ok := held[name]; !ok || has.Cmp(quantity) < 0 {
				return false
			}
		}
		return true
	}
	return within(held.Requests, asked.Requests) && within(held.Limits, asked.Limits)
}
