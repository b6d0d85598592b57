package controlplane

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestFailure(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	unscheduled := func(since time.Duration) corev1.PodStatus {
		return corev1.PodStatus{Conditions: []corev1.PodCondition{{
			Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Message: "no volume", LastTransitionTime: metav1.NewTime(now.Add(-since)),
		}}}
	}
	container := func(state, last corev1.ContainerState) corev1.PodStatus {
		return corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{State: state, LastTerminationState: last}}}
	}
	waiting := func(reason, message string) corev1.ContainerState {
		return corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}}
	}
	ended := func(code int32, message string) corev1.ContainerState {
		return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: "Error", ExitCode: code, Message: message}}
	}
	running := corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
	none := corev1.ContainerState{}
	for name, tc := range map[string]struct {
		status   corev1.PodStatus
		message  string
		starting bool
	}{
		"nothing known":               {corev1.PodStatus{}, "", false},
		"no node yet":                 {unscheduled(startPeriod - time.Second), "", true},
		"no node":                     {unscheduled(startPeriod), "pod x-0 has no node: no volume", false},
		"being made":                  {container(waiting("ContainerCreating", ""), none), "", false},
		"without an image":            {container(waiting("ImagePullBackOff", "no such image"), none), "pod x-0: ImagePullBackOff: no such image", false},
		"without a word":              {container(waiting("CreateContainerConfigError", ""), none), "pod x-0: CreateContainerConfigError", false},
		"failing again":               {container(waiting("CrashLoopBackOff", "back-off"), ended(1, "a\nb\n")), "pod x-0: CrashLoopBackOff: b", false},
		"failing again without words": {container(waiting("CrashLoopBackOff", "back-off"), ended(1, "")), "pod x-0: CrashLoopBackOff: back-off", false},
		"failed":                      {container(ended(2, "the disk is full"), none), "pod x-0: Error: the disk is full", false},
		"running again":               {container(running, ended(1, "b")), "", false},
	} {
		t.Run(name, func(t *testing.T) {
			message, starting := failure(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "x-0"}, Status: tc.status}, now)
			if message != tc.message || starting != tc.starting {
				t.Errorf("got %q, %v, want %q, %v", message, starting, tc.message, tc.starting)
			}
		})
	}
}

func TestObserved(t *testing.T) {
	whole := appsv1.StatefulSetStatus{ObservedGeneration: 2, ReadyReplicas: 1, UpdatedReplicas: 1, CurrentRevision: "b", UpdateRevision: "b"}
	for name, tc := range map[string]struct {
		change func(*appsv1.StatefulSetStatus)
		want   servers
	}{
		"whole":         {func(*appsv1.StatefulSetStatus) {}, servers{ready: 1, settled: true, version: "v1"}},
		"not seen":      {func(s *appsv1.StatefulSetStatus) { s.ObservedGeneration = 1 }, servers{ready: 1, version: "v1"}},
		"rolling out":   {func(s *appsv1.StatefulSetStatus) { s.CurrentRevision = "a" }, servers{ready: 1, version: "v1"}},
		"of before":     {func(s *appsv1.StatefulSetStatus) { s.UpdatedReplicas = 0 }, servers{ready: 1, version: "v1"}},
		"not ready yet": {func(s *appsv1.StatefulSetStatus) { s.ReadyReplicas = 0 }, servers{version: "v1"}},
	} {
		t.Run(name, func(t *testing.T) {
			set := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Generation: 2}, Status: whole}
			set.Spec.Template.Labels = map[string]string{versionLabel: "v1"}
			tc.change(&set.Status)
			if diff := cmp.Diff(tc.want, observed(set, nil, time.Now()), cmp.AllowUnexported(servers{})); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
