package translate

import (
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	podv1 "k8s.io/kubernetes/pkg/api/v1/pod"

	"github.com/tenantry/tenantry/internal/workloads/names"
)

// namesAnnotation has the names of a host's pod's containers, and after a slash those of its volumes, in a cache that
// has no more of its spec. A pod on the host has none.
const namesAnnotation = names.Prefix + "names"

// NoteNames notes the names of the containers and volumes of a host's pod, before its spec is dropped.
func NoteNames(host *corev1.Pod) {
	if len(host.Spec.Containers) == 0 {
		return // they have been noted
	}
	var containers, volumes []string
	podv1.VisitContainers(&host.Spec, podv1.AllContainers, func(c *corev1.Container, _ podv1.ContainerType) bool {
		containers = append(containers, c.Name)
		return true
	})
	for i := range host.Spec.Volumes {
		volumes = append(volumes, host.Spec.Volumes[i].Name)
	}
	if host.Annotations == nil {
		host.Annotations = map[string]string{}
	}
	host.Annotations[namesAnnotation] = strings.Join(containers, " ") + "/" + strings.Join(volumes, " ")
}

// addedTo returns the names of containers and volumes that a host's pod has, and its own does not: webhooks of the
// host, or its administrators, have added them. A volume that is called as a container of the tenant is one of them:
// what is said of it is not the tenant's.
func addedTo(host, pod *corev1.Pod) sets.Set[string] {
	containers, volumes, _ := strings.Cut(host.Annotations[namesAnnotation], "/")
	spec := &pod.Spec
	inits, lasting := len(spec.InitContainers), len(spec.InitContainers)+len(spec.Containers)
	all := addOthers(nil, containers, lasting+len(spec.EphemeralContainers), func(i int) string {
		switch {
		case i < inits:
			return spec.InitContainers[i].Name
		case i < lasting:
			return spec.Containers[i-inits].Name
		default:
			return names.Debugger(spec.EphemeralContainers[i-lasting].Name)
		}
	})
	return addOthers(all, volumes, len(spec.Volumes), func(i int) string { return spec.Volumes[i].Name })
}

// addOthers adds to a set the names of a host's pod that are none of its own. These are few, and mostly in their order.
func addOthers(to sets.Set[string], host string, count int, own func(int) string) sets.Set[string] {
	next := 0
	for name := range strings.FieldsSeq(host) {
		known := next < count && own(next) == name
		for i := 0; i < count && !known; i++ {
			if known = own(i) == name; known {
				next = i
			}
		}
		if known {
			next++
			continue
		}
		if to == nil {
			to = sets.New[string]()
		}
		to.Insert(name)
	}
	return to
}

// listOfNames is how a kubelet lists containers or volumes of a pod.
var listOfNames = regexp.MustCompile(`(?:containers with [a-z]+ status: |volumes=)\[[a-z0-9-]+(?: [a-z0-9-]+)*\]`)

// withoutAdded returns a text about a pod as a whole without names that its tenant is not to see. Only lists of names
// can do without.
func withoutAdded(text string, added sets.Set[string]) string {
	if !hasWordOf(text, added) {
		return text
	}
	text = listOfNames.ReplaceAllStringFunc(text, func(list string) string {
		before, listed, _ := strings.Cut(list, "[")
		own := slices.DeleteFunc(strings.Fields(strings.TrimSuffix(listed, "]")), added.Has)
		if len(own) == 0 {
			return list // it is about nothing of the tenant's
		}
		return before + "[" + strings.Join(own, " ") + "]"
	})
	if hasWordOf(text, added) {
		return notShown
	}
	return text
}

// hasWordOf reports whether a text has one of some names as a word.
func hasWordOf(text string, some sets.Set[string]) bool {
	if len(some) == 0 {
		return false
	}
	for word := range strings.FieldsFuncSeq(text, func(r rune) bool {
		return r != '-' && (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z')
	}) {
		if some.Has(word) {
			return true
		}
	}
	return false
}
