package spacepolicy

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/admission"
	podv1 "k8s.io/kubernetes/pkg/api/v1/pod"
	"k8s.io/kubernetes/pkg/apis/core"
	corev1conversion "k8s.io/kubernetes/pkg/apis/core/v1"

	"github.com/tenantry/tenantry/internal/workloads/translate"
)

// checkResize refuses to lower what a pod asks for until its status shows that it has what was asked for before. Quotas
// count what a pod asks for, and what its status says that it holds: of a resize that was raised and lowered before the
// status came, the host would have the former, and no quota.
func checkResize(a admission.Attributes) error {
	now, ok := a.GetObject().(*core.Pod)
	before, was := a.GetOldObject().(*core.Pod)
	if a.GetSubresource() != "resize" || !ok || !was || !lowers(&now.Spec, &before.Spec) {
		return nil
	}
	pod := &corev1.Pod{}
	if err := corev1conversion.Convert_core_Pod_To_v1_Pod(before, pod, nil); err != nil {
		return fmt.Errorf("reading the pod: %w", err)
	}
	if isSettled(pod) {
		return nil
	}
	return apierrors.NewTooManyRequests(fmt.Sprintf("pod %q asks for less than before, and the host cluster has not said yet that it holds what it asked for: "+
		"try again when status.observedGeneration, %d, is metadata.generation, %d, and the status of each container has the resources of its spec",
		now.Name, before.Status.ObservedGeneration, before.Generation), 1)
}

// isSettled reports whether the status of a pod shows all that it may hold on the host by what it asks for.
func isSettled(pod *corev1.Pod) bool {
	if len(pod.Spec.SchedulingGates) > 0 || podv1.IsPodTerminal(pod) {
		return true // it is not on the host, or holds nothing
	}
	if pod.Status.ObservedGeneration >= pod.Generation && translate.HoldsAll(pod) {
		return true
	}
	_, made := podv1.GetPodCondition(&pod.Status, corev1.PodResizeInProgress)
	_, pending := podv1.GetPodCondition(&pod.Status, corev1.PodResizePending)
	refused := pending != nil && pending.Status == corev1.ConditionTrue && pending.ObservedGeneration >= pod.Generation &&
		pending.Reason != corev1.PodReasonDeferred // its node may make that at any moment
	return refused && (made == nil || made.Status != corev1.ConditionTrue)
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
