package sync

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/component-helpers/storage/ephemeral"
	storagehelpers "k8s.io/component-helpers/storage/volume"
	podv1 "k8s.io/kubernetes/pkg/api/v1/pod"
	"k8s.io/utils/ptr"

	"github.com/tenantry/tenantry/internal/objects"
	"github.com/tenantry/tenantry/internal/tenant"
	"github.com/tenantry/tenantry/internal/workloads/names"
	"github.com/tenantry/tenantry/internal/workloads/translate"
)

// syncClaim makes the host's PersistentVolumeClaim what the space's asks for, and the space's what the host's says. The
// host's claim exists only while the space's has names.ClaimFinalizer.
func (s *syncer) syncClaim(ctx context.Context, i item) error {
	claim, all, err := sides(i, s.claims.PersistentVolumeClaims(i.namespace.String()).Get, s.hostCaches.claimsOf)
	if err != nil {
		return err
	}
	host, removed, err := counterpart(s, "claim", claim, all, func(orphan *corev1.PersistentVolumeClaim) error { return s.removeClaim(ctx, i, orphan) })
	if err != nil {
		return err
	}
	switch {
	case claim == nil:
		s.writeBudgets.drop(i)
	case claim.DeletionTimestamp != nil:
		err = s.endClaim(ctx, claim, host)
	case host != nil:
		err = s.followClaim(ctx, claim, host)
	case claim.Spec.VolumeName != "":
		err = s.lostClaim(ctx, claim)
	default:
		err = s.placeClaim(ctx, claim)
	}
	return errors.Join(removed, err)
}

// sourceTime is how long a claim waits before it is looked again whether there is what it is to be a copy of.
const sourceTime = 30 * time.Second

// placeClaim creates the host's claim, if something needs it: a pod, or a class that binds at once. One for a pod to
// come would be there for nobody. Where a class waits for a pod, the host's waits for the host's pod, which names it.
func (s *syncer) placeClaim(ctx context.Context, claim *corev1.PersistentVolumeClaim) error {
	if errs := translate.CheckClaim(&claim.Spec, field.NewPath("spec")); len(errs) > 0 {
		return s.recordRefusal(ctx, claim, errs.ToAggregate().Error())
	}
	class, why, err := s.publishedClass(claim)
	if err != nil {
		return err
	}
	if class == nil {
		return s.recordRefusal(ctx, claim, why)
	}
	if mode := class.VolumeBindingMode; mode != nil && *mode == storagev1.VolumeBindingWaitForFirstConsumer {
		if named, err := s.isNamed(claim); err != nil || !named {
			return err
		}
	}
	if why, err := s.missingSource(claim); err != nil {
		return err
	} else if why != "" {
		s.queue.AddAfter(itemOf(claimItem, claim), sourceTime)
		return s.recordRefusal(ctx, claim, why)
	}
	home, t, err := s.homeOf(tenant.Flat(claim.Namespace))
	if err != nil {
		return err
	}
	if _, err = s.ensureHome(ctx, home, t, func(why string) error { return s.recordRefusal(ctx, claim, why) }); err != nil {
		return err
	}
	// First, so that nothing is on the host that the space's claim could leave behind.
	if !slices.Contains(claim.Finalizers, names.ClaimFinalizer) {
		held := claim.DeepCopy()
		held.Finalizers = append(held.Finalizers, names.ClaimFinalizer)
		if claim, err = s.spaces.CoreV1().PersistentVolumeClaims(claim.Namespace).Update(ctx, held, metav1.UpdateOptions{}); err != nil {
			return fmt.Errorf("holding the claim: %w", err)
		}
	}
	return s.createClaim(ctx, claim, home)
}

