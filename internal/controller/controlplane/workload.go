package controlplane

import (
	"cmp"
	"context"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/intstr"
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"
	applymetav1 "k8s.io/client-go/applyconfigurations/meta/v1"
	applypolicyv1 "k8s.io/client-go/applyconfigurations/policy/v1"
	"k8s.io/utils/ptr"

	"github.com/tenantry/tenantry/api/v1alpha1"
	"github.com/tenantry/tenantry/internal/controller/conditions"
)

const (
	// defaultReplicas is the number of servers on an external etcd: one can end, and the
	// other goes on.
	defaultReplicas = 2

	containerName = "tenantry"
	pkiVolume     = "pki"
	pkiDir        = "/etc/tenantry/pki"

	// hostTokenDir is where client-go looks for the token of a pod's ServiceAccount.
	hostTokenVolume = "host-token"
	hostTokenDir    = "/var/run/secrets/kubernetes.io/serviceaccount"
	// hostTokenSeconds is how long such a token lives. Kubelets renew it in time.
	hostTokenSeconds = 3600

	// gracePeriod is what a pod gets to end, in seconds: a server answers for shutdownDelay,
	// and then what it has begun, for a minute at most.
	gracePeriod = 90
)

// replicas is the number of servers of a ControlPlane.
func replicas(cp *v1alpha1.ControlPlane) int32 {
	if cp.Spec.Storage.Etcd == nil { // the embedded one has one member
		return 1
	}
	return ptr.Deref(cp.Spec.Replicas, defaultReplicas)
}

// ensureAccount makes the account of the pods, which has no right and no token: they ask
// nothing of the host, but for those that run pods of spaces there.
func (r *Reconciler) ensureAccount(ctx context.Context, w *work) error {
	return r.applyAccount(ctx, w.cp, w.cp.Name)
}

// applyAccount makes a ServiceAccount. Pods have its token if they ask for it.
func (r *Reconciler) applyAccount(ctx context.Context, cp *v1alpha1.ControlPlane, name string) error {
	account := applycorev1.ServiceAccount(name, cp.Namespace).WithLabels(labelsOf(cp)).WithOwnerReferences(owner(cp)).
		WithAutomountServiceAccountToken(false)
	return r.apply(ctx, cp, account, &corev1.ServiceAccount{})
}

// ensureBudget lets a drain move one server after the other.
func (r *Reconciler) ensureBudget(ctx context.Context, w *work) error {
	return r.applyBudget(ctx, w.cp, w.cp.Name, serversPart)
}

// applyBudget lets one pod of a part be evicted, and refuses a second eviction until it is
// back.
func (r *Reconciler) applyBudget(ctx context.Context, cp *v1alpha1.ControlPlane, name, part string) error {
	budget := applypolicyv1.PodDisruptionBudget(name, cp.Namespace).WithLabels(labelsOfPart(cp, part)).WithOwnerReferences(owner(cp)).
		WithSpec(applypolicyv1.PodDisruptionBudgetSpec().WithMaxUnavailable(intstr.FromInt32(1)).
			WithSelector(applymetav1.LabelSelector().WithMatchLabels(selectorOfPart(cp, part))))
	return r.apply(ctx, cp, budget, &policyv1.PodDisruptionBudget{})
}

// ensureServers makes the servers, if they are of a version that the operator knows.
func (r *Reconciler) ensureServers(ctx context.Context, w *work) error {
	if pinned := w.cp.Spec.Version; pinned != "" && pinned != r.Version {
		return conditions.Problemf(v1alpha1.ReasonUnsupportedVersion, "spec.version is %s and this operator runs %s: "+
			"the servers stay as they are; leave spec.version out, or install the operator of that version", pinned, r.Version)
	}
	if w.cp.Spec.Storage.Etcd == nil {
		desired, err := r.statefulSet(w)
		if err != nil {
			return err
		}
		live := &appsv1.StatefulSet{}
		if err := r.apply(ctx, w.cp, desired, live); err != nil {
			return err
		}
		w.serversSettled = ptr.Deref(desired.Generation, 0) == live.Generation && ofStatefulSet(live).settled()
		return nil
	}
	desired, err := r.serversOnEtcd(w)
	if err != nil {
		return err
	}
	live := &appsv1.Deployment{}
	if err := r.apply(ctx, w.cp, desired, live); err != nil {
		return err
	}
	w.serversSettled = ptr.Deref(desired.Generation, 0) == live.Generation && ofDeployment(live).settled()
	return nil
}

// podLabels are those of the pods of a part, by which their version is known.
func (r *Reconciler) podLabels(cp *v1alpha1.ControlPlane, part string) map[string]string {
	marks := labelsOfPart(cp, part)
	marks[versionLabel] = r.Version
	return marks
}

// pod is what the Pod Security Standard "restricted" lets run, as any user but root.
func (r *Reconciler) pod(cp *v1alpha1.ControlPlane, container *applycorev1.ContainerApplyConfiguration) *applycorev1.PodSpecApplyConfiguration {
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
		WithContainers(container)
}

