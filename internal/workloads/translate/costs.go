package translate

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// What a pod costs its node beside its requests and limits, at most.
const (
	// maxContainers and maxVolumes are of a pod, chosen: a kubelet tells of each container at each change of the pod.
	maxContainers = 64
	maxVolumes    = 128
	// maxExecs is how many processes a second the probes of a pod start, outside of its own limits: chosen.
	maxExecs = 10
)

// checkCosts refuses pods that cost a node much which they do not ask for.
func checkCosts(spec *corev1.PodSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	containers := slices.Concat(spec.InitContainers, spec.Containers)
	if n := len(containers); n > maxContainers {
		errs = append(errs, field.Forbidden(path.Child("containers"), fmt.Sprintf("it has %d containers, and a pod that runs on a host cluster has at most %d; make several pods", n, maxContainers)))
	}
	if n := len(spec.Volumes); n > maxVolumes {
		errs = append(errs, field.Forbidden(path.Child("volumes"), fmt.Sprintf("it has %d volumes, and a pod that runs on a host cluster has at most %d; project several sources into one", n, maxVolumes)))
	}
	execs := 0.0
	for i := range containers {
		for _, probe := range []*corev1.Probe{containers[i].LivenessProbe, containers[i].ReadinessProbe, containers[i].StartupProbe} {
			if probe != nil && probe.Exec != nil {
				execs += 1 / float64(max(1, probe.PeriodSeconds))
			}
		}
	}
	if execs > maxExecs {
		errs = append(errs, field.Forbidden(path.Child("containers"), fmt.Sprintf("its probes start %.0f processes a second, and those of a pod that runs on a host cluster at most %d; "+
			"use a longer periodSeconds, or probes by HTTP, TCP or gRPC", execs, maxExecs)))
	}
	errs = append(errs, checkRestarts(spec.InitContainers, path.Child("initContainers"))...)
	return append(errs, checkRestarts(spec.Containers, path.Child("containers"))...)
}

// checkRestarts refuses rules by which a kubelet restarts a pod again and again without a pause, and leaves a log each
// time.
func checkRestarts(containers []corev1.Container, path *field.Path) (errs field.ErrorList) {
	for i := range containers {
		for j, rule := range containers[i].RestartPolicyRules {
			if rule.Action != corev1.ContainerRestartRuleActionRestart {
				errs = append(errs, field.Forbidden(path.Index(i).Child("restartPolicyRules").Index(j).Child("action"), fmt.Sprintf(
					"a pod that runs on a host cluster has only %s, because a kubelet does not wait longer each time for others; or have a controller make the pod again", corev1.ContainerRestartRuleActionRestart)))
			}
		}
	}
	return errs
}