// missingSource returns why a claim cannot be a copy of what it is to be, empty if it can, or is none. Who writes a
// block device, and has it mounted as a file system, would choose what the kernel of a node reads.
func (s *syncer) missingSource(claim *corev1.PersistentVolumeClaim) (string, error) {
	source := claim.Spec.DataSource
	if source == nil {
		return "", nil
	}
	if found, err := s.claimOnHost(tenant.Flat(claim.Namespace), source.Name); err != nil || found == nil {
		return fmt.Sprintf("spec.dataSource: the host cluster has no volume of the claim %q to copy", source.Name), err
	}
	of, err := s.claims.PersistentVolumeClaims(claim.Namespace).Get(source.Name)
	if err != nil {
		return "", err
	}
	const usual = corev1.PersistentVolumeFilesystem
	if ptr.Deref(of.Spec.VolumeMode, usual) != ptr.Deref(claim.Spec.VolumeMode, usual) {
		return fmt.Sprintf("spec.volumeMode is another one than that of the claim %q, of which it is to be a copy; make it again with the same", source.Name), nil
	}
	return "", nil
}

func (s *syncer) createClaim(ctx context.Context, claim *corev1.PersistentVolumeClaim, home names.Namespace) error {
	wanted := translate.Claim(claim, home)
	if s.postponeSmall(itemOf(claimItem, claim), wanted, len(wanted.Spec.Resources.Requests)+len(wanted.Spec.Resources.Limits), writesOfClaim) {
		return nil
	}
	client := s.host.CoreV1().PersistentVolumeClaims(wanted.Namespace)
	_, err := client.Create(ctx, wanted, metav1.CreateOptions{FieldManager: fieldManager})
	switch {
	case apierrors.IsAlreadyExists(err):
		_, err = existing(ctx, client, "claim", claim, home)
		if errors.As(err, new(errTaken)) {
			err = errors.Join(s.recordRefusal(ctx, claim, err.Error()), err) // tried again, because nothing says that it is gone
		}
		return err
	case isRefused(err):
		return errors.Join(s.recordRefusal(ctx, claim, notTaken(err, home)), err)
	case err != nil:
		return fmt.Errorf("creating the host's claim: %w", err)
	}
	return nil
}

// publishedClass returns the class of a claim, if the platform has published it: the host has one of the same name. why
// is for who made the claim.
func (s *syncer) publishedClass(claim *corev1.PersistentVolumeClaim) (class *storagev1.StorageClass, why string, err error) {
	name := storagehelpers.GetPersistentVolumeClaimClass(claim)
	if name == "" {
		return nil, "it has no class, and there was no default one when it was made; make it again, with a class that is published", nil
	}
	class, err = s.classes.Get(tenant.Flatten(tenant.Flat(claim.Namespace).Space(), name).String())
	switch {
	case apierrors.IsNotFound(err):
		return nil, fmt.Sprintf("there is no StorageClass %q; name one that is published", name), nil
	case err != nil:
		return nil, "", err
	case class.Labels[tenant.PublishedCopyLabel] == "":
		return nil, fmt.Sprintf("the StorageClass %q is your own, and says nothing to the host cluster; name one that is published", name), nil
	}
	return class, "", nil
}

// isNamed reports whether a pod that is to run names a claim.
func (s *syncer) isNamed(claim *corev1.PersistentVolumeClaim) (bool, error) {
	pods, err := s.podsNaming(tenant.Flat(claim.Namespace), claim.Name)
	return slices.ContainsFunc(pods, func(pod *corev1.Pod) bool {
		return !podv1.IsPodTerminal(pod) && pod.DeletionTimestamp == nil && len(pod.Spec.SchedulingGates) == 0
	}), err
}

// podsNaming returns the pods of a space that name a claim, also by an ephemeral volume.
func (s *syncer) podsNaming(namespace tenant.Flat, name string) ([]*corev1.Pod, error) {
	return objects.Indexed[*corev1.Pod](s.podIndexer, byClaim, sourceKey(namespace, name))
}

