package sync

import (
	"sync"

	corev1 "k8s.io/api/core/v1"

	"github.com/tenantry/tenantry/internal/workloads/translate"
)

// reference is a ConfigMap or Secret, by its flattened namespace.
type reference struct {
	kind            kind
	namespace, name string
}

// references say which ConfigMaps and Secrets live pods name.
type references struct {
	mu sync.Mutex
	// by are the pods that name each, ofPod is what each pod names.
	by    map[reference]int
	ofPod map[podName][]reference
}

type podName struct{ namespace, name string }

func newReferences() *references {
	return &references{by: map[reference]int{}, ofPod: map[podName][]reference{}}
}

// set notes what a pod names, nil if it is gone, and returns what was named before or is now.
func (r *references) set(p podName, now []reference) []reference {
	r.mu.Lock()
	defer r.mu.Unlock()
	before := r.ofPod[p]
	for _, ref := range now {
		r.by[ref]++
	}
	for _, ref := range before {
		if r.by[ref]--; r.by[ref] == 0 {
			delete(r.by, ref)
		}
	}
	if len(now) == 0 {
		delete(r.ofPod, p)
	} else {
		r.ofPod[p] = now
	}
	return before
}

// has reports whether a live pod names something.
func (r *references) has(ref reference) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.by[ref] > 0
}

// referencesOf returns what a pod names, if it is not at its end.
func referencesOf(pod *corev1.Pod) []reference {
	if pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
		return nil
	}
	var all []reference
	read := translate.ReferencesOf(&pod.Spec)
	for name := range read.ConfigMaps {
		all = append(all, reference{configMapItem, pod.Namespace, name})
	}
	for name := range read.Secrets {
		all = append(all, reference{secretItem, pod.Namespace, name})
	}
	return all
}
