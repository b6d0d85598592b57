package sync

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	clienttesting "k8s.io/client-go/testing"

	"github.com/tenantry/tenantry/internal/workloads/names"
)

// debugged adds ephemeral containers to a pod.
func debugged(all ...string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		for _, name := range all {
			p.Spec.EphemeralContainers = append(p.Spec.EphemeralContainers, corev1.EphemeralContainer{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: name, Image: "i"}})
		}
	}
}

// patches returns what was patched of the host's pods, which must all be for the UID of the one there is.
func (w *world) patches(subresource string) (all []map[string]any) {
	w.t.Helper()
	for _, action := range w.onHost.Actions() {
		patch, ok := action.(clienttesting.PatchAction)
		if !ok || patch.GetResource().Resource != "pods" {
			continue
		}
		written := map[string]any{}
		if err := json.Unmarshal(patch.GetPatch(), &written); err != nil {
			w.t.Fatal(err)
		}
		if uid := written["metadata"].(map[string]any)["uid"]; uid != "host-p" {
			w.t.Errorf("a patch of any pod of the name: %s", patch.GetPatch())
		}
		if patch.GetSubresource() == subresource {
			all = append(all, written)
		}
	}
	return all
}

// refusing has the host refuse patches of a subresource that say something.
func (w *world) refusing(subresource, text string) {
	w.onHost.PrependReactor("patch", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
		if action.GetSubresource() != subresource || !strings.Contains(string(action.(clienttesting.PatchAction).GetPatch()), text) {
			return false, nil, nil
		}
		return true, nil, apierrors.NewForbidden(corev1.Resource("pods"), "web-0", context.DeadlineExceeded)
	})
}

// TestDebug checks that the host's pod gets the ephemeral containers of the space's, one by one, and with what they
// read.
func TestDebug(t *testing.T) {
	reading := func(p *corev1.Pod) {
		p.Spec.EphemeralContainers[1].EnvFrom = []corev1.EnvFromSource{{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "m"}}}}
	}
	pod := spacePod(both(bound, debugged("old", "new"), reading))
	source := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "m", Namespace: "acme|shop", UID: "m", ResourceVersion: "1"}, Data: map[string]string{"a": "b"}}
	w := newWorld(t, hostSpace(), pod, source, hostPod(pod, both(onNode, debugged("tn-old", "admins"))))
	if err := w.look(); err != nil {
		t.Fatal(err)
	}
	got := w.patches("ephemeralcontainers")
	if len(got) != 1 {
		t.Fatalf("it gets %v", got)
	}
	added := got[0]["spec"].(map[string]any)["ephemeralContainers"].([]any)
	if len(added) != 1 || added[0].(map[string]any)["name"] != "tn-new" {
		t.Errorf("it gets %v", added)
	}
	if env := added[0].(map[string]any)["env"].([]any); len(env) < 8 || env[0].(map[string]any)["name"] != "KUBERNETES_SERVICE_HOST" {
		t.Errorf("it asks the API of the host: %v", env)
	}
	w.expect(nil, []string{"create configmaps", "patch pods/ephemeralcontainers"})
	for range 2 {
		if err := w.look(); err != nil { // the cache is behind
			t.Fatal(err)
		}
	}
	w.expect(nil, nil)
	w.see(hostPod(pod, both(onNode, debugged("tn-old", "admins", "tn-new"))))
	w.clock.Step(firstBackoff)
	if err := w.look(); err != nil {
		t.Fatal(err)
	}
	w.expect(nil, nil)
	if w.backoffs.held.Len() != 0 {
		t.Errorf("left is %v", w.backoffs.held.All())
	}
}