// claimOnHost returns the host's claim for one of a space, nil if it has none that is to stay.
func (s *syncer) claimOnHost(namespace tenant.Flat, name string) (*corev1.PersistentVolumeClaim, error) {
	claim, err := orNil(s.claims.PersistentVolumeClaims(namespace.String()).Get(name))
	if err != nil || claim == nil || claim.DeletionTimestamp != nil {
		return nil, err
	}
	all, err := s.hostCaches.claimsOf(namespace, name)
	if err != nil {
		return nil, err
	}
	for _, host := range all {
		if uidOf(host) == claim.UID && host.DeletionTimestamp == nil && s.isAtHome(host) {
			return host, nil
		}
	}
	return nil, nil
}

// missingClaim returns which claim of a pod is not on the host as it is to be, empty if all are.
func (s *syncer) missingClaim(pod *corev1.Pod) (string, error) {
	for i := range pod.Spec.Volumes {
		v := &pod.Spec.Volumes[i]
		name := ""
		switch {
		case v.PersistentVolumeClaim != nil:
			name = v.PersistentVolumeClaim.ClaimName
		case v.Ephemeral != nil:
			name = ephemeral.VolumeClaimName(pod, v)
			if claim, err := s.claims.PersistentVolumeClaims(pod.Namespace).Get(name); err == nil && ephemeral.VolumeIsForPod(pod, claim) != nil {
				return fmt.Sprintf("persistentvolumeclaim %q was not created for the pod", name), nil
			}
		default:
			continue
		}
		if found, err := s.claimOnHost(tenant.Flat(pod.Namespace), name); err != nil || found == nil {
			return fmt.Sprintf("persistentvolumeclaim %q is not on the host cluster", name), err
		}
	}
	return "", nil
}

// claimTime is how long a pod waits for its claims before an event says so: most are made in less.
const claimTime = 5 * time.Second

// awaitClaims reports whether a pod waits for its claims: a host's pod gets whatever has the name of a claim there, so
// what has it must be ours before. When the host has them, the pod is looked at again.
func (s *syncer) awaitClaims(ctx context.Context, pod *corev1.Pod) (bool, error) {
	why, err := s.missingClaim(pod)
	if err != nil || why == "" {
		return false, err
	}
	if left := claimTime - s.clock.Since(pod.CreationTimestamp.Time); left > 0 {
		s.queue.AddAfter(itemOf(podItem, pod), left)
		return true, nil
	}
	return true, s.unscheduled(ctx, pod, corev1.PodReasonUnschedulable, why)
}

// followClaim takes the growth of a claim to the host, and its volume and status into the space.
func (s *syncer) followClaim(ctx context.Context, claim, host *corev1.PersistentVolumeClaim) error {
	if host.DeletionTimestamp != nil {
		return s.recordRefusal(ctx, claim, "somebody deletes its volume on the host cluster")
	}
	err := s.growClaim(ctx, claim, host)
	if host.Status.Phase != corev1.ClaimBound {
		return errors.Join(err, s.putClaimStatus(ctx, claim, host))
	}
	bound, bindErr := s.bindClaim(ctx, claim, host)
	if bindErr != nil || bound == nil {
		return errors.Join(err, bindErr)
	}
	return errors.Join(err, s.putClaimStatus(ctx, bound, host))
}

// growClaim has the host make a volume larger. None becomes smaller: a quota would count less than there is.
func (s *syncer) growClaim(ctx context.Context, claim, host *corev1.PersistentVolumeClaim) error {
	wanted, has := claim.Spec.Resources.Requests[corev1.ResourceStorage], host.Spec.Resources.Requests[corev1.ResourceStorage]
	if wanted.Cmp(has) <= 0 || s.postponeResize(itemOf(claimItem, claim), writesOfClaim*host.Size()) {
		return nil
	}
	return s.patchHostClaim(ctx, claim, host, wanted.String())
}

