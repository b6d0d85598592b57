package translate

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/kubernetes/pkg/kubelet/events"
)

// withAdded returns a pod of a space, and the host's as its cache has it, to which change adds.
func withAdded(change func(*corev1.PodSpec)) (host, pod *corev1.Pod) {
	pod = plain()
	pod.Spec.InitContainers = []corev1.Container{{Name: "i"}}
	debugger(nil)(pod)
	pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: "data"}, corev1.Volume{Name: "token"})
	host = Options{}.Pod(pod, home)
	if change != nil {
		change(&host.Spec)
	}
	NoteNames(host)
	host.Spec = corev1.PodSpec{NodeName: "node"}
	return host, pod
}

// sidecar adds what a webhook of the host does, before what there is.
func sidecar(spec *corev1.PodSpec) {
	spec.Containers = append([]corev1.Container{{Name: "agent"}}, spec.Containers...)
	spec.InitContainers = append([]corev1.Container{{Name: "agent-init"}}, spec.InitContainers...)
	spec.Volumes = append([]corev1.Volume{{Name: "agent-login"}, {Name: "c"}}, spec.Volumes...)
	spec.EphemeralContainers = append(spec.EphemeralContainers, corev1.EphemeralContainer{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "admins"}})
}

// TestAddedIsNotNamed checks that what others add to a pod on the host is not named where something is said of the pod
// as a whole.
func TestAddedIsNotNamed(t *testing.T) {
	host, pod := withAdded(sidecar)
	for text, want := range map[string]string{
		"containers with unready status: [agent]":                         notShown,
		"containers with unready status: [i agent]":                       "containers with unready status: [i]",
		"containers with incomplete status: [agent-init i]":               "containers with incomplete status: [i]",
		"containers with unknown status: [tn-d0 admins]":                  "containers with unknown status: [d0]",
		"unmounted volumes=[agent-login data], unattached volumes=[]: no": "unmounted volumes=[data], unattached volumes=[]: no",
		"unmounted volumes=[data], unattached volumes=[agent-login]: no":  notShown,
		"containers with unready status: [i agent], and agent":            notShown,
		"failed: [pull of agent]":                                         notShown,
		"Container agent was using 900Mi, request is 0":                   notShown,
		`MountVolume.SetUp failed for volume "agent-login" : not found`:   notShown,
		`{"containers":[{"name":"agent","resources":{}}]}`:                notShown,
		"k8s_agent_web-0": notShown,
		"admins.":         notShown,
		`Usage of EmptyDir volume "c" exceeds the limit`:    notShown, // it may be the other one
		`Usage of EmptyDir volume "data" exceeds the limit`: `Usage of EmptyDir volume "data" exceeds the limit`,
		"user-agent, agents and tn-d0":                      "user-agent, agents and d0",
		"":                                                  "",
	} {
		if got := Text(text, host, pod, home.Namespace); got != want {
			t.Errorf("of %q it is told %q, want %q", text, got, want)
		}
		for _, reason := range []string{events.FailedMountVolume, "Evicted", events.ResizeCompleted, events.FailedSync} {
			if got := Event(&corev1.Event{Reason: reason, Message: text}, host, pod, home.Namespace).Message; got != want {
				t.Errorf("of an event %q it is told %q, want %q", text, got, want)
			}
		}
		of := host.DeepCopy()
		of.Status = corev1.PodStatus{Reason: "Evicted", Message: text, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Reason: "ContainersNotReady", Message: text}}}
		got := Status(of, pod, home.Namespace, true)
		if got.Message != want || got.Reason != "Evicted" || got.Conditions[0].Message != want || got.Conditions[0].Reason != "ContainersNotReady" {
			t.Errorf("of %q the status is %+v", text, got)
		}
	}
	own := &corev1.Event{Reason: events.ContainerUnhealthy, Message: "no agent", InvolvedObject: corev1.ObjectReference{FieldPath: "spec.containers{c}"}}
	if got := Event(own, host, pod, home.Namespace).Message; got != "no agent" {
		t.Errorf("of its own container it is told %q", got)
	}
	own.InvolvedObject.FieldPath = "spec.containers[0]"
	if got := Event(own, host, pod, home.Namespace).Message; got != notShown {
		t.Errorf("of a container without a name it is told %q", got)
	}
}

// TestNothingIsAdded checks that what the syncer itself makes of a pod, and an order that somebody has changed, take
// nothing from what is told, and cost nothing.
func TestNothingIsAdded(t *testing.T) {
	const text = "containers with unready status: [c i tn-d0 data token]"
	for name, change := range map[string]func(*corev1.PodSpec){
		"as it was made": nil,
		"another order": func(spec *corev1.PodSpec) {
			last := len(spec.Volumes) - 1
			spec.Volumes[0], spec.Volumes[last] = spec.Volumes[last], spec.Volumes[0]
			spec.InitContainers, spec.Containers = spec.Containers, spec.InitContainers
		},
		"less": func(spec *corev1.PodSpec) { spec.Volumes, spec.EphemeralContainers = nil, nil },
	} {
		host, pod := withAdded(change)
		if got := Text(text, host, pod, home.Namespace); got != strings.ReplaceAll(text, "tn-d0", "d0") {
			t.Errorf("%s: it is told %q", name, got)
		}
	}
	host, pod := withAdded(nil)
	pod.Spec.EphemeralContainers = nil // their names on the host are made
	host.Annotations[namesAnnotation] = strings.ReplaceAll(host.Annotations[namesAnnotation], " tn-d0", "")
	if n := testing.AllocsPerRun(100, func() { withoutAdded(text, addedTo(host, pod)) }); n > 0 {
		t.Errorf("it is allocated %v times", n)
	}
	before := host.Annotations[namesAnnotation]
	if NoteNames(host); host.Annotations[namesAnnotation] != before {
		t.Errorf("noted twice names are %q, once %q", host.Annotations[namesAnnotation], before)
	}
}
