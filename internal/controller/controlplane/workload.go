package controlplane

import (
	"cmp"
	"context"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/intstr"
	applyappsv1 "k8s.io/client-go/applyconfigurations/apps/v1"
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"
	applymetav1 "k8s.io/client-go/applyconfigurations/meta/v1"
	applypolicyv1 "k8s.io/client-go/applyconfigurations/policy/v1"

	"github.com/tenantry/tenantry/api/v1alpha1"
)

const (
	// replicas is one, because the embedded etcd has one member.
	replicas = 1

	containerName = "tenantry"
	volumeName    = "state"
	pkiVolume     = "pki"
	volumeDir     = "/var/lib/tenantry"
	// stateDir is below the volume's own directory, whose rights are the host's to say.
	stateDir = volumeDir + "/state"
	pkiDir   = "/etc/tenantry/pki"

	// databaseShare is the part of the volume that the database may have. The rest is for
	// its log, and for the copies that are made of it.
	databaseShare = 2
	// gracePeriod is what a server gets to end, in seconds.
	gracePeriod = 60
)

// ensureAccount makes the account of the servers, which has no right and no token: they ask
// nothing of the host.
func (r *Reconciler) ensureAccount(ctx context.Context, w *work) error {
	account := applycorev1.ServiceAccount(w.cp.Name, w.cp.Namespace).WithLabels(labelsOf(w.cp)).WithOwnerReferences(owner(w.cp)).
		WithAutomountServiceAccountToken(false)
	return r.apply(ctx, w.cp, account, &corev1.ServiceAccount{})
}

// ensureBudget lets a drain move the one server, which is back in seconds, and refuses a
// second eviction before then.
func (r *Reconciler) ensureBudget(ctx context.Context, w *work) error {
	budget := applypolicyv1.PodDisruptionBudget(w.cp.Name, w.cp.Namespace).WithLabels(labelsOf(w.cp)).WithOwnerReferences(owner(w.cp)).
		WithSpec(applypolicyv1.PodDisruptionBudgetSpec().WithMaxUnavailable(intstr.FromInt32(1)).
			WithSelector(applymetav1.LabelSelector().WithMatchLabels(selectorOf(w.cp))))
	return r.apply(ctx, w.cp, budget, &policyv1.PodDisruptionBudget{})
}

// ensureServers makes the StatefulSet of the servers, if they are of a version that the
// operator knows.
func (r *Reconciler) ensureServers(ctx context.Context, w *work) error {
	if pinned := w.cp.Spec.Version; pinned != "" && pinned != r.Version {
		return problemf(v1alpha1.ReasonUnsupportedVersion, "spec.version is %s and this operator runs %s: "+
			"the servers stay as they are; leave spec.version out, or install the operator of that version", pinned, r.Version)
	}
	return r.apply(ctx, w.cp, r.statefulSet(w.cp), &appsv1.StatefulSet{})
}

func (r *Reconciler) statefulSet(cp *v1alpha1.ControlPlane) *applyappsv1.StatefulSetApplyConfiguration {
	marks := labelsOf(cp)
	marks[versionLabel] = r.Version
	return applyappsv1.StatefulSet(cp.Name, cp.Namespace).WithLabels(marks).WithOwnerReferences(owner(cp)).
		WithSpec(applyappsv1.StatefulSetSpec().
			WithReplicas(replicas).
			WithServiceName(membersName(cp)).
			WithSelector(applymetav1.LabelSelector().WithMatchLabels(selectorOf(cp))).
			// A pod that cannot start does not keep the one that could from being made.
			WithPodManagementPolicy(appsv1.ParallelPodManagement).
			WithPersistentVolumeClaimRetentionPolicy(applyappsv1.StatefulSetPersistentVolumeClaimRetentionPolicy().
				WithWhenDeleted(appsv1.RetainPersistentVolumeClaimRetentionPolicyType).
				WithWhenScaled(appsv1.RetainPersistentVolumeClaimRetentionPolicyType)).
			WithTemplate(applycorev1.PodTemplateSpec().WithLabels(marks).WithSpec(r.pod(cp))).
			WithVolumeClaimTemplates(claim(cp)))
}

