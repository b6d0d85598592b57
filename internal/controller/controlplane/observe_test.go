package controlplane

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tenantry/tenantry/api/v1alpha1"
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
	running := corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(now.Add(-startPeriod))}}
	begun := corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(now.Add(time.Second - startPeriod))}}
	probed := func(status corev1.PodStatus, ready bool) corev1.PodStatus {
		status.ContainerStatuses[0].Started, status.ContainerStatuses[0].Ready = new(true), ready
		return status
	}
	none := corev1.ContainerState{}
	for name, tc := range map[string]struct {
		status   corev1.PodStatus
		message  string
		starting bool
	}{
		"nothing known":                  {corev1.PodStatus{}, "", false},
		"no node yet":                    {unscheduled(startPeriod - time.Second), "", true},
		"no node":                        {unscheduled(startPeriod), "pod x-0 has no node: no volume", false},
		"being made":                     {container(waiting("ContainerCreating", ""), none), "", false},
		"without an image":               {container(waiting("ImagePullBackOff", "no such image"), none), "pod x-0: ImagePullBackOff: no such image", false},
		"without a word":                 {container(waiting("CreateContainerConfigError", ""), none), "pod x-0: CreateContainerConfigError", false},
		"failing again":                  {container(waiting("CrashLoopBackOff", "back-off"), ended(1, "a\nb\n")), "pod x-0: CrashLoopBackOff: b", false},
		"failing again without words":    {container(waiting("CrashLoopBackOff", "back-off"), ended(1, "")), "pod x-0: CrashLoopBackOff: back-off", false},
		"failed":                         {container(ended(2, "the disk is full"), none), "pod x-0: Error: the disk is full", false},
		"failed among audit events":      {container(ended(2, "the disk is full\n"+`{"kind":"Event","apiVersion":"audit.k8s.io/v1"}`+"\n"), none), "pod x-0: Error: the disk is full", false},
		"failed with audit events alone": {container(ended(2, `{"kind":"Event","apiVersion":"audit.k8s.io/v1"}`), none), "pod x-0: Error", false},
		"running":                        {container(running, none), "", false},
		"trying again":                   {container(running, ended(1, "a\nb")), "pod x-0: Error: b", true},
		"trying again after an end":      {container(running, ended(0, "b")), "", false},
		"trying again for a moment":      {probed(container(begun, ended(1, "b")), false), "pod x-0: Error: b", true},
		"running again":                  {probed(container(running, ended(1, "b")), false), "", false},
		"ready again":                    {probed(container(begun, ended(1, "b")), true), "", false},
	} {
		t.Run(name, func(t *testing.T) {
			message, starting := failure(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "x-0"}, Status: tc.status}, now)
			if message != tc.message || starting != tc.starting {
				t.Errorf("got %q, %v, want %q, %v", message, starting, tc.message, tc.starting)
			}
		})
	}
}

func TestFailureOfPodsThatEnd(t *testing.T) {
	failing := []corev1.ContainerStatus{{State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}}}}
	for name, tc := range map[string]struct {
		change func(*corev1.Pod)
		want   string
	}{
		"one that is to run":             {func(*corev1.Pod) {}, "pod x-0: CrashLoopBackOff"},
		"one that is to end":             {func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{} }, ""},
		"one that the host has replaced": {func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }, ""},
	} {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "x-0"}, Status: corev1.PodStatus{ContainerStatuses: failing}}
		tc.change(pod)
		if message, _ := failure(pod, time.Now()); message != tc.want {
			t.Errorf("%s: got %q, want %q", name, message, tc.want)
		}
	}
}