// TestNotDebuggedYet checks what no ephemeral container is added to: none is read of by what comes, and none of what is
// over.
func TestNotDebuggedYet(t *testing.T) {
	now := spacePod(both(bound, debugged("d")))
	for name, tc := range map[string]struct {
		objects []runtime.Object
		onHost  []string
	}{
		"what is not there yet": {objects: []runtime.Object{hostSpace(), spacePod(debugged("d"))}, onHost: []string{"create pods"}},
		"what reads annotations that are to come": {
			objects: []runtime.Object{hostSpace(), spacePod(both(bound, debugged("d"), func(p *corev1.Pod) { p.Labels = map[string]string{"a": "b"} })), hostPod(spacePod(bound), onNode)},
			onHost:  []string{"patch pods"},
		},
		"what is over":        {objects: []runtime.Object{hostSpace(), spacePod(both(bound, debugged("d"), over)), hostPod(now, both(onNode, over))}},
		"what ends":           {objects: []runtime.Object{hostSpace(), spacePod(both(bound, debugged("d"), ending(30))), hostPod(now, both(onNode, ending(30)))}},
		"what has it already": {objects: []runtime.Object{hostSpace(), now, hostPod(now, both(onNode, debugged("tn-d")))}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, tc.objects...)
			if err := w.look(); err != nil {
				t.Fatal(err)
			}
			w.expect(nil, tc.onHost)
			made, err := w.onHost.CoreV1().Pods(home.Host()).Get(t.Context(), "web-0", metav1.GetOptions{})
			if err != nil || slices.Equal(tc.onHost, []string{"create pods"}) && len(made.Spec.EphemeralContainers) > 0 {
				t.Errorf("it is made with %v, %v", made.Spec.EphemeralContainers, err)
			}
		})
	}
}

// TestDebuggerOfAnotherLevel checks that no ephemeral container gets to the host that it must not get, whatever the
// space has.
func TestDebuggerOfAnotherLevel(t *testing.T) {
	pod := spacePod(both(bound, debugged("d"), func(p *corev1.Pod) {
		p.Spec.EphemeralContainers[0].SecurityContext = &corev1.SecurityContext{Privileged: new(true)}
	}))
	w := newWorld(t, hostSpace(), pod, hostPod(pod, onNode))
	if err := w.look(); err == nil || !strings.Contains(err.Error(), "d: spec: Forbidden: it violates the Pod Security level baseline") {
		t.Errorf("got %v", err)
	}
	w.expect([]string{"create events"}, nil)
	large := spacePod(both(bound, debugged("d"), func(p *corev1.Pod) { p.Spec.EphemeralContainers[0].Args = []string{strings.Repeat("x", maxPodBytes)} }))
	w = newWorld(t, hostSpace(), large, hostPod(large, onNode))
	if err := w.look(); err == nil || !strings.Contains(err.Error(), "may have 131072") {
		t.Errorf("got %v", err)
	}
	w.expect([]string{"create events"}, nil)
}

// TestDebugRefusedByHost checks that the space is told which ephemeral container the host does not take, and that
// others are added.
func TestDebugRefusedByHost(t *testing.T) {
	pod := spacePod(both(bound, debugged("bad", "good")))
	w := newWorld(t, hostSpace(), pod, hostPod(pod, onNode))
	w.refusing("ephemeralcontainers", "tn-bad")
	if err := w.look(); err == nil || !strings.Contains(err.Error(), "bad: the host cluster does not take it") {
		t.Errorf("got %v", err)
	}
	w.expect([]string{"create events"}, []string{"patch pods/ephemeralcontainers", "patch pods/ephemeralcontainers"})
	if err := w.look(); err != nil {
		t.Fatal(err)
	}
	w.expect([]string{"update pods/status"}, nil)
	told, err := w.space.CoreV1().Pods("acme|shop").Get(t.Context(), "web-0", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	statuses := told.Status.EphemeralContainerStatuses
	if len(statuses) != 1 || statuses[0].Name != "bad" || statuses[0].State.Waiting.Reason != reasonRefused || strings.Contains(statuses[0].State.Waiting.Message, "tn-bad") {
		t.Errorf("the pod says %+v", statuses)
	}
	w.clock.Step(firstBackoff)
	if err := w.look(); err == nil {
		t.Error("it is not tried again")
	}
	w.expect([]string{"update pods/status"}, []string{"patch pods/ephemeralcontainers", "patch pods/ephemeralcontainers"})
}

// TestDebuggerIsThere checks that what the host has already, of which the cache does not know, is no refusal.
func TestDebuggerIsThere(t *testing.T) {
	pod := spacePod(both(bound, debugged("d")))
	w := newWorld(t, hostSpace(), pod, hostPod(pod, both(onNode, debugged("tn-d"))))
	w.see(hostPod(pod, onNode))
	w.onHost.PrependReactor("patch", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewInvalid(corev1.SchemeGroupVersion.WithKind("Pod").GroupKind(), "web-0", nil)
	})
	if err := w.look(); err != nil {
		t.Error(err)
	}
	w.expect(nil, []string{"patch pods/ephemeralcontainers"})
}

