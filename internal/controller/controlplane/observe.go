package controlplane

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// servers is what there is of the servers of a ControlPlane.
type servers struct {
	ready int32
	// settled is true if all are as the StatefulSet says, and answer requests.
	settled bool
	// version is the one that the StatefulSet has.
	version string
	// failing says what keeps a pod from running, if something does.
	failing string
	// starting is true while a pod has no node yet, and may get one any time.
	starting bool
}

// observe reads what there is of the servers.
func (r *Reconciler) observe(ctx context.Context, w *work) error {
	set := &appsv1.StatefulSet{}
	found, err := r.read(ctx, w.cp, "StatefulSet", w.cp.Name, set)
	if err != nil || !found {
		return ignoreProblem(err)
	}
	pods := &corev1.PodList{}
	if err := r.Client.List(ctx, pods, client.InNamespace(w.cp.Namespace), client.MatchingLabels(labelsOf(w.cp))); err != nil {
		return fmt.Errorf("listing the pods of ControlPlane %q: %w", w.cp.Name, err)
	}
	w.servers = observed(set, pods.Items, r.now())
	return nil
}

// ignoreProblem returns nil for a problem, which a step has met before.
func ignoreProblem(err error) error {
	if isProblem(err) {
		return nil
	}
	return err
}

func observed(set *appsv1.StatefulSet, pods []corev1.Pod, now time.Time) servers {
	s := servers{ready: set.Status.ReadyReplicas, version: set.Spec.Template.Labels[versionLabel]}
	s.settled = set.Status.ObservedGeneration >= set.Generation && set.Status.UpdateRevision == set.Status.CurrentRevision &&
		set.Status.UpdatedReplicas == replicas && set.Status.ReadyReplicas == replicas
	slices.SortFunc(pods, func(a, b corev1.Pod) int { return cmp.Compare(a.Name, b.Name) })
	for i := range pods {
		failing, starting := failure(&pods[i], now)
		s.failing, s.starting = cmp.Or(s.failing, failing), s.starting || starting
	}
	return s
}

// failure says what keeps a pod from running, if it is more than that it has just been made.
func failure(pod *corev1.Pod, now time.Time) (message string, starting bool) {
	for _, c := range pod.Status.Conditions {
		if c.Type != corev1.PodScheduled || c.Status != corev1.ConditionFalse {
			continue
		}
		if now.Sub(c.LastTransitionTime.Time) < startPeriod {
			return "", true
		}
		return fmt.Sprintf("pod %s has no node: %s", pod.Name, c.Message), false
	}
	for _, container := range pod.Status.ContainerStatuses {
		waiting, last := container.State.Waiting, container.LastTerminationState.Terminated
		if ended := container.State.Terminated; ended != nil {
			waiting, last = &corev1.ContainerStateWaiting{Reason: ended.Reason}, ended
		}
		if waiting == nil || slices.Contains([]string{"ContainerCreating", "PodInitializing"}, waiting.Reason) {
			continue
		}
		said := waiting.Message
		if last != nil && last.ExitCode != 0 {
			said = cmp.Or(lastLine(last.Message), said)
		}
		return strings.TrimSuffix(fmt.Sprintf("pod %s: %s: %s", pod.Name, waiting.Reason, said), ": "), false
	}
	return "", false
}

// lastLine returns the line in which a process has said why it ends.
func lastLine(message string) string {
	lines := strings.Split(strings.TrimSpace(message), "\n")
	return lines[len(lines)-1]
}
