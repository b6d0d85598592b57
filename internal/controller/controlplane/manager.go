package controlplane

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/intstr"
	applyappsv1 "k8s.io/client-go/applyconfigurations/apps/v1"
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"

	"github.com/tenantry/tenantry/api/v1alpha1"
	"github.com/tenantry/tenantry/internal/controller/controlplane/configuration"
	"github.com/tenantry/tenantry/internal/kubeconfig"
	"github.com/tenantry/tenantry/internal/pki"
	"github.com/tenantry/tenantry/internal/tenant"
)

const (
	// managerReplicas is the number of managers, of which one works.
	managerReplicas = 2

	managerUser = "tenantry-manager"
	loginVolume = "kubeconfig"
	loginDir    = "/etc/tenantry/kubeconfig"

	healthPort, healthPortName = 8081, "health"
)

// ensureManagers makes the managers of servers that have none in their process, as soon as a
// server answers them. Those that are there are changed when all servers have been.
func (r *Reconciler) ensureManagers(ctx context.Context, w *work) error {
	if w.cp.Spec.Storage.Etcd == nil {
		return nil
	}
	return r.ensureClients(ctx, w, managerName(w.cp), managersPart, managerUser, r.managers)
}

// ensureClients makes the Deployment of a part that logs in to the servers as a user, and what it needs.
func (r *Reconciler) ensureClients(ctx context.Context, w *work, name, part, user string, desires func(*work) (*applyappsv1.DeploymentApplyConfiguration, error)) error {
	if err := r.applyNetworkPolicy(ctx, w.cp, name, part); err != nil {
		return err
	}
	if err := r.applyBudget(ctx, w.cp, name, part); err != nil {
		return err
	}
	if err := r.ensureLogin(ctx, w, name, part, user); err != nil {
		return err
	}
	desired, err := desires(w)
	if err != nil {
		return err
	}
	return r.applyAfterServers(ctx, w, desired)
}

// applyAfterServers makes the Deployment of what talks to servers, as soon as one answers. One that is there is changed
// when all servers have been.
func (r *Reconciler) applyAfterServers(ctx context.Context, w *work, desired *applyappsv1.DeploymentApplyConfiguration) error {
	servers, _, err := r.workload(ctx, w.cp)
	if err != nil {
		return err
	}
	live := &appsv1.Deployment{}
	switch found, err := r.read(ctx, w.cp, "Deployment", *desired.GetName(), live); {
	case err != nil:
		return err
	case found && !w.serversSettled, !found && servers.ready == 0:
		return nil
	}
	return r.apply(ctx, w.cp, desired, live)
}

// ensureLogin makes the Secret by which the pods of a part log in to the servers, as a system administrator. They read
// the certificate again when it changes.
func (r *Reconciler) ensureLogin(ctx context.Context, w *work, name, part, user string) error {
	current := &corev1.Secret{}
	if _, err := r.read(ctx, w.cp, "Secret", name, current); err != nil {
		return err
	}
	config, err := kubeconfig.NewMounted("https://"+serviceHost(w.cp), user)
	if err != nil {
		return err
	}
	certificate, err := kubeconfig.RenewCertificate(
		kubeconfig.Certificate{Cert: current.Data[kubeconfig.CertFile], Key: current.Data[kubeconfig.KeyFile]},
		&pki.PKI{ClientCA: w.authorities.system},
		kubeconfig.User{Tenant: tenant.System, Name: user, Groups: []string{adminGroup}, Validity: adminValidity}, adminLeft)
	if err != nil {
		return fmt.Errorf("issuing the certificate of %s: %w", user, err)
	}
	expires(w.cp, part, certificate.NotAfter)
	data := map[string][]byte{
		kubeconfigKey: config, kubeconfig.AuthorityFile: w.authorities.server.PEM(),
		kubeconfig.CertFile: certificate.Cert, kubeconfig.KeyFile: certificate.Key,
	}
	return r.applySecret(ctx, w.cp, name, data)
}

// loggedIn is the container of what logs in to the servers.
func (r *Reconciler) loggedIn(w *work, args ...string) *applycorev1.ContainerApplyConfiguration {
	return r.container(w, args...).
		WithPorts(applycorev1.ContainerPort().WithName(healthPortName).WithProtocol(corev1.ProtocolTCP).WithContainerPort(healthPort)).
		WithReadinessProbe(healthProbe("/readyz")).
		WithLivenessProbe(healthProbe("/healthz").WithInitialDelaySeconds(10)).
		WithVolumeMounts(applycorev1.VolumeMount().WithName(loginVolume).WithMountPath(loginDir).WithReadOnly(true))
}

// loginPod has the Secret by which its container logs in.
func (r *Reconciler) loginPod(w *work, secret string, container *applycorev1.ContainerApplyConfiguration) *applycorev1.PodSpecApplyConfiguration {
	return r.pod(w.cp, container).
		WithVolumes(mounted(loginVolume, project(secret, kubeconfigKey, kubeconfig.AuthorityFile, kubeconfig.CertFile, kubeconfig.KeyFile))).
		// Without asking the host's DNS. A Service that is made again has another address, and
		// the pods are made again, too.
		WithHostAliases(applycorev1.HostAlias().WithIP(w.address).WithHostnames(serviceHost(w.cp)))
}

// serviceHost is by which name pods reach the servers.
func serviceHost(cp *v1alpha1.ControlPlane) string { return cp.Name + "." + cp.Namespace + ".svc" }

// managers are the controllers of Tenants.
func (r *Reconciler) managers(w *work) (*applyappsv1.DeploymentApplyConfiguration, error) {
	args := []string{
		"manager",
		"--kubeconfig=" + loginDir + "/" + kubeconfigKey,
		fmt.Sprintf("--health-probe-bind-address=:%d", healthPort),
	}
	configured := w.configured.only(configuration.Manager)
	if len(configured) > 0 {
		args = append(args, "--config="+configuration.Manager.Path())
	}
	container := r.loggedIn(w, args...).WithResources(resources(w.cp.Spec.Pod.ManagerResources, defaultManagerResources))
	deployment := r.deployment(w.cp, managerName(w.cp), managersPart, managerReplicas, r.loginPod(w, managerName(w.cp), container))
	return deployment, configure(w.cp, deployment.Spec.Template, configured)
}

// defaultManagerResources are those of a manager.
var defaultManagerResources = &v1alpha1.ControlPlaneResources{
	Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m"), corev1.ResourceMemory: resource.MustParse("128Mi")},
	Limits:   corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("1Gi")},
}

func healthProbe(path string) *applycorev1.ProbeApplyConfiguration {
	return applycorev1.Probe().WithHTTPGet(applycorev1.HTTPGetAction().WithPort(intstr.FromString(healthPortName)).WithPath(path))
}