// TestSlimDebuggers checks that the cache has the names of ephemeral containers, and nothing else of them.
func TestSlimDebuggers(t *testing.T) {
	pod := spacePod(both(onNode, debugged("tn-d")))
	got, err := slim(pod)
	want := corev1.PodSpec{NodeName: "node", EphemeralContainers: []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "tn-d"}}}}
	if diff := cmp.Diff(want, got.(*corev1.Pod).Spec); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	if names.Debugger("d") != "tn-d" {
		t.Error("the names are others")
	}
}

// TestPatchOfAnotherPod checks that what is not written because the host has another pod of the name is no refusal.
func TestPatchOfAnotherPod(t *testing.T) {
	pod := spacePod(both(bound, debugged("d"), sized("2")))
	w := newWorld(t, hostSpace(), pod, hostPod(spacePod(both(bound, sized("1"))), onNode))
	w.onHost.PrependReactor("patch", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
		errs := field.ErrorList{field.Invalid(field.NewPath("metadata", "uid"), "host-p", "field is immutable")}
		return true, nil, apierrors.NewInvalid(corev1.SchemeGroupVersion.WithKind("Pod").GroupKind(), "web-0", errs)
	})
	if err := w.look(); err == nil {
		t.Error("it is not tried again")
	}
	w.expect(nil, []string{"patch pods", "patch pods/ephemeralcontainers"})
	if w.backoffs.held.Len() != 0 {
		t.Errorf("it waits: %v", w.backoffs.held.All())
	}
}

// TestRefusedIsAnswered checks that a change that the host refuses does not keep the generation of a pod from being
// observed, by which its resources may become less again; and that resources that are not there do.
func TestRefusedIsAnswered(t *testing.T) {
	for name, tc := range map[string]struct {
		change       func(*corev1.Pod)
		subresource  string
		resourcesToo bool
		want         int64
	}{
		"an ephemeral container":  {change: debugged("d"), subresource: "ephemeralcontainers", want: 2},
		"an image":                {change: func(p *corev1.Pod) { p.Spec.Containers[0].Image = "refused" }, want: 2},
		"an image, and resources": {change: func(p *corev1.Pod) { p.Spec.Containers[0].Image = "refused" }, resourcesToo: true, want: 1},
	} {
		t.Run(name, func(t *testing.T) {
			pod := spacePod(both(bound, tc.change, func(p *corev1.Pod) { p.Generation, p.Status.ObservedGeneration = 2, 1 }))
			host := hostPod(spacePod(bound), both(onNode, func(p *corev1.Pod) { p.Generation, p.Status.ObservedGeneration = 7, 7 }))
			if tc.resourcesToo {
				host.Annotations[resourcesAnnotation] = "others"
			}
			w := newWorld(t, hostSpace(), pod, host)
			w.onHost.PrependReactor("patch", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
				refuses := action.GetSubresource() == tc.subresource || tc.resourcesToo
				return refuses, nil, apierrors.NewForbidden(corev1.Resource("pods"), "web-0", errors.New("not here"))
			})
			for range 2 {
				if err := w.look(); err == nil {
					t.Error("nothing is refused")
				}
				now, err := w.space.CoreV1().Pods("acme|shop").Get(t.Context(), "web-0", metav1.GetOptions{})
				if err != nil {
					t.Fatal(err)
				}
				pod = now
				w.see(now)
				w.clock.Step(time.Second)
			}
			if pod.Status.ObservedGeneration != tc.want {
				t.Errorf("generation %d is observed, want %d", pod.Status.ObservedGeneration, tc.want)
			}
		})
	}
}
