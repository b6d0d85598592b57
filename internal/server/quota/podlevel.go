package quota

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	quota "k8s.io/apiserver/pkg/quota/v1"
	resourcehelper "k8s.io/component-helpers/resource"
	"k8s.io/kubernetes/pkg/apis/core"
	corev1conversion "k8s.io/kubernetes/pkg/apis/core/v1"
)

// hasOwnResources reports whether an object is a pod with resources at its own level.
func hasOwnResources(obj runtime.Object) bool {
	switch o := obj.(type) {
	case *corev1.Pod:
		return o.Spec.Resources != nil
	case *core.Pod:
		return o.Spec.Resources != nil
	}
	return false
}

// versioned returns a pod in the version that upstream's helpers take, nil if obj is none.
func versioned(obj runtime.Object) *corev1.Pod {
	switch o := obj.(type) {
	case *corev1.Pod:
		return o
	case *core.Pod:
		pod := &corev1.Pod{}
		if err := corev1conversion.Convert_core_Pod_To_v1_Pod(o, pod, nil); err == nil { // there is nothing that it cannot say
			return pod
		}
	}
	return nil
}

// withHeldResources returns a pod with resources of its own as upstream's evaluator counts what it holds on its node,
// too: of resources of the pod it counts the spec alone, also if the node or the host has refused a resize.
func withHeldResources(pod *corev1.Pod) *corev1.Pod {
	counted, held := *pod, corev1.ResourceRequirements{}
	if status := pod.Status.Resources; status != nil {
		held = *status
	}
	inContainers := *pod
	inContainers.Spec.Resources = nil
	options := resourcehelper.PodResourcesOptions{UseStatusResources: true, ExcludeOverhead: true}
	counted.Spec.Resources = &corev1.ResourceRequirements{
		Requests: atLeast(pod.Spec.Resources.Requests, held.Requests, pod.Status.AllocatedResources, resourcehelper.PodRequests(&inContainers, options)),
		Limits:   atLeast(pod.Spec.Resources.Limits, held.Limits, resourcehelper.PodLimits(&inContainers, options)),
		Claims:   pod.Spec.Resources.Claims,
	}
	return &counted
}

// atLeast returns resources, each of which is as much as others have of it at least.
func atLeast(resources corev1.ResourceList, others ...corev1.ResourceList) corev1.ResourceList {
	named := quota.ResourceNames(resources)
	for _, other := range others {
		resources = quota.Max(resources, quota.Mask(other, named))
	}
	return resources
}

// constrain returns an error unless an object says what it takes of all that a quota limits. Upstream asks that of each
// container, and nothing of a pod with any resources of its own, by which it would have as much as its node of all
// others: here that is asked of the containers.
func constrain(evaluator quota.Evaluator, limited []corev1.ResourceName, obj runtime.Object) error {
	if !hasOwnResources(obj) {
		return evaluator.Constraints(limited, obj)
	}
	pod := versioned(obj)
	var said []corev1.ResourceName
	for name := range pod.Spec.Resources.Requests {
		said = append(said, name, corev1.DefaultResourceRequestsPrefix+name)
	}
	for name := range pod.Spec.Resources.Limits {
		said = append(said, "limits."+name)
	}
	inContainers := *pod
	inContainers.Spec.Resources = nil
	return evaluator.Constraints(slices.DeleteFunc(slices.Clone(limited), func(name corev1.ResourceName) bool { return slices.Contains(said, name) }), &inContainers)
}
