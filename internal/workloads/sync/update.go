package sync

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	podv1 "k8s.io/kubernetes/pkg/api/v1/pod"
	corev1helpers "k8s.io/kubernetes/pkg/apis/core/v1/helper"

	"github.com/tenantry/tenantry/internal/workloads/names"
	"github.com/tenantry/tenantry/internal/workloads/network"
	"github.com/tenantry/tenantry/internal/workloads/translate"
)

const (
	// hashAnnotation has the hash of what can be changed of the host's pod, as it was last written.
	hashAnnotation = names.HashAnnotation
	// keysAnnotation has the keys of the labels and, behind a semicolon, of the annotations that were last written, so
	// that those which the host's own components add stay.
	keysAnnotation = names.KeysAnnotation
	// imagesAnnotation has the hashes of the images that were last written, in the order of containers: one that has not
	// changed is not written again, as a webhook of the host may have put another in its place.
	imagesAnnotation = names.Prefix + "images"
	// ofChange is what events name when the host refuses a change.
	ofChange = "labels, images and tolerations"
)

// changeable is what can be changed of a pod.
type changeable struct {
	Labels      map[string]string
	Annotations map[string]string
	Images      map[string]string
	Deadline    *int64
	Tolerations []corev1.Toleration
}

// translated returns the host's pod, with the hash of what can be changed of it. open is in which directions no policy
// of its space governs it.
func (s *syncer) translated(pod *corev1.Pod, home translate.Home, open network.Open) *corev1.Pod {
	host := s.translation().Pod(pod, home)
	open.Label(host.Labels)
	hash := names.Hash(changeableOf(host))
	host.Annotations[keysAnnotation] = strings.Join(slices.Sorted(maps.Keys(host.Labels)), ",") + ";" + strings.Join(slices.Sorted(maps.Keys(host.Annotations)), ",")
	host.Annotations[hashAnnotation], host.Annotations[resourcesAnnotation] = hash, names.Hash(resourcesOf(pod, &host.Spec))
	host.Annotations[imagesAnnotation] = imagesOf(&host.Spec)
	return host
}

// isAnswered reports whether all of what is to be on the host has been written there, or refused. Resources are to be
// there: what is refused of these has a condition of its own.
func (s *syncer) isAnswered(pod, host, wanted *corev1.Pod) bool {
	refuses := func(w write, what string) bool {
		return len(s.backoffs.refused(itemWrite{itemOf(podItem, pod), w}, what)) > 0
	}
	switch missing, what := missingDebuggers(host, wanted); {
	case host.Annotations[resourcesAnnotation] != wanted.Annotations[resourcesAnnotation]:
		return false
	case host.Annotations[hashAnnotation] != wanted.Annotations[hashAnnotation]:
		return refuses(writeUpdate, changeOf(host, wanted)) // ephemeral containers wait for it
	default:
		return len(missing) == 0 || refuses(writeDebuggers, what)
	}
}

// changeOf says what a pod of the host is to be changed to.
func changeOf(host, wanted *corev1.Pod) string {
	return string(host.UID) + wanted.Annotations[hashAnnotation]
}

func changeableOf(host *corev1.Pod) changeable {
	c := changeable{Labels: host.Labels, Annotations: host.Annotations, Images: map[string]string{},
		Deadline: host.Spec.ActiveDeadlineSeconds, Tolerations: host.Spec.Tolerations}
	for _, container := range allContainers(&host.Spec) {
		c.Images[container.Name] = container.Image
	}
	return c
}

// allContainers returns the containers of a pod in their order, but those that are added to it when it runs.
func allContainers(spec *corev1.PodSpec) (all []*corev1.Container) {
	podv1.VisitContainers(spec, podv1.InitContainers|podv1.Containers, func(c *corev1.Container, _ podv1.ContainerType) bool {
		all = append(all, c)
		return true
	})
	return all
}

// imagesOf returns the hashes of the images of all containers.
func imagesOf(spec *corev1.PodSpec) string {
	var hashes []string
	for _, container := range allContainers(spec) {
		hashes = append(hashes, names.Hash(container.Image))
	}
	return strings.Join(hashes, ",")
}