// pod is what the Pod Security Standard "restricted" lets run, as any user but root.
func (r *Reconciler) pod(cp *v1alpha1.ControlPlane) *applycorev1.PodSpecApplyConfiguration {
	security := applycorev1.PodSecurityContext().WithRunAsNonRoot(true).
		WithSeccompProfile(applycorev1.SeccompProfile().WithType(corev1.SeccompProfileTypeRuntimeDefault))
	if r.fileGroup != nil {
		security.WithFSGroup(*r.fileGroup).WithFSGroupChangePolicy(corev1.FSGroupChangeOnRootMismatch)
	}
	return applycorev1.PodSpec().
		WithServiceAccountName(cp.Name).
		WithAutomountServiceAccountToken(false).
		WithEnableServiceLinks(false).
		WithTerminationGracePeriodSeconds(gracePeriod).
		WithSecurityContext(security).
		WithContainers(r.container(cp)).
		WithVolumes(applycorev1.Volume().WithName(pkiVolume).WithProjected(applycorev1.ProjectedVolumeSource().
			WithDefaultMode(0o440).
			WithSources(
				project(keysName(cp), clientCA+crt, clientCA+key, serviceAccount+key),
				project(servingName(cp), serverCA+crt, systemCA+crt, server+crt, server+key, frontProxyClient+crt, frontProxyClient+key))))
}

// project mounts some of a Secret.
func project(secret string, files ...string) *applycorev1.VolumeProjectionApplyConfiguration {
	source := applycorev1.SecretProjection().WithName(secret)
	for _, file := range files {
		source.WithItems(applycorev1.KeyToPath().WithKey(file).WithPath(file))
	}
	return applycorev1.VolumeProjection().WithSecret(source)
}

func (r *Reconciler) container(cp *v1alpha1.ControlPlane) *applycorev1.ContainerApplyConfiguration {
	return applycorev1.Container().
		WithName(containerName).
		WithImage(cmp.Or(cp.Spec.Pod.Image, r.Image)).
		WithArgs("up",
			"--dir="+stateDir,
			"--pki-dir="+pkiDir,
			"--bind-address=0.0.0.0",
			"--secure-port="+strconv.Itoa(containerPort),
			"--etcd-quota-backend-bytes="+strconv.FormatInt(cp.Spec.Storage.Embedded.Size.Value()/databaseShare, 10)).
		WithPorts(applycorev1.ContainerPort().WithName(portName).WithProtocol(corev1.ProtocolTCP).WithContainerPort(containerPort)).
		// A start takes as long as there is to read, half an hour at most.
		WithStartupProbe(probe("/readyz").WithPeriodSeconds(2).WithFailureThreshold(900)).
		WithReadinessProbe(probe("/readyz").WithPeriodSeconds(5)).
		WithLivenessProbe(probe("/livez").WithPeriodSeconds(10).WithFailureThreshold(6)).
		WithResources(resources(cp.Spec.Pod.Resources)).
		// What a server says at its end is in the status of the ControlPlane.
		WithTerminationMessagePolicy(corev1.TerminationMessageFallbackToLogsOnError).
		WithSecurityContext(applycorev1.SecurityContext().
			WithAllowPrivilegeEscalation(false).
			WithReadOnlyRootFilesystem(true).
			WithCapabilities(applycorev1.Capabilities().WithDrop("ALL"))).
		WithVolumeMounts(
			applycorev1.VolumeMount().WithName(volumeName).WithMountPath(volumeDir),
			applycorev1.VolumeMount().WithName(pkiVolume).WithMountPath(pkiDir).WithReadOnly(true))
}

func probe(path string) *applycorev1.ProbeApplyConfiguration {
	return applycorev1.Probe().WithHTTPGet(applycorev1.HTTPGetAction().
		WithScheme(corev1.URISchemeHTTPS).WithPort(intstr.FromString(portName)).WithPath(path))
}

// resources are those of the spec, as a whole, or the default.
func resources(chosen *v1alpha1.ControlPlaneResources) *applycorev1.ResourceRequirementsApplyConfiguration {
	if chosen == nil {
		chosen = &v1alpha1.ControlPlaneResources{
			Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("500m"), corev1.ResourceMemory: resource.MustParse("1Gi")},
			Limits:   corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("4Gi")},
		}
	}
	r := applycorev1.ResourceRequirements()
	if len(chosen.Requests) > 0 {
		r.WithRequests(chosen.Requests)
	}
	if len(chosen.Limits) > 0 {
		r.WithLimits(chosen.Limits)
	}
	return r
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
