package spacepolicy

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/kubernetes/pkg/apis/core"
)

// checkResize refuses to lower what a pod asks for until the host has said what it has made of what was asked before.
// Quotas count what a pod asks for, and what its status says that it holds: of a resize that was raised and lowered
// before the status came, the host would have the former, and no quota.
func checkResize(a admission.Attributes) error {
	now, ok := a.GetObject().(*core.Pod)
	before, was := a.GetOldObject().(*core.Pod)
	if a.GetSubresource() != "resize" || !ok || !was || isSettled(before) || !lowers(&now.Spec, &before.Spec) {
		return nil
	}
	return apierrors.NewTooManyRequests(fmt.Sprintf("pod %q asks for less than before, and the host cluster has not said yet what it holds: try again when status.observedGeneration, %d, is metadata.generation, %d",
		now.Name, before.Status.ObservedGeneration, before.Generation), 1)
}

// isSettled reports whether the status of a pod says what the host has made of all that it asks for, or of none.
func isSettled(pod *core.Pod) bool {
	if len(pod.Spec.SchedulingGates) > 0 || pod.Status.Phase == core.PodSucceeded || pod.Status.Phase == core.PodFailed {
		return true // it is not on the host, or holds nothing
	}
	return pod.Status.ObservedGeneration >= pod.Generation || slices.ContainsFunc(pod.Status.Conditions, func(c core.PodCondition) bool {
		return c.Type == core.PodConditionType(corev1.PodResizePending) && c.Status == core.ConditionTrue && c.ObservedGeneration >= pod.Generation // the host refuses it
	})
}

// lowers reports whether a pod asks for less of anything than before.
func lowers(now, before *core.PodSpec) bool {
	asked := func(spec *core.PodSpec) (all []core.ResourceRequirements) {
		for _, containers := range [][]core.Container{spec.InitContainers, spec.Containers} {
			for i := range containers {
				all = append(all, containers[i].Resources)
			}
		}
		if spec.Resources != nil {
			all = append(all, *spec.Resources)
		}
		return all
	}
	is, was := asked(now), asked(before)
	if len(is) < len(was) {
		return true
	}
	for i := range was {
		if isLess(is[i].Requests, was[i].Requests) || isLess(is[i].Limits, was[i].Limits) {
			return true
		}
	}
	return false
}

func isLess(now, before core.ResourceList) bool {
	for name, was := range before {
		if is, ok := now[name]; !ok || is.Cmp(was) < 0 {
			return true
		}
	}
	return false
}
