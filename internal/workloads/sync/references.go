package sync

import (
	"sync"

	corev1 "k8s.io/api/core/v1"
	podv1 "k8s.io/kubernetes/pkg/api/v1/pod"

	"github.com/tenantry/tenantry/internal/tenant"
	"github.com/tenantry/tenantry/internal/workloads/names"
	"github.com/tenantry/tenantry/internal/workloads/translate"
)

// reference is a ConfigMap or Secret of a space.
type reference struct {
	kind      kind
	namespace tenant.Flat
	name      string
}

// item returns the item of a copy.
func (r reference) item() item { return itemFor(r.kind, r.namespace, r.name) }

// references say which ConfigMaps and Secrets live pods name, and Ingresses that are on the host.
type references struct {
	mu sync.Mutex
	// counts is how many name each, byItem what each item of a pod or Ingress names.
	counts map[reference]int
	byItem map[item][]reference
}

func newReferences() *references {
	return &references{counts: map[reference]int{}, byItem: map[item][]reference{}}
}

// set notes what a pod or Ingress names, nil if it is gone, and returns what nobody has named before, or nobody names
// any more.
func (r *references) set(i item, now []reference) (changed []reference) {
	r.mu.Lock()
	defer r.mu.Unlock()
	before := r.byItem[i]
	for _, ref := range now {
		if r.counts[ref]++; r.counts[ref] == 1 {
			changed = append(changed, ref)
		}
	}
	for _, ref := range before {
		if r.counts[ref]--; r.counts[ref] == 0 {
			delete(r.counts, ref)
			changed = append(changed, ref)
		}
	}
	if len(now) == 0 {
		delete(r.byItem, i)
	} else {
		r.byItem[i] = now
	}
	return changed
}

// has reports whether something is named.
func (r *references) has(ref reference) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.counts[ref] > 0
}

// copyName returns the name of a copy on the host.
func (r reference) copyName() string {
	if r.kind == certificateItem {
		return names.Certificate(r.name)
	}
	return names.Copy(r.name)
}

// referencesOf returns what a pod names, if it is not at its end.
func referencesOf(pod *corev1.Pod) []reference {
	if podv1.IsPodTerminal(pod) {
		return nil
	}
	var all []reference
	read := translate.ReferencesOf(&pod.Spec)
	for name := range read.ConfigMaps {
		all = append(all, reference{configMapItem, tenant.Flat(pod.Namespace), name})
	}
	for name := range read.Secrets {
		all = append(all, reference{secretItem, tenant.Flat(pod.Namespace), name})
	}
	return all
}
