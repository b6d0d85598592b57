package sync

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	storagehelpers "k8s.io/component-helpers/storage/volume"
	"k8s.io/kubernetes/pkg/controller/volume/common"

	"github.com/tenantry/tenantry/internal/tenant"
	"github.com/tenantry/tenantry/internal/workloads/names"
)

const (
	// byClaim indexes the pods of spaces by the claims that they name.
	byClaim = "workloads-claim"
	// byClass indexes the claims of spaces that have no volume yet by their classes.
	byClass = "workloads-class"
)

// classOf is the function of byClass.
func classOf(obj any) ([]string, error) {
	claim, ok := obj.(*corev1.PersistentVolumeClaim)
	if !ok || claim.Spec.VolumeName != "" {
		return nil, nil
	}
	return []string{tenant.Flatten(tenant.Flat(claim.Namespace).Space(), storagehelpers.GetPersistentVolumeClaimClass(claim)).String()}, nil
}

// enqueueClaimsOf has the claims looked at that a pod names: it may be the first one that does.
func (s *syncer) enqueueClaimsOf(pod *corev1.Pod) {
	if pod.Spec.NodeName != "" {
		return // it has had them
	}
	keys, err := common.PodPVCIndexFunc()(pod)
	if err != nil {
		return // it has none
	}
	for _, key := range keys {
		namespace, name, _ := strings.Cut(key, "/")
		s.queue.Add(itemFor(claimItem, tenant.Flat(namespace), name))
	}
}

func (s *syncer) claimChanged(obj any)         { s.enqueueObject(claimItem, obj) }
func (s *syncer) claimGone(obj any, seen bool) { s.enqueueGone(claimItem, obj, seen) }

// volumeChanged has the claim looked at to which a volume of a space belongs.
func (s *syncer) volumeChanged(obj any) {
	volume := obj.(*corev1.PersistentVolume)
	ref := volume.Spec.ClaimRef
	if n, ok := tenant.Flat(volume.Name).Tenant(); ok && ref != nil && volume.Annotations[names.HostUIDAnnotation] != "" {
		s.queue.Add(itemFor(claimItem, tenant.Flatten(n, ref.Namespace), ref.Name))
	}
}

// classChanged has the claims looked at that wait for a class.
func (s *syncer) classChanged(obj any) {
	name := obj.(*storagev1.StorageClass).Name
	s.queue.Add(item{kind: classItem, tenant: tenant.Flat(name).Space(), name: name})
}

// hostClaimChanged has a claim looked at, and the pods that wait for it.
func (s *syncer) hostClaimChanged(obj any) {
	n, name, ok := sourceOf(obj.(*corev1.PersistentVolumeClaim))
	if !ok {
		return
	}
	s.queue.Add(itemFor(claimItem, n.Flat(), name))
	s.queue.Add(itemFor(claimantsItem, n.Flat(), name))
}

func (s *syncer) hostClaimGone(obj any, _ bool) {
	s.hostClaimChanged(obj)
	s.enqueueHome(obj)
}