// TestNotReady checks what is said while no server answers: where to look.
func TestNotReady(t *testing.T) {
	pod := func(name string, started, ready bool) corev1.Pod {
		return corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{
			Started: &started, Ready: ready, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}},
		}}}}
	}
	onEtcd := named(func(cp *v1alpha1.ControlPlane) {
		cp.Spec.Storage.Etcd = &v1alpha1.EtcdStorage{Endpoints: []string{"https://etcd-0:2379", "https://etcd-1:2379"}}
	})
	for name, tc := range map[string]struct {
		cp   *v1alpha1.ControlPlane
		pods []corev1.Pod
		want string
	}{
		"no pod":             {named(), nil, "no server answers requests"},
		"one that starts":    {named(), []corev1.Pod{pod("cp-0", false, false)}, "no server answers requests"},
		"one that is ready":  {named(), []corev1.Pod{pod("cp-0", true, true)}, "no server answers requests"},
		"one that was ready": {named(), []corev1.Pod{pod("cp-0", true, false)}, "no server answers requests: pod cp-0 runs and is not ready, and its log says why"},
		"several": {onEtcd, []corev1.Pod{pod("b", true, false), pod("a", true, false)},
			"no server answers requests: pods a, b run and are not ready, as when etcd has no majority: look after https://etcd-0:2379, https://etcd-1:2379, or see the logs of the pods"},
	} {
		t.Run(name, func(t *testing.T) {
			w := &work{cp: tc.cp, servers: workload{}.observed(tc.pods, time.Now())}
			if diff := cmp.Diff(tc.want, available(w).Message); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestObservedStatefulSet(t *testing.T) {
	whole := appsv1.StatefulSetStatus{ObservedGeneration: 2, Replicas: 1, ReadyReplicas: 1, UpdatedReplicas: 1, CurrentRevision: "b", UpdateRevision: "b"}
	for name, tc := range map[string]struct {
		change func(*appsv1.StatefulSetStatus)
		want   observed
	}{
		"whole":         {func(*appsv1.StatefulSetStatus) {}, observed{ready: 1, settled: true, version: "v1"}},
		"not seen":      {func(s *appsv1.StatefulSetStatus) { s.ObservedGeneration = 1 }, observed{ready: 1, version: "v1"}},
		"rolling out":   {func(s *appsv1.StatefulSetStatus) { s.CurrentRevision = "a" }, observed{ready: 1, version: "v1"}},
		"of before":     {func(s *appsv1.StatefulSetStatus) { s.UpdatedReplicas = 0 }, observed{ready: 1, version: "v1"}},
		"not ready yet": {func(s *appsv1.StatefulSetStatus) { s.ReadyReplicas = 0 }, observed{version: "v1"}},
	} {
		t.Run(name, func(t *testing.T) {
			set := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Generation: 2}, Status: whole}
			set.Spec.Template.Labels = map[string]string{versionLabel: "v1"}
			tc.change(&set.Status)
			if diff := cmp.Diff(tc.want, ofStatefulSet(set).observed(nil, time.Now()), cmp.AllowUnexported(observed{})); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestObservedDeployment(t *testing.T) {
	whole := appsv1.DeploymentStatus{ObservedGeneration: 2, Replicas: 3, ReadyReplicas: 3, UpdatedReplicas: 3}
	for name, tc := range map[string]struct {
		change func(*appsv1.DeploymentStatus)
		want   observed
	}{
		"whole":                {func(*appsv1.DeploymentStatus) {}, observed{ready: 3, settled: true, version: "v1"}},
		"not seen":             {func(s *appsv1.DeploymentStatus) { s.ObservedGeneration = 1 }, observed{ready: 3, version: "v1"}},
		"one of them replaced": {func(s *appsv1.DeploymentStatus) { s.UpdatedReplicas, s.Replicas = 1, 4 }, observed{ready: 3, version: "v1"}},
		"one of before left":   {func(s *appsv1.DeploymentStatus) { s.Replicas, s.ReadyReplicas = 4, 4 }, observed{ready: 4, version: "v1"}},
		"two of them ready":    {func(s *appsv1.DeploymentStatus) { s.ReadyReplicas = 2 }, observed{ready: 2, version: "v1"}},
		"none that the host allows": {func(s *appsv1.DeploymentStatus) {
			*s = appsv1.DeploymentStatus{ObservedGeneration: 2, Conditions: []appsv1.DeploymentCondition{{
				Type: appsv1.DeploymentReplicaFailure, Status: corev1.ConditionTrue, Message: "exceeded quota",
			}}}
		}, observed{version: "v1", starting: true, failing: "Deployment one has no pods: exceeded quota"}},
	} {
		t.Run(name, func(t *testing.T) {
			d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "one", Generation: 2}, Status: whole}
			d.Spec.Replicas = new(int32(3))
			d.Spec.Template.Labels = map[string]string{versionLabel: "v1"}
			tc.change(&d.Status)
			if diff := cmp.Diff(tc.want, ofDeployment(d).observed(nil, time.Now()), cmp.AllowUnexported(observed{})); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
