package kubecontrollers

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/json"
	appsinformers "k8s.io/client-go/informers/apps/v1"
	coreinformers "k8s.io/client-go/informers/core/v1"
	appslisters "k8s.io/client-go/listers/apps/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/lru"

	"github.com/tenantry/tenantry/internal/process/memory"
	"github.com/tenantry/tenantry/internal/server/admission/spacepolicy"
	"github.com/tenantry/tenantry/internal/tenant"
)

// Numbers of objects in tenants' spaces are bounded when they are written (spacepolicy). An
// object that was stored before may have greater ones, with which a controller would end the
// process each time it starts. Such a controller does not see it until it is changed.

// isTenants reports whether a namespace, a resource or a kind is one of a tenant's space.
func isTenants(name string) bool {
	_, is := tenant.Flat(name).Tenant()
	return is
}

// smallSets are the StatefulSets whose replicas fit into memory.
type smallSets struct {
	appsinformers.StatefulSetInformer
	revisions appslisters.ControllerRevisionLister
	templates *lru.Cache // bytes of memory, by the UID of the revision
}

func newSmallSets(sets appsinformers.StatefulSetInformer, revisions appslisters.ControllerRevisionLister) smallSets {
	return smallSets{sets, revisions, lru.New(knownRevisions)}
}

// Informer implements appsinformers.StatefulSetInformer.
func (s smallSets) Informer() cache.SharedIndexInformer {
	return filtered{s.StatefulSetInformer.Informer(), s.isSmall}
}

// Lister implements appsinformers.StatefulSetInformer.
func (s smallSets) Lister() appslisters.StatefulSetLister {
	return appslisters.NewStatefulSetLister(s.Informer().GetIndexer())
}

const (
	// fewReplicas fit into memory whatever they are.
	fewReplicas = 8
	// maxReplicaBytes leaves room for what a replica is larger in other types than those in
	// which it was bounded.
	maxReplicaBytes = 2 * spacepolicy.MaxReplicaBytes
	// growth is more than how much larger a template usually is in memory than in JSON. What may be too large by it
	// is measured.
	growth = 4
)

// isSmall also looks at the template of the current revision: those of replicas below a
// partition are made of it.
func (s smallSets) isSmall(obj any) bool {
	set, ok := obj.(*appsv1.StatefulSet)
	if !ok || set.Spec.Replicas == nil || *set.Spec.Replicas <= fewReplicas || !isTenants(set.Namespace) {
		return ok
	}
	replicas := int(*set.Spec.Replicas)
	if replicas > spacepolicy.MaxReplicas ||
		replicas*spacepolicy.ReplicaBytes(set.Spec.Template, set.Spec.VolumeClaimTemplates, set.Spec.Selector) > maxReplicaBytes {
		return false
	}
	current, err := s.revisions.ControllerRevisions(set.Namespace).Get(set.Status.CurrentRevision)
	return err != nil || replicas*len(current.Data.Raw)*growth <= maxReplicaBytes ||
		replicas*(s.templateBytes(current)+spacepolicy.ReplicaBytes("", set.Spec.VolumeClaimTemplates, set.Spec.Selector)) <= maxReplicaBytes
}

// templateBytes reads the template in a revision to measure it, once: what is in a revision does not change.
func (s smallSets) templateBytes(revision *appsv1.ControllerRevision) int {
	if bytes, known := s.templates.Get(revision.UID); known {
		return bytes.(int)
	}
	var patch struct {
		Spec struct {
			Template corev1.PodTemplateSpec `json:"template"`
		} `json:"spec"`
	}
	bytes := maxReplicaBytes
	if json.Unmarshal(revision.Data.Raw, &patch) == nil {
		bytes = memory.Of(patch.Spec.Template)
	}
	s.templates.Add(revision.UID, bytes)
	return bytes
}

// madeRevisions are the ControllerRevisions that controllers have made. Others, of which the
// tenant's were stored before they were refused, would be applied without validation.
type madeRevisions struct {
	appsinformers.ControllerRevisionInformer
	made *lru.Cache // whether it is one that a controller makes, by UID: data does not change
}

func newMadeRevisions(informer appsinformers.ControllerRevisionInformer) madeRevisions {
	return madeRevisions{informer, lru.New(knownRevisions)}
}

// knownRevisions is of how many ControllerRevisions it is remembered what they are.
const knownRevisions = 10_000

// Informer implements appsinformers.ControllerRevisionInformer.
func (r madeRevisions) Informer() cache.SharedIndexInformer {
	return filtered{r.ControllerRevisionInformer.Informer(), r.isMade}
}

// Lister implements appsinformers.ControllerRevisionInformer.
func (r madeRevisions) Lister() appslisters.ControllerRevisionLister {
	return appslisters.NewControllerRevisionLister(r.Informer().GetIndexer())
}

func (r madeRevisions) isMade(obj any) bool {
	revision, ok := obj.(*appsv1.ControllerRevision)
	if !ok || !isTenants(revision.Namespace) {
		return ok
	}
	made, known := r.made.Get(revision.UID)
	if !known {
		made = spacepolicy.ReplacesTemplate(revision.Data.Raw)
		r.made.Add(revision.UID, made)
	}
	return made.(bool)
}

// smallServices are the Services whose ports may be multiplied by their pods.
type smallServices struct {
	coreinformers.ServiceInformer
}

// Informer implements coreinformers.ServiceInformer.
func (s smallServices) Informer() cache.SharedIndexInformer {
	return filtered{s.ServiceInformer.Informer(), func(obj any) bool {
		service, ok := obj.(*corev1.Service)
		return ok && (len(service.Spec.Ports) <= spacepolicy.MaxServicePorts || !isTenants(service.Namespace))
	}}
}

// Lister implements coreinformers.ServiceInformer.
func (s smallServices) Lister() corelisters.ServiceLister {
	return corelisters.NewServiceLister(s.Informer().GetIndexer())
}

// smallEndpoints are Endpoints without addresses where there are too many. They are there,
// so that the controller replaces them by those of the Service's pods.
type smallEndpoints struct {
	coreinformers.EndpointsInformer
}

// Informer implements coreinformers.EndpointsInformer.
func (e smallEndpoints) Informer() cache.SharedIndexInformer {
	return emptied{e.EndpointsInformer.Informer()}
}

// Lister implements coreinformers.EndpointsInformer.
func (e smallEndpoints) Lister() corelisters.EndpointsLister {
	return corelisters.NewEndpointsLister(e.Informer().GetIndexer())
}

// emptied is an informer whose indexer returns Endpoints with too many addresses without any, if it is
// asked for one.
type emptied struct{ cache.SharedIndexInformer }

// GetIndexer implements cache.SharedIndexInformer.
func (e emptied) GetIndexer() cache.Indexer {
	return emptiedIndexer{e.SharedIndexInformer.GetIndexer()}
}

type emptiedIndexer struct{ cache.Indexer }

// GetByKey implements cache.Store.
func (e emptiedIndexer) GetByKey(key string) (any, bool, error) {
	obj, exists, err := e.Indexer.GetByKey(key)
	if endpoints, ok := obj.(*corev1.Endpoints); ok && !isSmallEndpoints(endpoints) {
		empty := *endpoints
		empty.Subsets = nil
		obj = &empty
	}
	return obj, exists, err
}

func isSmallEndpoints(endpoints *corev1.Endpoints) bool {
	count := 0
	for _, s := range endpoints.Subsets {
		count += (len(s.Addresses) + len(s.NotReadyAddresses)) * max(1, len(s.Ports))
	}
	return count <= spacepolicy.MaxEndpoints || !isTenants(endpoints.Namespace)
}