// serverPod is that of a server, with its keys.
func (r *Reconciler) serverPod(cp *v1alpha1.ControlPlane, container *applycorev1.ContainerApplyConfiguration) *applycorev1.PodSpecApplyConfiguration {
	pod := r.pod(cp, container)
	if cp.Spec.Workloads != nil {
		withHostToken(pod, hostOwner(cp).Connect())
	}
	return pod.WithVolumes(mounted(pkiVolume,
		project(servingName(cp), serverCA+crt, systemCA+crt, server+crt, server+key, frontProxyClient+crt, frontProxyClient+key,
			clientCA+crt, clientCA+key, serviceAccount+key, serviceAccount+pub)))
}

// withHostToken has a pod act on the host by a ServiceAccount. What admission mounts would be the same, but for the
// token, which a host may have live for a year then (--service-account-extend-token-expiration).
func withHostToken(pod *applycorev1.PodSpecApplyConfiguration, account string) *applycorev1.PodSpecApplyConfiguration {
	for i := range pod.Containers {
		pod.Containers[i].WithVolumeMounts(applycorev1.VolumeMount().WithName(hostTokenVolume).WithMountPath(hostTokenDir).WithReadOnly(true))
	}
	return pod.WithServiceAccountName(account).WithVolumes(mounted(hostTokenVolume,
		applycorev1.VolumeProjection().WithServiceAccountToken(applycorev1.ServiceAccountTokenProjection().
			WithPath(corev1.ServiceAccountTokenKey).WithExpirationSeconds(hostTokenSeconds)),
		applycorev1.VolumeProjection().WithConfigMap(applycorev1.ConfigMapProjection().WithName("kube-root-ca.crt").
			WithItems(applycorev1.KeyToPath().WithKey(corev1.ServiceAccountRootCAKey).WithPath(corev1.ServiceAccountRootCAKey))),
		applycorev1.VolumeProjection().WithDownwardAPI(applycorev1.DownwardAPIProjection().
			WithItems(applycorev1.DownwardAPIVolumeFile().WithPath(corev1.ServiceAccountNamespaceKey).
				WithFieldRef(applycorev1.ObjectFieldSelector().WithAPIVersion("v1").WithFieldPath("metadata.namespace"))))))
}

// mounted is a volume of Secrets, and of what else can be projected.
func mounted(name string, sources ...*applycorev1.VolumeProjectionApplyConfiguration) *applycorev1.VolumeApplyConfiguration {
	return applycorev1.Volume().WithName(name).WithProjected(applycorev1.ProjectedVolumeSource().
		WithDefaultMode(0o440).WithSources(sources...))
}

// project mounts some of a Secret.
func project(secret string, files ...string) *applycorev1.VolumeProjectionApplyConfiguration {
	source := applycorev1.SecretProjection().WithName(secret)
	for _, file := range files {
		source.WithItems(applycorev1.KeyToPath().WithKey(file).WithPath(file))
	}
	return applycorev1.VolumeProjection().WithSecret(source)
}

// container is what all containers have in common.
func (r *Reconciler) container(w *work, args ...string) *applycorev1.ContainerApplyConfiguration {
	return applycorev1.Container().
		WithName(containerName).
		WithImage(cmp.Or(w.cp.Spec.Pod.Image, r.Image)).
		WithArgs(args...).
		WithEnv(proxy(w)...).
		// What a process says at its end is in the status of the ControlPlane.
		WithTerminationMessagePolicy(corev1.TerminationMessageFallbackToLogsOnError).
		WithSecurityContext(applycorev1.SecurityContext().
			WithAllowPrivilegeEscalation(false).
			WithReadOnlyRootFilesystem(true).
			WithCapabilities(applycorev1.Capabilities().WithDrop("ALL")))
}

// serverContainer is that of a server.
func (r *Reconciler) serverContainer(w *work, args ...string) *applycorev1.ContainerApplyConfiguration {
	return r.container(w, args...).
		WithPorts(applycorev1.ContainerPort().WithName(portName).WithProtocol(corev1.ProtocolTCP).WithContainerPort(containerPort)).
		// A start takes as long as there is to read, half an hour at most.
		WithStartupProbe(probe("/readyz").WithPeriodSeconds(2).WithFailureThreshold(900)).
		WithReadinessProbe(probe("/readyz").WithPeriodSeconds(5)).
		WithLivenessProbe(probe("/livez").WithPeriodSeconds(10).WithFailureThreshold(6)).
		WithResources(resources(w.cp.Spec.Pod.Resources, defaultResources)).
		WithVolumeMounts(applycorev1.VolumeMount().WithName(pkiVolume).WithMountPath(pkiDir).WithReadOnly(true))
}

func probe(path string) *applycorev1.ProbeApplyConfiguration {
	return applycorev1.Probe().WithHTTPGet(applycorev1.HTTPGetAction().
		WithScheme(corev1.URISchemeHTTPS).WithPort(intstr.FromString(portName)).WithPath(path))
}

// defaultResources are those of a server.
var defaultResources = &v1alpha1.ControlPlaneResources{
	Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("500m"), corev1.ResourceMemory: resource.MustParse("1Gi")},
	Limits:   corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("4Gi")},
}

// resources are those of the spec, as a whole, or the default.
func resources(chosen, byDefault *v1alpha1.ControlPlaneResources) *applycorev1.ResourceRequirementsApplyConfiguration {
	chosen = cmp.Or(chosen, byDefault)
	r := applycorev1.ResourceRequirements()
	if len(chosen.Requests) > 0 {
		r.WithRequests(chosen.Requests)
	}
	if len(chosen.Limits) > 0 {
		r.WithLimits(chosen.Limits)
	}
	return r
}
