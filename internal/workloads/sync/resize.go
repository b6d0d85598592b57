package sync

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/tenantry/tenantry/internal/workloads/held"
	"github.com/tenantry/tenantry/internal/workloads/names"
)

const (
	// resourcesAnnotation has the hash of the resources that were last written to the host's pod. It is empty while
	// somebody writes others. What the host itself has made of them stays.
	resourcesAnnotation = names.Prefix + "resources"
	// ofResources names in events what is refused.
	ofResources = "resources"
)

// resources are what can be resized of a pod.
type resources struct {
	Pod        *corev1.ResourceRequirements
	Containers map[string]corev1.ResourceRequirements
	// Lowered is the generation in which the space's pod was last resized to less. Without it, a resize that is taken
	// back while the cache has not seen it yet would be taken for what the cache has.
	Lowered int64 `json:",omitempty"`
}

func resourcesOf(pod *corev1.Pod, spec *corev1.PodSpec) resources {
	r := resources{spec.Resources, map[string]corev1.ResourceRequirements{}, held.Parse(pod.Annotations).Generation}
	for _, container := range allContainers(spec) {
		r.Containers[container.Name] = container.Resources
	}
	return r
}

// resizeOf says which resources a pod of the host is to have.
func resizeOf(host, wanted *corev1.Pod) string {
	return string(host.UID) + wanted.Annotations[resourcesAnnotation]
}

// resize takes the resources of a pod in the space to the host, if they have been changed there.
func (s *syncer) resize(ctx context.Context, pod, host, wanted *corev1.Pod) error {
	has, wants, what := host.Annotations[resourcesAnnotation], wanted.Annotations[resourcesAnnotation], resizeOf(host, wanted)
	if has == wants {
		s.backoffs.drop(itemWrite{itemOf(podItem, pod), writeResources})
		return nil
	}
	i := itemOf(podItem, pod)
	if s.postponeRetry(pod, writeResources, what) || s.postponeResize(i, writesOfResize*s.storedSize(pod, wanted)) {
		return nil
	}
	if has != "" {
		// If this stops halfway, the annotation must not claim resources that the host's pod does not have.
		if err := s.noteResources(ctx, host, ""); err != nil {
			return err
		}
	}
	err := s.patchHost(ctx, host, nil, map[string]any{"spec": patchOfResources(&wanted.Spec)}, "resize") // whatever size it has: this adds nothing
	if isRefused(err) {
		return s.finishWrite(ctx, pod, writeResources, what, map[string]string{ofResources: podNotTaken(err, pod, host)})
	}
	if err != nil {
		return fmt.Errorf("resizing the host's pod: %w", err)
	}
	if err := s.noteResources(ctx, host, wants); err != nil {
		return err
	}
	return s.finishWrite(ctx, pod, writeResources, what, nil)
}

// noteResources notes on a pod of the host which resources it has.
func (s *syncer) noteResources(ctx context.Context, host *corev1.Pod, hash string) error {
	err := s.patchHost(ctx, host, nil, map[string]any{"metadata": map[string]any{"annotations": map[string]any{resourcesAnnotation: hash}}})
	if err != nil {
		return fmt.Errorf("noting the resources of the host's pod: %w", err)
	}
	return nil
}

// patchOfResources returns a strategic merge patch of a spec that changes resources alone. The host's containers of
// other names stay.
func patchOfResources(wanted *corev1.PodSpec) map[string]any {
	spec := patchOfContainers(wanted, "resources", func(c *corev1.Container) any { return c.Resources })
	if wanted.Resources != nil {
		spec["resources"] = wanted.Resources
	}
	return spec
}
