package sync

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tenantry/tenantry/internal/workloads/network"
	"github.com/tenantry/tenantry/internal/workloads/translate"
)

// TestUpdate changes all that Kubernetes lets change of a pod but by subresources (ValidatePodUpdate), one after the
// other. The host's pod has it then, and keeps what the host's own components have added.
func TestUpdate(t *testing.T) {
	tolerates := func(key string, seconds int64) corev1.Toleration {
		return corev1.Toleration{Key: key, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: &seconds}
	}
	const shown = "kubectl.kubernetes.io/default-container"
	before := both(bound, func(p *corev1.Pod) {
		p.Labels = map[string]string{"one": "1", "other": "1"}
		p.Annotations[shown] = "c"
		p.Spec.InitContainers, p.Spec.ActiveDeadlineSeconds = []corev1.Container{{Name: "first", Image: "i"}}, new(int64(100))
		p.Spec.Tolerations = []corev1.Toleration{tolerates("a", 300), tolerates("b", 300)}
	})
	for name, change := range map[string]func(*corev1.Pod){
		"labels":                            func(p *corev1.Pod) { p.Labels = map[string]string{"one": "2", "new": "2"} },
		"annotations":                       func(p *corev1.Pod) { p.Annotations[shown] = "first" },
		"an annotation less":                func(p *corev1.Pod) { delete(p.Annotations, shown) },
		"the image of a container":          func(p *corev1.Pod) { p.Spec.Containers[0].Image = "j" },
		"the image of a container at first": func(p *corev1.Pod) { p.Spec.InitContainers[0].Image = "j" },
		"a deadline":                        func(p *corev1.Pod) { p.Spec.ActiveDeadlineSeconds = new(int64(50)) },
		"a toleration more":                 func(p *corev1.Pod) { p.Spec.Tolerations = append(p.Spec.Tolerations, tolerates("c", 300)) },
		"for how long a taint is tolerated": func(p *corev1.Pod) { p.Spec.Tolerations[1] = tolerates("b", 10) },
	} {
		t.Run(name, func(t *testing.T) {
			onHost := func(pod *corev1.Pod) *corev1.Pod {
				host := (&syncer{dns: newDNSService(nil, "")}).translated(pod, translate.Home{Namespace: home, HostUID: "h"}, network.Open{Ingress: true, Egress: true})
				host.UID, host.Spec.NodeName, host.Labels["of-the-host"] = "host-p", "node", "x"
				host.Spec.Tolerations = append(host.Spec.Tolerations, tolerates("of-the-host", 1))
				return host
			}
			now := spacePod(both(before, change))
			w := newWorld(t, hostSpace(), now, onHost(spacePod(before)))
			look := func() *corev1.Pod {
				t.Helper()
				there, err := w.onHost.CoreV1().Pods(home.Host()).Get(t.Context(), "web-0", metav1.GetOptions{})
				if err != nil {
					t.Fatal(err)
				}
				cached, err := slim(there.DeepCopy())
				if err != nil {
					t.Fatal(err)
				}
				w.see(cached.(*corev1.Pod))
				w.onHost.ClearActions()
				if err := w.look(); err != nil {
					t.Fatal(err)
				}
				return there
			}
			look()
			if got := did(w.onHost); len(got) != 1 || got[0] != "patch pods" {
				t.Errorf("the host is asked for %v", got)
			}
			got := look()
			if again := did(w.onHost); len(again) > 0 {
				t.Errorf("the host is asked for %v once more", again)
			}
			sorted := cmpopts.SortSlices(func(a, b corev1.Toleration) bool { return a.Key < b.Key })
			if diff := cmp.Diff(onHost(now), got, sorted, cmpopts.IgnoreFields(metav1.ObjectMeta{}, "ManagedFields"), cmpopts.IgnoreTypes(metav1.TypeMeta{})); diff != "" {
				t.Errorf("the host's pod (-want +got):\n%s", diff)
			}
		})
	}
}

// TestUpdateKeepsImages changes a pod for which a webhook of the host has put other images in the place of its own:
// they stay, but that of a container whose image changes.
func TestUpdateKeepsImages(t *testing.T) {
	before := spacePod(both(bound, func(p *corev1.Pod) {
		p.Spec.InitContainers = []corev1.Container{{Name: "first", Image: "i"}}
		p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: "other", Image: "i"})
	}))
	for name, tc := range map[string]struct {
		change  func(*corev1.Pod)
		earlier bool // the version before has made the host's pod
		want    []string
	}{
		"a label":                   {change: func(p *corev1.Pod) { p.Labels = map[string]string{"l": "1"} }, want: []string{"mirror/first", "mirror/c", "mirror/other"}},
		"an image":                  {change: func(p *corev1.Pod) { p.Spec.Containers[1].Image = "j" }, want: []string{"mirror/first", "mirror/c", "j"}},
		"one that is first":         {change: func(p *corev1.Pod) { p.Spec.InitContainers[0].Image = "j" }, want: []string{"j", "mirror/c", "mirror/other"}},
		"of which nothing is known": {change: func(p *corev1.Pod) { p.Spec.Containers[1].Image = "j" }, earlier: true, want: []string{"i", before.Spec.Containers[0].Image, "j"}},
	} {
		there := hostPod(before, func(host *corev1.Pod) {
			host.Spec = *before.Spec.DeepCopy()
			for _, container := range allContainers(&host.Spec) {
				container.Image = "mirror/" + container.Name
			}
			if tc.earlier {
				delete(host.Annotations, imagesAnnotation)
			}
		})
		now := before.DeepCopy()
		tc.change(now)
		w := newWorld(t, hostSpace(), now, there)
		if err := w.look(); err != nil {
			t.Fatal(err)
		}
		got, err := w.onHost.CoreV1().Pods(home.Host()).Get(t.Context(), "web-0", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		var images []string
		for _, container := range allContainers(&got.Spec) {
			images = append(images, container.Image)
		}
		if diff := cmp.Diff(tc.want, images); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
