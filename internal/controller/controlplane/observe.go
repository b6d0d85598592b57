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
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
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
	// starting is true while a pod is not there or has no node yet, or runs again, and that may change any time:
	// nothing that is watched tells that it has not changed.
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
		w := ofStatefulSet(set)
		if err == nil && found && w.total < w.desired {
			w.refused, err = r.refusal(ctx, set)
		}
		return w, found, err
	}
	deployment := &appsv1.Deployment{}
	found, err := r.read(ctx, cp, "Deployment", cp.Name, deployment)
	return ofDeployment(deployment), found, err
}

// refusal says why the host makes no pod of a StatefulSet, if it does not. A Deployment has a condition for that, and a
// StatefulSet has events alone.
func (r *Reconciler) refusal(ctx context.Context, set *appsv1.StatefulSet) (string, error) {
	events := &eventsv1.EventList{}
	err := r.Live.List(ctx, events, client.InNamespace(set.Namespace), client.MatchingFields{"regarding.uid": string(set.UID)}, client.Limit(eventLimit))
	switch {
	case apierrors.IsForbidden(err):
		return hasNoPods("StatefulSet", set.Name, fmt.Sprintf("its events say why, and cannot be read: %v", err)), nil
	case err != nil:
		return "", fmt.Errorf("listing the events of StatefulSet %q: %w", set.Name, err)
	}
	var newest *eventsv1.Event
	for i := range events.Items {
		e := &events.Items[i]
		if e.Reason != failedCreate && e.Reason != successfulCreate {
			continue
		}
		// A claim that was made, and then no pod, are events of one second.
		if newest == nil || toldAt(e).After(toldAt(newest)) || e.Reason == failedCreate && toldAt(e).Equal(toldAt(newest)) {
			newest = e
		}
	}
	if newest == nil || newest.Reason != failedCreate {
		return "", nil
	}
	return hasNoPods("StatefulSet", set.Name, newest.Note), nil
}

const (
	// failedCreate and successfulCreate are the reasons of the host's events about pods and claims of a StatefulSet.
	failedCreate, successfulCreate = "FailedCreate", "SuccessfulCreate"
	// eventLimit is the number of events that are read: the host tells of what happens again in one.
	eventLimit = 100
)

// toldAt returns when an event has happened, for the last time.
func toldAt(e *eventsv1.Event) time.Time {
	last := e.DeprecatedLastTimestamp.Time
	if e.Series != nil {
		return e.Series.LastObservedTime.Time
	}
	if last.IsZero() {
		return e.EventTime.Time
	}
	return last
}

// hasNoPods says why there is no pod.
func hasNoPods(kind, name, why string) string {
	return fmt.Sprintf("%s %s has no pods: %s", kind, name, why)
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
			w.refused = hasNoPods("Deployment", d.Name, c.Message)
		}
	}
	return w
}

// settled reports whether all pods are as the workload says, and ready, and no others are left.
func (w workload) settled() bool {
	return w.seen && w.updated == w.desired && w.ready == w.desired && w.total == w.desired
}

func (w workload) observed(pods []corev1.Pod, now time.Time) observed {
	o := observed{ready: w.ready, version: w.version, settled: w.settled(), starting: w.total < w.desired}
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
		} else if triesAgain(&container, now) {
			waiting, starting = &corev1.ContainerStateWaiting{Reason: last.Reason}, true
		}
		if waiting == nil || slices.Contains([]string{"ContainerCreating", "PodInitializing"}, waiting.Reason) {
			continue
		}
		said := waiting.Message
		if last != nil && last.ExitCode != 0 {
			said = cmp.Or(lastLine(last.Message), said)
		}
		return strings.TrimSuffix(fmt.Sprintf("pod %s: %s: %s", pod.Name, waiting.Reason, said), ": "), starting
	}
	return "", false
}

// triesAgain reports whether a container runs that has failed before, and nobody knows yet whether it will do better: a
// server until it has answered for the first time, and what has no startup probe for a while. Otherwise who waits for a
// ControlPlane not to be Degraded would find one between two failures.
func triesAgain(c *corev1.ContainerStatus, now time.Time) bool {
	running, last := c.State.Running, c.LastTerminationState.Terminated
	if running == nil || c.Ready || last == nil || last.ExitCode == 0 {
		return false
	}
	return !ptr.Deref(c.Started, false) || now.Sub(running.StartedAt.Time) < startPeriod
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
