package quota

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/kubernetes/pkg/apis/core"

	"github.com/tenantry/tenantry/internal/workloads/held"
)

// Asked returns an object as upstream's evaluators count what it asks for. Of a pod whose resize is infeasible they
// count what it has, whatever it asks for next: a second resize, which may be feasible, would be held to no quota. Of a
// pod with resources of its own they do not count what it has. And of a pod that was resized to less they do not count
// what a node may still make of its requests before.
func Asked(obj runtime.Object) runtime.Object {
	obj = withoutPendingResize(obj)
	if !hasOwnResources(obj) && !isNoted(obj) {
		return obj
	}
	pod := held.Counted(versioned(obj))
	if pod.Spec.Resources != nil {
		return withHeldResources(pod)
	}
	return pod
}

// isNoted reports whether something is noted on a pod that it may hold.
func isNoted(obj runtime.Object) bool {
	switch o := obj.(type) {
	case *corev1.Pod:
		return o.Annotations[held.Annotation] != ""
	case *core.Pod:
		return o.Annotations[held.Annotation] != ""
	}
	return false
}

func withoutPendingResize(obj runtime.Object) runtime.Object {
	switch o := obj.(type) {
	case *corev1.Pod:
		if kept := slices.DeleteFunc(slices.Clone(o.Status.Conditions), isResizePending); len(kept) < len(o.Status.Conditions) {
			pod := *o
			pod.Status.Conditions = kept
			return &pod
		}
	case *core.Pod:
		if kept := slices.DeleteFunc(slices.Clone(o.Status.Conditions), isInternalResizePending); len(kept) < len(o.Status.Conditions) {
			pod := *o
			pod.Status.Conditions = kept
			return &pod
		}
	}
	return obj
}

func isResizePending(c corev1.PodCondition) bool       { return c.Type == corev1.PodResizePending }
func isInternalResizePending(c core.PodCondition) bool { return c.Type == core.PodResizePending }
