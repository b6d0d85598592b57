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
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tenantry/tenantry/api/v1alpha1"
	"github.com/tenantry/tenantry/internal/controller/conditions"
)

// observed is what there is of the pods of a workload.
type observed struct {
	ready int32
	// settled is true if all are as the workload says, and ready.
	settled bool
	// version is the one that the workload has.
	version string
	// failing says what keeps a pod from running, if something does.
	failing string
	// starting is true while a pod has no node yet, and may get one any time.
	starting bool
	// unready are the pods that run and say that they are not ready.
	unready []string
}

// observe reads what there is of the servers, of the syncer and, where they are not in the process
// of a server, of the managers.
func (r *Reconciler) observe(ctx context.Context, w *work) error {
	if err := r.observeSyncer(ctx, w); err != nil {
		return err
	}
	servers, found, err := r.workload(ctx, w.cp)
	if err != nil || !found {
		return conditions.IgnoreProblem(err)
	}
	if w.servers, err = r.observed(ctx, w.cp, servers, serversPart); err != nil {
		return err
	}
	if w.cp.Spec.Storage.Etcd == nil {
		w.managers.settled = true
		return nil
	}
	managers := &appsv1.Deployment{}
	if found, err = r.read(ctx, w.cp, "Deployment", managerName(w.cp), managers); err != nil || !found {
		return conditions.IgnoreProblem(err)
	}
	w.managers, err = r.observed(ctx, w.cp, ofDeployment(managers), managersPart)
	return err
}

// workload returns that of the servers, if there is one.
func (r *Reconciler) workload(ctx context.Context, cp *v1alpha1.ControlPlane) (workload, bool, error) {
	if cp.Spec.Storage.Etcd == nil {
		set := &appsv1.StatefulSet{}
		found, err := r.read(ctx, cp, "StatefulSet", cp.Name, set)
		return ofStatefulSet(set), found, err
	}
	deployment := &appsv1.Deployment{}
	found, err := r.read(ctx, cp, "Deployment", cp.Name, deployment)
	return ofDeployment(deployment), found, err
}

// observed reads the pods of a workload.
func (r *Reconciler) observed(ctx context.Context, cp *v1alpha1.ControlPlane, of workload, part string) (observed, error) {
	pods := &corev1.PodList{}
	if err := r.Client.List(ctx, pods, client.InNamespace(cp.Namespace), client.MatchingLabels(labelsOfPart(cp, part))); err != nil {
		return observed{}, fmt.Errorf("listing the pods of ControlPlane %q: %w", cp.Name, err)
	}
	return of.observed(pods.Items, r.now()), nil
}

// workload is what a StatefulSet or a Deployment says of its pods.
type workload struct {
	// seen is true if the status is about the spec.
	seen                           bool
	desired, total, updated, ready int32
	version                        string
	// refused says why the host makes no pods, if it does not.
	refused string
}

func ofStatefulSet(set *appsv1.StatefulSet) workload {
	status := set.Status
	return workload{
		seen:    status.ObservedGeneration >= set.Generation && status.UpdateRevision == status.CurrentRevision,
		desired: ptr.Deref(set.Spec.Replicas, 1), total: status.Replicas, updated: status.UpdatedReplicas, ready: status.ReadyReplicas,
		version: set.Spec.Template.Labels[versionLabel],
	}
}

func ofDeployment(d *appsv1.Deployment) workload {
	w := workload{
		seen:    d.Status.ObservedGeneration >= d.Generation,
		desired: ptr.Deref(d.Spec.Replicas, 1), total: d.Status.Replicas, updated: d.Status.UpdatedReplicas, ready: d.Status.ReadyReplicas,
		version: d.Spec.Template.Labels[versionLabel],
	}
	for _, c := range d.Status.Conditions {
		if c.Type == appsv1.DeploymentReplicaFailure && c.Status == corev1.ConditionTrue {
			w.refused = fmt.Sprintf("Deployment %s has no pods: %s", d.Name, c.Message)
		}
	}
	return w
}

// settled reports whether all pods are as the workload says, and ready, and no others are left.
func (w workload) settled() bool {
	return w.seen && w.updated == w.desired && w.ready == w.desired && w.total == w.desired
}

func (w workload) observed(pods []corev1.Pod, now time.Time) observed {
	o := observed{ready: w.ready, version: w.version, settled: w.settled()}
	slices.SortFunc(pods, func(a, b corev1.Pod) int { return cmp.Compare(a.Name, b.Name) })
	for i := range pods {
		failing, starting := failure(&pods[i], now)
		o.failing, o.starting = cmp.Or(o.failing, failing), o.starting || starting
		if isUnready(&pods[i]) {
			o.unready = append(o.unready, pods[i].Name)
		}
	}
	o.failing = cmp.Or(o.failing, w.refused)
	return o
}

// failure says what keeps a pod from running, if it is more than that it has just been made.
func failure(pod *corev1.Pod, now time.Time) (message string, starting bool) {
	if pod.DeletionTimestamp != nil || pod.Status.Phase == corev1.PodFailed { // it is to end, or has been replaced
		return "", false
	}
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

// cutMessage is the length in bytes from which on a message may be the end of a longer one: hosts keep no more.
const cutMessage = 2048

// isUnready reports whether a pod runs, has started, and says that it is not ready.
func isUnready(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp == nil && slices.ContainsFunc(pod.Status.ContainerStatuses, func(c corev1.ContainerStatus) bool {
		return c.State.Running != nil && ptr.Deref(c.Started, false) && !c.Ready
	})
}

// lastLine returns the line in which a process has said why it ends. Between its messages are
// the events of its audit log. The first line of a message that is cut may be the end of one.
func lastLine(message string) string {
	lines := strings.Split(strings.TrimSpace(message), "\n")
	if len(message) >= cutMessage {
		lines = lines[1:]
	}
	for _, line := range slices.Backward(lines) {
		if !strings.HasPrefix(line, auditEvent) {
			return line
		}
	}
	return ""
}

// auditEvent is how lines of the audit log begin.
const auditEvent = `{"kind":"Event",`