// changedImages returns the containers whose image has not been written to the host's pod, as far as is known of it.
func changedImages(wanted, host *corev1.Pod) sets.Set[string] {
	had, wants := strings.Split(host.Annotations[imagesAnnotation], ","), strings.Split(imagesOf(&wanted.Spec), ",")
	changed := sets.Set[string]{}
	for i, container := range allContainers(&wanted.Spec) {
		if len(had) != len(wants) || had[i] != wants[i] { // it has none if the version before made it
			changed.Insert(container.Name)
		}
	}
	return changed
}

// update takes what has been changed of a pod in the space to the host.
func (s *syncer) update(ctx context.Context, pod, host, wanted *corev1.Pod) error {
	if host.Annotations[hashAnnotation] == wanted.Annotations[hashAnnotation] {
		return nil
	}
	what := changeOf(host, wanted)
	if s.postponeRetry(pod, writeUpdate, what) || s.postponePod(pod, writeUpdate, wanted, 1) {
		return nil
	}
	if errs := translate.CheckLabels(&pod.ObjectMeta); len(errs) > 0 {
		return s.finishWrite(ctx, pod, writeUpdate, what, map[string]string{ofChange: errs.ToAggregate().Error()})
	}
	err := s.patchHost(ctx, host, wanted, patchOf(wanted, host))
	if isRefused(err) {
		return s.finishWrite(ctx, pod, writeUpdate, what, map[string]string{ofChange: podNotTaken(err, pod, host)})
	}
	if err != nil {
		return fmt.Errorf("changing the host's pod: %w", err)
	}
	return nil
}

// forget has a patch take away those of the keys that there are.
func forget(patch map[string]any, there map[string]string, keys string) {
	for key := range strings.SplitSeq(keys, ",") {
		if _, ok := there[key]; ok {
			patch[key] = nil
		}
	}
}

// patchOf returns a strategic merge patch of what can be changed.
func patchOf(wanted, host *corev1.Pod) map[string]any {
	labels, annotations := map[string]any{}, map[string]any{}
	keys, ofAnnotations, divided := strings.Cut(host.Annotations[keysAnnotation], ";")
	if !divided { // by the version before
		ofAnnotations = keys
	}
	forget(labels, host.Labels, keys)
	forget(annotations, host.Annotations, ofAnnotations)
	for key, value := range wanted.Labels {
		labels[key] = value
	}
	for key, value := range wanted.Annotations {
		annotations[key] = value
	}
	delete(annotations, resourcesAnnotation) // of which resize says what the host has
	changed := changedImages(wanted, host)
	spec := patchOfContainers(&wanted.Spec, "image", func(c *corev1.Container) any {
		if !changed.Has(c.Name) {
			return nil
		}
		return c.Image
	})
	if wanted.Spec.ActiveDeadlineSeconds != nil {
		spec["activeDeadlineSeconds"] = *wanted.Spec.ActiveDeadlineSeconds
	}
	// Those that the host's own components have added stay: it lets none be taken away.
	tolerated := corev1.PodSpec{Tolerations: host.Spec.Tolerations}
	for i := range wanted.Spec.Tolerations {
		corev1helpers.AddOrUpdateTolerationInPodSpec(&tolerated, &wanted.Spec.Tolerations[i])
	}
	if len(tolerated.Tolerations) > 0 {
		spec["tolerations"] = tolerated.Tolerations
	}
	return map[string]any{
		"metadata": map[string]any{"labels": labels, "annotations": annotations},
		"spec":     spec,
	}
}

// patchOfContainers returns what of a pod's spec gives each container a value of one field, but those that have nil.
func patchOfContainers(wanted *corev1.PodSpec, field string, value func(*corev1.Container) any) map[string]any {
	spec := map[string]any{}
	for key, containers := range map[string][]corev1.Container{"initContainers": wanted.InitContainers, "containers": wanted.Containers} {
		var all []map[string]any
		for i := range containers {
			if v := value(&containers[i]); v != nil {
				all = append(all, map[string]any{"name": containers[i].Name, field: v})
			}
		}
		if len(all) > 0 {
			spec[key] = all
		}
	}
	return spec
}
