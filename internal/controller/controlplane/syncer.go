package controlplane

import (
	"context"
	"fmt"
	"net"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	applyappsv1 "k8s.io/client-go/applyconfigurations/apps/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tenantry/tenantry/api/v1alpha1"
	"github.com/tenantry/tenantry/internal/controller/conditions"
	"github.com/tenantry/tenantry/internal/workloads/names"
)

// syncerUser is the syncer as a user of the control plane.
const syncerUser = "tenantry-syncer"

// hostOwner is whose the ServiceAccounts are by which pods of a ControlPlane's spaces run on the host.
func hostOwner(cp *v1alpha1.ControlPlane) names.Owner {
	return names.Owner{Namespace: cp.Namespace, ControlPlane: cp.Name}
}

// podsAPI is where pods on the host reach the servers.
func (w *work) podsAPI() string { return net.JoinHostPort(w.address, strconv.Itoa(servicePort)) }

// connectArgs are the flags by which servers connect to pods on the host.
func connectArgs(w *work) []string {
	if w.cp.Spec.Workloads == nil {
		return nil
	}
	args := []string{"--host-in-cluster", "--workloads-api-address=" + w.podsAPI()}
	if w.cp.Spec.Storage.Etcd == nil {
		args = append(args, "--syncer=false")
	}
	return args
}

// ensureHostAccounts makes the ServiceAccounts by which pods of spaces run on the host. An administrator of the host
// gives the syncer's its rights, which gives the servers' theirs: the operator has none of them, and so cannot.
func (r *Reconciler) ensureHostAccounts(ctx context.Context, w *work) error {
	if w.cp.Spec.Workloads == nil {
		return nil
	}
	for _, name := range []string{hostOwner(w.cp).Syncer(), hostOwner(w.cp).Connect()} {
		if err := r.applyAccount(ctx, w.cp, name); err != nil {
			return err
		}
	}
	return nil
}

// ensureSyncer makes the syncer, as soon as a server answers it. One that is not wanted any more is stopped: the
// operator deletes nothing.
func (r *Reconciler) ensureSyncer(ctx context.Context, w *work) error {
	if w.cp.Spec.Workloads == nil {
		live, err := r.ownSyncer(ctx, w.cp)
		if err != nil || live == nil || ptr.Deref(live.Spec.Replicas, 1) == 0 {
			return err
		}
		desired, err := r.syncer(w)
		if err != nil {
			return err
		}
		desired.WithUID(live.UID) // that of an earlier ControlPlane may be going: it is not made again
		return r.apply(ctx, w.cp, desired, &appsv1.Deployment{})
	}
	return r.ensureClients(ctx, w, syncerName(w.cp), syncerPart, syncerUser, r.syncer)
}

// syncers is the number of syncers, of which one works: as many as can go on without another one's node, if any are
// wanted.
func syncers(cp *v1alpha1.ControlPlane) int32 {
	if cp.Spec.Workloads == nil {
		return 0
	}
	return min(replicas(cp), 2)
}

// ownSyncer returns the Deployment of this ControlPlane's syncer, nil if there is none. What somebody
// else has made of that name, or an earlier ControlPlane, is of no concern then.
func (r *Reconciler) ownSyncer(ctx context.Context, cp *v1alpha1.ControlPlane) (*appsv1.Deployment, error) {
	live := &appsv1.Deployment{}
	err := r.Client.Get(ctx, types.NamespacedName{Namespace: cp.Namespace, Name: syncerName(cp)}, live)
	if client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("reading Deployment %q: %w", syncerName(cp), err)
	}
	if err != nil || !metav1.IsControlledBy(live, cp) {
		return nil, nil // there is none
	}
	return live, nil
}

