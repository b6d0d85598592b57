package sync

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	storagehelpers "k8s.io/component-helpers/storage/volume"

	"github.com/tenantry/tenantry/internal/tenant"
	"github.com/tenantry/tenantry/internal/workloads/names"
	"github.com/tenantry/tenantry/internal/workloads/translate"
)

// bindClaim shows in the space the volume to which the host has bound a claim, and returns the claim with that, nil if
// there is something else in its place.
func (s *syncer) bindClaim(ctx context.Context, claim, host *corev1.PersistentVolumeClaim) (*corev1.PersistentVolumeClaim, error) {
	if name := names.Volume(claim.UID); claim.Spec.VolumeName != "" && claim.Spec.VolumeName != name {
		return nil, s.recordRefusal(ctx, claim, "spec.volumeName names another volume than the host cluster has given it; delete the claim, and make it again")
	}
	if shown, err := s.ensureVolume(ctx, claim, host); err != nil || !shown {
		return nil, err
	}
	if claim.Spec.VolumeName != "" {
		return claim, nil
	}
	bound, err := patchOne(ctx, s.spaces.CoreV1().PersistentVolumeClaims(claim.Namespace), claim.Name, claim.UID, map[string]any{
		"metadata": map[string]any{"annotations": map[string]string{
			names.HostUIDAnnotation: string(host.UID), storagehelpers.AnnBindCompleted: "yes", storagehelpers.AnnBoundByController: "yes",
		}},
		"spec": map[string]any{"volumeName": names.Volume(claim.UID)},
	})
	if err != nil {
		return nil, fmt.Errorf("binding the claim: %w", err)
	}
	return bound, nil
}

// ensureVolume makes the volume that a space is shown for a claim, and reports whether it is there.
func (s *syncer) ensureVolume(ctx context.Context, claim, host *corev1.PersistentVolumeClaim) (bool, error) {
	n, namespace := tenant.Flat(claim.Namespace).Split()
	name := tenant.Flatten(n, names.Volume(claim.UID)).String()
	shown, err := s.volumes.Get(name)
	if apierrors.IsNotFound(err) {
		shown, err = s.createVolume(ctx, name, namespace, claim, host)
	}
	if err != nil {
		return false, err
	}
	if !translate.IsVolumeOf(shown, claim, host) {
		return false, s.recordRefusal(ctx, claim, fmt.Sprintf("there is another PersistentVolume %q; delete it", names.Volume(claim.UID)))
	}
	if now, has := host.Status.Capacity[corev1.ResourceStorage], shown.Spec.Capacity[corev1.ResourceStorage]; now.Cmp(has) != 0 {
		grown := shown.DeepCopy()
		grown.Spec.Capacity = corev1.ResourceList{corev1.ResourceStorage: now}
		if shown, err = s.spaces.CoreV1().PersistentVolumes().Update(ctx, grown, metav1.UpdateOptions{}); err != nil {
			return false, fmt.Errorf("writing how large the volume is: %w", err)
		}
	}
	if shown.Status.Phase != corev1.VolumeBound {
		said := shown.DeepCopy()
		said.Status = corev1.PersistentVolumeStatus{Phase: corev1.VolumeBound}
		if _, err := s.spaces.CoreV1().PersistentVolumes().UpdateStatus(ctx, said, metav1.UpdateOptions{}); err != nil {
			return false, fmt.Errorf("writing the status of the volume: %w", err)
		}
	}
	return true, nil
}

// createVolume creates the volume that a space is shown, if the host's volume is the claim's as well, and returns what
// there is.
func (s *syncer) createVolume(ctx context.Context, name, namespace string, claim, host *corev1.PersistentVolumeClaim) (*corev1.PersistentVolume, error) {
	of, err := s.host.CoreV1().PersistentVolumes().Get(ctx, host.Spec.VolumeName, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("reading the host's volume: %w", err)
	}
	if ref := of.Spec.ClaimRef; ref == nil || ref.UID != host.UID {
		return nil, errors.New("the host's volume is not bound to the host's claim")
	}
	made, err := s.spaces.CoreV1().PersistentVolumes().Create(ctx, translate.Volume(name, claim, host, namespace, of.Spec.PersistentVolumeReclaimPolicy), metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		made, err = s.spaces.CoreV1().PersistentVolumes().Get(ctx, name, metav1.GetOptions{})
	}
	if isRefused(err) { // by its quota
		return nil, errors.Join(s.recordRefusal(ctx, claim, "the space does not take its PersistentVolume: "+err.Error()), err)
	}
	if err != nil {
		return nil, fmt.Errorf("showing the volume in the space: %w", err)
	}
	return made, nil
}

// removeVolume deletes the volume that a space is shown for a claim. One that is not ours stays.
func (s *syncer) removeVolume(ctx context.Context, n tenant.Name, claim types.UID) error {
	name := tenant.Flatten(n, names.Volume(claim)).String()
	shown, err := s.spaces.CoreV1().PersistentVolumes().Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("looking for the volume in the space: %w", err)
	}
	if shown.Annotations[names.HostUIDAnnotation] == "" {
		return nil
	}
	// pv-protection keeps it while it is bound.
	if shown.Status.Phase == corev1.VolumeBound {
		released := shown.DeepCopy()
		released.Status.Phase = corev1.VolumeReleased
		if shown, err = s.spaces.CoreV1().PersistentVolumes().UpdateStatus(ctx, released, metav1.UpdateOptions{}); err != nil {
			return fmt.Errorf("releasing the volume in the space: %w", err)
		}
	}
	if shown.DeletionTimestamp != nil {
		return nil
	}
	return deleteOne(ctx, s.spaces.CoreV1().PersistentVolumes(), "the volume in the space", shown, nil)
}

// patchHostClaim has the host give one claim so much storage, and no other one of its name.
func (s *syncer) patchHostClaim(ctx context.Context, claim, host *corev1.PersistentVolumeClaim, storage string) error {
	_, err := patchOne(ctx, s.host.CoreV1().PersistentVolumeClaims(host.Namespace), host.Name, host.UID, map[string]any{
		"spec": map[string]any{"resources": map[string]any{"requests": map[string]any{string(corev1.ResourceStorage): storage}}},
	})
	if isRefused(err) {
		return errors.Join(s.recordRefusal(ctx, claim, "the host cluster does not make the volume larger"), err)
	}
	if err != nil {
		return fmt.Errorf("making the host's volume larger: %w", err)
	}
	return nil
}
