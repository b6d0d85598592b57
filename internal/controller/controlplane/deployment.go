package controlplane

import (
	"slices"
	"strconv"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	applyappsv1 "k8s.io/client-go/applyconfigurations/apps/v1"
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"
	applymetav1 "k8s.io/client-go/applyconfigurations/meta/v1"

	"github.com/tenantry/tenantry/api/v1alpha1"
)

const (
	etcdVolume = "etcd"
	etcdDir    = "/etc/tenantry/etcd"

	// shutdownDelay is how long a server that is to end answers as before, so that all who
	// send requests have been told to send them to others.
	shutdownDelay = 20 * time.Second
	// goAwayChance is with what probability a request makes its client connect anew. Servers
	// that have just been made get their part of the connections by it.
	goAwayChance = 0.001
	// startedAfter is how long a pod must be ready until the next one is made, in seconds.
	startedAfter = 5
)

// serversOnEtcd are the servers of a ControlPlane with an external etcd.
func (r *Reconciler) serversOnEtcd(w *work) (*applyappsv1.DeploymentApplyConfiguration, error) {
	configured, err := configurationArgs(w)
	if err != nil {
		return nil, err
	}
	args := []string{
		"server",
		"--pki-dir=" + pkiDir,
		"--bind-address=0.0.0.0",
		"--secure-port=" + strconv.Itoa(containerPort),
		"--shutdown-delay-duration=" + shutdownDelay.String(),
		"--goaway-chance=" + strconv.FormatFloat(goAwayChance, 'f', -1, 64),
	}
	container := r.serverContainer(w, slices.Concat(args, tokenArgs(w.cp), etcdArgs(w.cp, w.authorities.claim), connectArgs(w), configured)...).
		WithVolumeMounts(applycorev1.VolumeMount().WithName(etcdVolume).WithMountPath(etcdDir).WithReadOnly(true))
	pod := r.serverPod(w.cp, container).WithVolumes(mounted(etcdVolume, project(etcdName(w.cp), tlsCert, tlsKey, etcdAuthority)))
	deployment := r.deployment(w.cp, w.cp.Name, serversPart, replicas(w.cp), pod)
	deployment.Spec.Template.WithAnnotations(map[string]string{etcdAuthorityAnnotation: w.etcdAuthority})
	return deployment, configure(w.cp, deployment.Spec.Template, w.configured.ofServers(w.cp))
}

// deployment has pods of a part, which are replaced one by one: none ends before another is
// ready.
func (r *Reconciler) deployment(cp *v1alpha1.ControlPlane, name, part string, replicas int32, pod *applycorev1.PodSpecApplyConfiguration) *applyappsv1.DeploymentApplyConfiguration {
	marks := r.podLabels(cp, part)
	return applyappsv1.Deployment(name, cp.Namespace).WithLabels(marks).WithOwnerReferences(owner(cp)).
		WithSpec(applyappsv1.DeploymentSpec().
			WithReplicas(replicas).
			WithMinReadySeconds(startedAfter).
			WithSelector(applymetav1.LabelSelector().WithMatchLabels(selectorOfPart(cp, part))).
			WithStrategy(applyappsv1.DeploymentStrategy().WithType(appsv1.RollingUpdateDeploymentStrategyType).
				WithRollingUpdate(applyappsv1.RollingUpdateDeployment().
					WithMaxUnavailable(intstr.FromInt32(0)).WithMaxSurge(intstr.FromInt32(1)))).
			WithTemplate(applycorev1.PodTemplateSpec().WithLabels(marks).
				WithSpec(pod.WithTopologySpreadConstraints(
					spread(cp, part, corev1.LabelHostname), spread(cp, part, corev1.LabelTopologyZone)))))
}

// spread has the pods of a part on many nodes or zones, as far as there are some.
func spread(cp *v1alpha1.ControlPlane, part, over string) *applycorev1.TopologySpreadConstraintApplyConfiguration {
	return applycorev1.TopologySpreadConstraint().
		WithMaxSkew(1).WithTopologyKey(over).WithWhenUnsatisfiable(corev1.ScheduleAnyway).
		WithLabelSelector(applymetav1.LabelSelector().WithMatchLabels(selectorOfPart(cp, part))).
		// Pods that are about to be replaced do not count.
		WithMatchLabelKeys(appsv1.DefaultDeploymentUniqueLabelKey)
}
