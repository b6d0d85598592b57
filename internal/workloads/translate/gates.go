package translate

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	podv1 "k8s.io/kubernetes/pkg/api/v1/pod"
)

// maxGates is how many readiness gates a pod has at most: the host stores their conditions at each change of its
// status.
const maxGates = 16

// checkGates refuses readiness gates whose conditions are not the tenant's to set.
func checkGates(gates []corev1.PodReadinessGate, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if len(gates) > maxGates {
		errs = append(errs, field.Forbidden(path, fmt.Sprintf("it has %d readiness gates, and a pod that runs on a host cluster has at most %d; remove some", len(gates), maxGates)))
	}
	for i, gate := range gates {
		if !strings.Contains(string(gate.ConditionType), "/") {
			errs = append(errs, field.Forbidden(path.Index(i).Child("conditionType"),
				"conditions without a domain are Kubernetes' own; use one such as example.com/"+strings.ToLower(string(gate.ConditionType))))
		}
	}
	return errs
}

// isGate reports whether a condition is that of a readiness gate of a pod in its space.
func isGate(pod *corev1.Pod, t corev1.PodConditionType) bool {
	return slices.ContainsFunc(pod.Spec.ReadinessGates, func(gate corev1.PodReadinessGate) bool { return gate.ConditionType == t })
}

// ChangedGates returns what the conditions of a pod's readiness gates are to be on the host, as elements of a strategic
// merge patch, if they differ from what they are in its space. Reasons and messages, which may be large, stay there: a
// kubelet reads the status alone, and the API lets that be any text.
func ChangedGates(pod, host *corev1.Pod) []map[string]any {
	var changes []map[string]any
	for _, gate := range pod.Spec.ReadinessGates {
		t := gate.ConditionType
		_, now := podv1.GetPodCondition(&pod.Status, t)
		_, is := podv1.GetPodCondition(&host.Status, t)
		switch {
		case now == nil && is == nil:
		case now == nil:
			changes = append(changes, map[string]any{"type": t, "$patch": "delete"})
		case is == nil || statusOf(now) != is.Status:
			changes = append(changes, map[string]any{
				"type": t, "status": statusOf(now), "lastTransitionTime": now.LastTransitionTime,
			})
		}
	}
	return changes
}

// statusOf returns the status of a condition, which is unknown if it is none that there is.
func statusOf(c *corev1.PodCondition) corev1.ConditionStatus {
	if IsConditionStatus(c.Status) {
		return c.Status
	}
	return corev1.ConditionUnknown
}

// IsConditionStatus reports whether something is the status of a condition.
func IsConditionStatus(s corev1.ConditionStatus) bool {
	return s == corev1.ConditionTrue || s == corev1.ConditionFalse || s == corev1.ConditionUnknown
}
