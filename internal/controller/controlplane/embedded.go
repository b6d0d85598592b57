package controlplane

import (
	"slices"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	applyappsv1 "k8s.io/client-go/applyconfigurations/apps/v1"
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"
	applymetav1 "k8s.io/client-go/applyconfigurations/meta/v1"

	"github.com/tenantry/tenantry/api/v1alpha1"
)

const (
	volumeName = "state"
	volumeDir  = "/var/lib/tenantry"
	// stateDir is below the volume's own directory, whose rights are the host's to say.
	stateDir = volumeDir + "/state"
	// databaseShare is the part of the volume that the database may have. The rest is for
	// its log, and for the copies that are made of it.
	databaseShare = 2
)

// statefulSet is the one server of a ControlPlane with an embedded etcd, and its volume.
func (r *Reconciler) statefulSet(w *work) (*applyappsv1.StatefulSetApplyConfiguration, error) {
	cp := w.cp
	configured, err := configurationArgs(w)
	if err != nil {
		return nil, err
	}
	marks := r.podLabels(cp, serversPart)
	args := []string{
		"up",
		"--dir=" + stateDir,
		"--pki-dir=" + pkiDir,
		"--bind-address=0.0.0.0",
		"--secure-port=" + strconv.Itoa(containerPort),
		"--etcd-quota-backend-bytes=" + strconv.FormatInt(cp.Spec.Storage.Embedded.Size.Value()/databaseShare, 10),
	}
	container := r.serverContainer(w, slices.Concat(args, tokenArgs(cp), connectArgs(w), configured)...).
		WithVolumeMounts(applycorev1.VolumeMount().WithName(volumeName).WithMountPath(volumeDir))
	template := applycorev1.PodTemplateSpec().WithLabels(marks).WithSpec(r.serverPod(cp, container))
	if err := configure(cp, template, w.configured.ofServers(cp)); err != nil {
		return nil, err
	}
	return applyappsv1.StatefulSet(cp.Name, cp.Namespace).WithLabels(marks).WithOwnerReferences(owner(cp)).
		WithSpec(applyappsv1.StatefulSetSpec().
			WithReplicas(replicas(cp)).
			WithServiceName(membersName(cp)).
			WithSelector(applymetav1.LabelSelector().WithMatchLabels(selectorOf(cp))).
			// A pod that cannot start does not keep the one that could from being made.
			WithPodManagementPolicy(appsv1.ParallelPodManagement).
			WithPersistentVolumeClaimRetentionPolicy(applyappsv1.StatefulSetPersistentVolumeClaimRetentionPolicy().
				WithWhenDeleted(appsv1.RetainPersistentVolumeClaimRetentionPolicyType).
				WithWhenScaled(appsv1.RetainPersistentVolumeClaimRetentionPolicyType)).
			WithTemplate(template).
			WithVolumeClaimTemplates(claim(cp))), nil
}

func claim(cp *v1alpha1.ControlPlane) *applycorev1.PersistentVolumeClaimApplyConfiguration {
	spec := applycorev1.PersistentVolumeClaimSpec().
		WithAccessModes(corev1.ReadWriteOnce).
		WithResources(applycorev1.VolumeResourceRequirements().WithRequests(corev1.ResourceList{
			corev1.ResourceStorage: cp.Spec.Storage.Embedded.Size,
		}))
	if class := cp.Spec.Storage.Embedded.StorageClassName; class != nil {
		spec.WithStorageClassName(*class)
	}
	// By its labels people find what is left of a ControlPlane.
	return (&applycorev1.PersistentVolumeClaimApplyConfiguration{}).WithName(volumeName).WithLabels(labelsOf(cp)).WithSpec(spec)
}
