package held

import (
	"encoding/json"
	"slices"

	corev1 "k8s.io/api/core/v1"
	quota "k8s.io/apiserver/pkg/quota/v1"

	"github.com/tenantry/tenantry/internal/workloads/names"
)

// Annotation is on a pod of a space that was resized to less, with a Note. The server writes it, and nobody else.
const Annotation = names.Prefix + "held"

// Note is what is noted on a pod.
type Note struct {
	// Generation is that in which the pod was last resized to less, 0 if it never was. Resources that it asks for after
	// that may be those that it asked for once before, and are another request.
	Generation int64 `json:"generation"`
	// Resources are what it may still hold of what it asked for before. They are gone when the host has made the resize.
	Resources Resources `json:"resources,omitempty"`
}

// Resources are what the containers of a pod ask for, by their names. What the pod itself asks for has no name.
type Resources map[string]corev1.ResourceRequirements

// Parse returns what is noted in the annotations of a pod, the zero value if nothing is, or nothing that can be read.
func Parse(annotations map[string]string) (n Note) {
	text := annotations[Annotation]
	if text == "" { // as that of most pods, which are looked at all the time
		return Note{}
	}
	if err := json.Unmarshal([]byte(text), &n); err != nil {
		return Note{}
	}
	return n
}

// Text returns what Parse reads, empty of the zero value.
func (n Note) Text() (string, error) {
	if n.Generation == 0 {
		return "", nil
	}
	text, err := json.Marshal(n)
	return string(text), err
}

// IsLess reports whether anything that was asked for before is less now.
func (r Resources) IsLess(before Resources) bool {
	for name, was := range before {
		if is := r[name]; isLess(is.Requests, was.Requests) || isLess(is.Limits, was.Limits) {
			return true
		}
	}
	return false
}

func isLess(now, before corev1.ResourceList) bool {
	for name, was := range before {
		if is, ok := now[name]; !ok || is.Cmp(was) < 0 {
			return true
		}
	}
	return false
}

// Add has r be at least as much as other.
func (r Resources) Add(other Resources) {
	for name, more := range other {
		r[name] = atLeast(r[name], more)
	}
}

func atLeast(asked, held corev1.ResourceRequirements) corev1.ResourceRequirements {
	asked.Requests, asked.Limits = quota.Max(asked.Requests, held.Requests), quota.Max(asked.Limits, held.Limits)
	return asked
}

// Counted returns a pod as quotas are to count it: it asks for all that is noted.
func Counted(pod *corev1.Pod) *corev1.Pod {
	noted := Parse(pod.Annotations).Resources
	if len(noted) == 0 {
		return pod
	}
	counted := *pod
	for _, containers := range []*[]corev1.Container{&counted.Spec.InitContainers, &counted.Spec.Containers} {
		*containers = slices.Clone(*containers)
		for i := range *containers {
			c := &(*containers)[i]
			if held, ok := noted[c.Name]; ok {
				c.Resources = atLeast(c.Resources, held)
			}
		}
	}
	if held, ok := noted[""]; ok {
		var asked corev1.ResourceRequirements
		if pod.Spec.Resources != nil {
			asked = *pod.Spec.Resources
		}
		asked = atLeast(asked, held)
		counted.Spec.Resources = &asked
	}
	return &counted
}

// IsMade reports whether a pod's status says that its node has made all that the pod asks for, or that it holds
// nothing. Of what it asked for before, the status shows what it still holds. Its resources are no sign of that: of a
// pod whose phase is Pending they are what the node is about to give it.
func IsMade(pod *corev1.Pod) bool {
	if pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
		return true
	}
	return pod.Status.ObservedGeneration >= pod.Generation && !slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return (c.Type == corev1.PodResizeInProgress || c.Type == corev1.PodResizePending) && c.Status == corev1.ConditionTrue
	})
}
