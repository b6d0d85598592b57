package kubecontrollers

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/json"
	appsinformers "k8s.io/client-go/informers/apps/v1"
	coreinformers "k8s.io/client-go/informers/core/v1"
	appslisters "k8s.io/client-go/listers/apps/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
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

// smallSets returns the StatefulSets whose replicas fit into memory.
func smallSets(sets appsinformers.StatefulSetInformer, revisions appslisters.ControllerRevisionLister) offered[appslisters.StatefulSetLister] {
	return offeredOnly(sets.Informer(), appslisters.NewStatefulSetLister, measured{revisions, lru.New(knownRevisions)}.isSmall)
}

// measured knows how large the replicas of StatefulSets are.
type measured struct {
	revisions appslisters.ControllerRevisionLister
	templates *lru.Cache // bytes of memory, by the UID of the revision
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
func (m measured) isSmall(set *appsv1.StatefulSet) bool {
	if set.Spec.Replicas == nil || *set.Spec.Replicas <= fewReplicas || !isTenants(set.Namespace) {
		return true
	}
	replicas := int(*set.Spec.Replicas)
	if replicas > spacepolicy.MaxReplicas ||
		replicas*spacepolicy.ReplicaBytes(set.Spec.Template, set.Spec.VolumeClaimTemplates, set.Spec.Selector) > maxReplicaBytes {
		return false
	}
	current, err := m.revisions.ControllerRevisions(set.Namespace).Get(set.Status.CurrentRevision)
	return err != nil || replicas*len(current.Data.Raw)*growth <= maxReplicaBytes ||
		replicas*(m.templateBytes(current)+spacepolicy.ReplicaBytes("", set.Spec.VolumeClaimTemplates, set.Spec.Selector)) <= maxReplicaBytes
}

// templateBytes reads the template in a revision to measure it, once: what is in a revision does not change.
func (m measured) templateBytes(revision *appsv1.ControllerRevision) int {
	if bytes, known := m.templates.Get(revision.UID); known {
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
	m.templates.Add(revision.UID, bytes)
	return bytes
}

// knownRevisions is of how many ControllerRevisions it is remembered what they are.
const knownRevisions = 10_000

// madeRevisions returns the ControllerRevisions that controllers have made. Others, of which the
// tenant's were stored before they were refused, would be applied without validation.
func madeRevisions(informer appsinformers.ControllerRevisionInformer) offered[appslisters.ControllerRevisionLister] {
	known := lru.New(knownRevisions) // whether it is one that a controller makes, by UID: data does not change
	return offeredOnly(informer.Informer(), appslisters.NewControllerRevisionLister, func(revision *appsv1.ControllerRevision) bool {
		if !isTenants(revision.Namespace) {
			return true
		}
		made, is := known.Get(revision.UID)
		if !is {
			made = spacepolicy.ReplacesTemplate(revision.Data.Raw)
			known.Add(revision.UID, made)
		}
		return made.(bool)
	})
}

// smallServices returns the Services whose ports may be multiplied by their pods.
func smallServices(informer coreinformers.ServiceInformer) offered[corelisters.ServiceLister] {
	return offeredOnly(informer.Informer(), corelisters.NewServiceLister, func(service *corev1.Service) bool {
		return len(service.Spec.Ports) <= spacepolicy.MaxServicePorts || !isTenants(service.Namespace)
	})
}

// smallEndpoints returns Endpoints without addresses where there are too many. They are there,
// so that the controller replaces them by those of the Service's pods.
func smallEndpoints(informer coreinformers.EndpointsInformer) offered[corelisters.EndpointsLister] {
	small := mapped[*corev1.Endpoints]{informer.Informer(), func(endpoints *corev1.Endpoints) *corev1.Endpoints {
		if isSmallEndpoints(endpoints) {
			return endpoints
		}
		empty := *endpoints
		empty.Subsets = nil
		return &empty
	}}
	return offered[corelisters.EndpointsLister]{small, corelisters.NewEndpointsLister(small.GetIndexer())}
}

func isSmallEndpoints(endpoints *corev1.Endpoints) bool {
	count := 0
	for _, s := range endpoints.Subsets {
		count += (len(s.Addresses) + len(s.NotReadyAddresses)) * max(1, len(s.Ports))
	}
	return count <= spacepolicy.MaxEndpoints || !isTenants(endpoints.Namespace)
}