// putClaimStatus writes what the host says of a claim.
func (s *syncer) putClaimStatus(ctx context.Context, claim, host *corev1.PersistentVolumeClaim) error {
	return s.setClaimStatus(ctx, claim, translate.ClaimStatus(host, claim))
}

func (s *syncer) setClaimStatus(ctx context.Context, claim *corev1.PersistentVolumeClaim, status corev1.PersistentVolumeClaimStatus) error {
	if equality.Semantic.DeepEqual(claim.Status, status) {
		return nil
	}
	said := claim.DeepCopy()
	said.Status = status
	if _, err := s.spaces.CoreV1().PersistentVolumeClaims(claim.Namespace).UpdateStatus(ctx, said, metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("writing the status of the claim: %w", err)
	}
	return nil
}

// lostClaim says that the volume of a claim is gone. Another one would be empty, so that none is made.
func (s *syncer) lostClaim(ctx context.Context, claim *corev1.PersistentVolumeClaim) error {
	if there, err := s.isClaimOnHost(ctx, claim); err != nil || there {
		return err
	}
	status := *claim.Status.DeepCopy()
	status.Phase = corev1.ClaimLost
	return errors.Join(s.setClaimStatus(ctx, claim, status), s.recordRefusal(ctx, claim, "its volume is not on the host cluster, and no other one is made in its place"))
}

func (s *syncer) isClaimOnHost(ctx context.Context, claim *corev1.PersistentVolumeClaim) (bool, error) {
	home, _, err := s.homeOf(tenant.Flat(claim.Namespace))
	if err != nil {
		return false, err
	}
	return isOnHost(ctx, s.host.CoreV1().PersistentVolumeClaims(home.Host()), "claim", claim, home)
}

// endClaim has the host's claim go with the space's, once nothing else keeps that, and lets the space's go when it has.
func (s *syncer) endClaim(ctx context.Context, claim, host *corev1.PersistentVolumeClaim) error {
	if !slices.Equal(claim.Finalizers, []string{names.ClaimFinalizer}) {
		return nil // a pod uses it, or somebody else waits; without ours, the host has none
	}
	if host != nil {
		return s.deleteHostClaim(ctx, host)
	}
	if there, err := s.isClaimOnHost(ctx, claim); err != nil || there {
		return err
	}
	if err := s.removeVolume(ctx, tenant.Flat(claim.Namespace).Space(), claim.UID); err != nil {
		return err
	}
	free := claim.DeepCopy()
	free.Finalizers = nil
	_, err := s.spaces.CoreV1().PersistentVolumeClaims(claim.Namespace).Update(ctx, free, metav1.UpdateOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("letting the claim go: %w", err)
	}
	return nil
}

// removeClaim deletes a claim of the host whose own is gone. The finalizer keeps that from going first, unless an
// administrator has taken it away: if nobody saw that, it is another etcd or an old backup, and what is stored stays.
func (s *syncer) removeClaim(ctx context.Context, i item, host *corev1.PersistentVolumeClaim) error {
	uid := uidOf(host)
	if err := confirmGone(ctx, s.spaces.CoreV1().PersistentVolumeClaims(i.namespace.String()), "claim", i.name, uid); err != nil {
		return err
	}
	if _, seen := s.deleted.of(uid); !seen {
		return fmt.Errorf("the host's claim %s/%s is of one that is not in its space, and that nobody was seen to delete: what it has stored stays, "+
			"until whoever administers the host deletes it", host.Namespace, host.Name)
	}
	return errors.Join(s.deleteHostClaim(ctx, host), s.removeVolume(ctx, i.tenant, uid))
}

// deleteHostClaim deletes a claim of the host.
func (s *syncer) deleteHostClaim(ctx context.Context, host *corev1.PersistentVolumeClaim) error {
	if host.DeletionTimestamp != nil {
		return nil // a pod of the host uses it
	}
	return deleteOne(ctx, s.host.CoreV1().PersistentVolumeClaims(host.Namespace), "the host's claim", host, nil)
}
