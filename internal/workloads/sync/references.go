package sync

import (
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
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
	// naming has, for each, the names of the pods of its namespace that name it, or, of a certificate, of the Ingresses.
	// byItem is what each item of a pod or Ingress names.
	naming map[reference]sets.Set[string]
	byItem map[item][]reference
}

func newReferences() *references {
	return &references{naming: map[reference]sets.Set[string]{}, byItem: map[item][]reference{}}
}

// set notes what a pod or Ingress names, nil if it is gone, and returns what nobody has named before, or nobody names
// any more.
func (r *references) set(i item, now []reference) (changed []reference) {
	r.mu.Lock()
	defer r.mu.Unlock()
	before := r.byItem[i]
	for _, ref := range before {
		r.naming[ref].Delete(i.name)
	}
	for _, ref := range now {
		if r.naming[ref] == nil {
			r.naming[ref] = sets.Set[string]{}
			changed = append(changed, ref)
		}
		r.naming[ref].Insert(i.name)
	}
	for _, ref := range before {
		if by, named := r.naming[ref]; named && len(by) == 0 {
			delete(r.naming, ref)
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
	return len(r.naming[ref]) > 0
}

// namesOf returns the names of the pods, or Ingresses, that name something.
func (r *references) namesOf(ref reference) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.naming[ref].UnsortedList()
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