// syncer makes what is on the host. It has the operator's own image, whatever the servers have: whoever writes
// ControlPlanes and names images gets no token with rights to the whole host by that.
func (r *Reconciler) syncer(w *work) (*applyappsv1.DeploymentApplyConfiguration, error) {
	wanted := ptr.Deref(w.cp.Spec.Workloads, v1alpha1.ControlPlaneWorkloads{})
	args := append([]string{
		"syncer",
		"--kubeconfig=" + loginDir + "/" + kubeconfigKey,
		"--host-in-cluster",
		fmt.Sprintf("--health-probe-bind-address=:%d", healthPort),
		"--workloads-image=" + r.Image,
		"--workloads-api-address=" + w.podsAPI(),
	}, syncerArgs(&wanted)...)
	container := r.loggedIn(w, args...).WithImage(r.Image).WithResources(resources(wanted.Resources, defaultManagerResources))
	container.Env = nil // it calls nothing but the servers and the host
	pod := withHostToken(r.loginPod(w, syncerName(w.cp), container), hostOwner(w.cp).Syncer())
	deployment := r.deployment(w.cp, syncerName(w.cp), syncerPart, syncers(w.cp), pod)
	return deployment, configure(w.cp, deployment.Spec.Template, nil)
}

// syncerArgs are the flags of what the spec says.
func syncerArgs(wanted *v1alpha1.ControlPlaneWorkloads) (args []string) {
	isolation := wanted.NetworkIsolation
	if isolation.Mode != "" {
		args = append(args, "--network-isolation="+string(isolation.Mode))
	}
	args = append(args, listFlag("network-isolation-cluster-cidrs", isolation.ClusterCIDRs)...)
	args = append(args, listFlag("network-isolation-allow-cidrs", isolation.AllowedCIDRs)...)
	if wanted.LocalImages == v1alpha1.LocalImagesTrusted {
		args = append(args, "--trust-local-images")
	}
	if limit := wanted.OrphanLimit; limit != nil {
		args = append(args, "--orphan-limit="+strconv.Itoa(int(*limit)))
	}
	return args
}

// observeSyncer reads what there is of the syncer.
func (r *Reconciler) observeSyncer(ctx context.Context, w *work) error {
	live, err := r.ownSyncer(ctx, w.cp)
	if w.cp.Spec.Workloads == nil {
		w.syncerIsLeft, w.syncer.settled = live != nil, true
		return err
	}
	if err != nil || live == nil {
		return err
	}
	w.syncer, err = r.observed(ctx, w.cp, ofDeployment(live), syncerPart)
	return err
}

// workloadsReady says whether pods of spaces run on the host: nothing if nobody has ever wanted that.
func workloadsReady(w *work, failed error) []metav1.Condition {
	condition := func(is bool, reason, message string) []metav1.Condition {
		return []metav1.Condition{conditions.New(v1alpha1.ConditionWorkloadsReady, is, reason, message)}
	}
	switch {
	case w.cp.Spec.Workloads == nil && !w.syncerIsLeft:
		return nil
	case w.cp.Spec.Workloads == nil:
		return condition(false, v1alpha1.ReasonStopped, fmt.Sprintf("spec.workloads is not there: what runs of spaces goes on, and nothing looks after it. "+
			"To have it gone, with all that it has stored: kubectl delete namespaces -l %s=%s,%s=%s",
			names.ControlPlaneNamespaceLabel, w.cp.Namespace, names.ControlPlaneLabel, w.cp.Name))
	case w.syncer.failing != "":
		return condition(false, v1alpha1.ReasonPodFailing, w.syncer.failing)
	case len(w.syncer.unready) > 0:
		return condition(false, v1alpha1.ReasonSyncerNotReady, fmt.Sprintf("pods %s run and are not ready, and their events say why: kubectl -n %s describe pod %s",
			conditions.Enumerate(w.syncer.unready), w.cp.Namespace, w.syncer.unready[0]))
	case w.syncer.ready > 0:
		return condition(true, v1alpha1.ReasonSyncerReady, "pods of spaces run on this cluster")
	case failed != nil:
		return condition(false, v1alpha1.ReasonBlocked, "the condition Degraded says by what")
	default:
		return condition(false, v1alpha1.ReasonRollingOut, "waiting for the syncer to be made and ready")
	}
}
