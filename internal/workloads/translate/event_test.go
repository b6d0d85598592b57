package translate

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	core "k8s.io/kubernetes/pkg/apis/core"
	corev1conversion "k8s.io/kubernetes/pkg/apis/core/v1"
	"k8s.io/kubernetes/pkg/apis/core/validation"
	"k8s.io/kubernetes/pkg/kubelet/events"

	"github.com/tenantry/tenantry/internal/workloads/names"
)

// TestEvents checks what a tenant is told of what the host says of its pod.
func TestEvents(t *testing.T) {
	home := names.Namespace{Tenant: "acme", Name: "shop"}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "acme|shop", Name: "web"}, Spec: corev1.PodSpec{
		InitContainers: []corev1.Container{{Name: "i"}}, Containers: []corev1.Container{{Name: "c"}},
		EphemeralContainers: []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "e"}}},
	}}
	host := &corev1.Pod{Spec: corev1.PodSpec{NodeName: "node"}}
	for name, tc := range map[string]struct{ reason, message, from, want, node, about string }{
		"of the kubelet":        {events.PulledImage, `Image "a" was pulled`, "node", `Image "a" was pulled`, "node", ""},
		"of another node":       {events.PulledImage, "x", "others", "x", "", ""},
		"names of the host":     {events.KillingContainer, "in " + home.Host(), "node", "in shop", "node", ""},
		"of a plugin":           {events.FailedCreatePodSandBox, "Failed to create pod sandbox: rpc error: code = Unknown desc = address of tn-globex-x/web in use", "node", "Failed to create pod sandbox", "node", ""},
		"of what it asks for":   {"FailedScheduling", "0/3 nodes are available: 1 node(s) didn't match Pod's node affinity/selector, 2 node(s) didn't find available persistent volumes to bind. no new claims to deallocate", "default-scheduler", "no node of the host cluster can run the pod now: nodes didn't match Pod's node affinity/selector, nodes didn't find available persistent volumes to bind", "", ""},
		"of the scheduler":      {"FailedScheduling", "0/3 nodes are available: 2 node(s) had untolerated taint {tenant: globex}, 1 Insufficient cpu.", "scheduler-of-globex", "no node of the host cluster can run the pod now: Insufficient cpu", "", ""},
		"of an autoscaler":      {"NotTriggerScaleUp", "2 node(s) had untolerated taint {tenant: globex}", "autoscaler", notShown, "", ""},
		"of another autoscaler": {"Nominated", "nodeclaim/globex-pool-x7k2p", "karpenter", notShown, "", ""},
		"of a preemption":       {"Preempted", "Preempted by pod u on node others", "scheduler", notShown, "", ""},
		"of its container":      {events.StartedContainer, "x", "node", "x", "node", "spec.containers{c}"},
		"of another one":        {events.StartedContainer, "x", "node", notShown, "node", "spec.containers{sidecar}"},
		"of an init container":  {events.StartedContainer, "x", "node", "x", "node", "spec.initContainers{i}"},
		"of a debugger":         {events.StartedContainer, "x", "node", "x", "node", "spec.ephemeralContainers{" + names.Debugger("e") + "}"},
		"of a debugger's name":  {events.StartedContainer, "x", "node", notShown, "node", "spec.containers{e}"},
	} {
		t.Run(name, func(t *testing.T) {
			got := Event(&corev1.Event{Reason: tc.reason, Message: tc.message, Source: corev1.EventSource{Host: tc.from}, InvolvedObject: corev1.ObjectReference{FieldPath: tc.about}, ReportingInstance: tc.from, Action: "of " + tc.from}, host, pod, home)
			if (got.InvolvedObject.FieldPath != "") != (tc.about != "" && tc.want != notShown) {
				t.Errorf("it is about %q", got.InvolvedObject.FieldPath)
			}
			if got.Reason != tc.reason || got.Message != tc.want || got.Source.Host != tc.node || got.ReportingInstance != tc.node || got.Action != "" {
				t.Errorf("told %+v", got)
			}
		})
	}
}

// TestEventsOfTheScheduler checks that an event that was written by events.k8s.io is one that a space takes.
func TestEventsOfTheScheduler(t *testing.T) {
	began, later := metav1.NewMicroTime(time.Unix(100, 0)), metav1.NewMicroTime(time.Unix(200, 0))
	event := &corev1.Event{
		EventTime: began, Reason: "FailedScheduling", Action: "Scheduling", Type: corev1.EventTypeWarning, Message: "0/3 nodes are available: 3 Insufficient cpu.",
		ReportingController: "default-scheduler", ReportingInstance: "default-scheduler-control-1",
	}
	want := corev1.Event{
		Reason: "FailedScheduling", Type: corev1.EventTypeWarning, Message: "no node of the host cluster can run the pod now: Insufficient cpu",
		FirstTimestamp: metav1.Time(began), LastTimestamp: metav1.Time(began), Count: 1,
		Source: corev1.EventSource{Component: "default-scheduler"}, ReportingController: "default-scheduler",
	}
	got := func() corev1.Event { return Event(event, &corev1.Pod{}, &corev1.Pod{}, names.Namespace{}) }
	if diff := cmp.Diff(want, got()); diff != "" {
		t.Errorf("the first (-want +got):\n%s", diff)
	}
	event.Series = &corev1.EventSeries{Count: 7, LastObservedTime: later}
	want.Count, want.LastTimestamp = 7, metav1.Time(later)
	shown := got()
	if diff := cmp.Diff(want, shown); diff != "" {
		t.Errorf("the seventh (-want +got):\n%s", diff)
	}
	shown.Namespace, shown.Name, shown.InvolvedObject.Namespace = "shop", "e", "shop"
	internal := &core.Event{}
	if err := corev1conversion.Convert_v1_Event_To_core_Event(&shown, internal, nil); err != nil {
		t.Fatal(err)
	}
	if errs := validation.ValidateEventCreate(internal, corev1.SchemeGroupVersion); len(errs) > 0 {
		t.Errorf("a space does not take it: %v", errs)
	}
}
