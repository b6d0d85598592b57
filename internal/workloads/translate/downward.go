package translate

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/kubernetes/pkg/fieldpath"

	"github.com/tenantry/tenantry/internal/workloads/names"
)

// Annotations of pods of the host that the downward API reads in place of fields of theirs.
const (
	accountAnnotation     = names.Prefix + "service-account"
	labelsAnnotation      = names.Prefix + "labels"
	annotationsAnnotation = names.Prefix + "annotations"
	// annotationPrefix begins the copy of an annotation that is not allowed on the host by its key.
	annotationPrefix = names.Prefix + "a-"
)

const (
	labelsPath      = "metadata.labels"
	annotationsPath = "metadata.annotations"
)

// sameOnHost are the fields of pods that are the host's.
var sameOnHost = []string{
	"metadata.name", "spec.nodeName", "status.hostIP", "status.hostIPs", "status.podIP", "status.podIPs",
}

// asAnnotation are the fields of which the host's pod has the space's in an annotation.
var asAnnotation = map[string]string{
	"metadata.namespace":      names.NamespaceAnnotation,
	"metadata.uid":            names.UIDAnnotation,
	"spec.serviceAccountName": accountAnnotation,
	labelsPath:                labelsAnnotation,
	annotationsPath:           annotationsAnnotation,
}

// hostFieldPath returns the field of the host's pod that has what a field has in the space.
func hostFieldPath(path string) (string, bool) {
	if slices.Contains(sameOnHost, path) {
		return path, true
	}
	if annotation, ok := asAnnotation[path]; ok {
		return annotationsPath + "['" + annotation + "']", true
	}
	if key, ok := keyIn(path, labelsPath); ok {
		return path, !strings.HasPrefix(key, names.Prefix)
	}
	if key, ok := keyIn(path, annotationsPath); ok {
		return annotationsPath + "['" + annotationOnHost(key) + "']", true
	}
	return "", false
}

// keyIn returns the key in a path like metadata.labels['key'].
func keyIn(path, of string) (string, bool) {
	rest, ok := strings.CutPrefix(path, of+"['")
	if !ok {
		return "", false
	}
	return strings.CutSuffix(rest, "']")
}

// annotationOnHost returns the key of an annotation's copy.
func annotationOnHost(key string) string {
	if slices.Contains(allowedAnnotations, key) {
		return key
	}
	return annotationPrefix + names.Digest(key)
}

// eachFieldRef calls f for each reference to a field of the pod, with its path.
func eachFieldRef(spec *corev1.PodSpec, path *field.Path, f func(ref *corev1.ObjectFieldSelector, at *field.Path)) {
	ofItems := func(items []corev1.DownwardAPIVolumeFile, at *field.Path) {
		for i := range items {
			if items[i].FieldRef != nil {
				f(items[i].FieldRef, at.Child("items").Index(i).Child("fieldRef"))
			}
		}
	}
	for i := range spec.Volumes {
		v, at := &spec.Volumes[i], path.Child("volumes").Index(i)
		if v.DownwardAPI != nil {
			ofItems(v.DownwardAPI.Items, at.Child("downwardAPI"))
		}
		if v.Projected == nil {
			continue
		}
		for j := range v.Projected.Sources {
			if source := v.Projected.Sources[j].DownwardAPI; source != nil {
				ofItems(source.Items, at.Child("projected", "sources").Index(j).Child("downwardAPI"))
			}
		}
	}
	eachContainer(spec, path, func(c *corev1.Container, at *field.Path) {
		for i := range c.Env {
			if from := c.Env[i].ValueFrom; from != nil && from.FieldRef != nil {
				f(from.FieldRef, at.Child("env").Index(i).Child("valueFrom", "fieldRef"))
			}
		}
	})
}

// eachContainer calls f for each container, with its path.
func eachContainer(spec *corev1.PodSpec, path *field.Path, f func(c *corev1.Container, at *field.Path)) {
	eachLasting(spec, path, f)
	eachEphemeral(spec, path, f)
}

// eachEphemeral calls f for each ephemeral container, with its path.
func eachEphemeral(spec *corev1.PodSpec, path *field.Path, f func(c *corev1.Container, at *field.Path)) {
	for i := range spec.EphemeralContainers {
		f((*corev1.Container)(&spec.EphemeralContainers[i].EphemeralContainerCommon), path.Child("ephemeralContainers").Index(i))
	}
}

// eachLasting calls f for each container but ephemeral ones, with its path.
func eachLasting(spec *corev1.PodSpec, path *field.Path, f func(c *corev1.Container, at *field.Path)) {
	for i := range spec.InitContainers {
		f(&spec.InitContainers[i], path.Child("initContainers").Index(i))
	}
	for i := range spec.Containers {
		f(&spec.Containers[i], path.Child("containers").Index(i))
	}
}

// redirect has the downward API of the host's pod read what the space's has, and returns the
// annotations that it reads.
func redirect(pod *corev1.Pod, spec *corev1.PodSpec) map[string]string {
	read := map[string]string{}
	eachFieldRef(spec, nil, func(ref *corev1.ObjectFieldSelector, _ *field.Path) {
		switch key, single := keyIn(ref.FieldPath, annotationsPath); {
		case ref.FieldPath == labelsPath:
			read[labelsAnnotation] = fieldpath.FormatMap(pod.Labels)
		case ref.FieldPath == annotationsPath:
			read[annotationsAnnotation] = fieldpath.FormatMap(pod.Annotations)
		case ref.FieldPath == "spec.serviceAccountName":
			read[accountAnnotation] = pod.Spec.ServiceAccountName
		case single:
			if value, ok := pod.Annotations[key]; ok {
				read[annotationOnHost(key)] = value
			}
		}
		ref.APIVersion = "v1"
		ref.FieldPath, _ = hostFieldPath(ref.FieldPath)
	})
	return read
}
