package controlplane

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"

	"github.com/tenantry/tenantry/api/v1alpha1"
)

// TestHostToken checks that pods which act on the host have tokens of an hour: hosts let those live for a year that
// admission mounts, which are for 3,607 seconds.
func TestHostToken(t *testing.T) {
	r := &Reconciler{}
	w := &work{cp: named(func(cp *v1alpha1.ControlPlane) { cp.Spec.Workloads = &v1alpha1.ControlPlaneWorkloads{} }), address: "192.0.2.1"}
	syncer, err := r.syncer(w)
	if err != nil {
		t.Fatal(err)
	}
	tokens := func(pod *applycorev1.PodSpecApplyConfiguration) (lives []int64) {
		if *pod.AutomountServiceAccountToken {
			t.Error("admission mounts a token")
		}
		for _, volume := range pod.Volumes {
			for _, source := range volume.Projected.Sources {
				if source.ServiceAccountToken == nil {
					continue
				}
				lives = append(lives, *source.ServiceAccountToken.ExpirationSeconds)
				for _, mount := range pod.Containers[0].VolumeMounts {
					if *mount.Name == *volume.Name && *mount.MountPath+"/"+*source.ServiceAccountToken.Path != "/var/run/secrets/kubernetes.io/serviceaccount/"+corev1.ServiceAccountTokenKey {
						t.Errorf("the token is at %s", *mount.MountPath)
					}
				}
			}
		}
		return lives
	}
	for account, pod := range map[string]*applycorev1.PodSpecApplyConfiguration{
		"cp.syncer.tenantry.io":  syncer.Spec.Template.Spec,
		"cp.connect.tenantry.io": r.serverPod(w.cp, r.serverContainer(w)),
	} {
		if got := tokens(pod); len(got) != 1 || got[0] != 3600 || *pod.ServiceAccountName != account {
			t.Errorf("%s has tokens for %v seconds as %s", account, got, *pod.ServiceAccountName)
		}
	}
	if got := tokens(r.serverPod(named(), r.serverContainer(w))); len(got) != 0 {
		t.Errorf("servers that run no pods have tokens for %v seconds", got)
	}
}

// TestWebhookArgs checks that webhooks of tenants are nowhere inside where pods of spaces run.
func TestWebhookArgs(t *testing.T) {
	spec := &v1alpha1.ControlPlaneSpec{TenantWebhooks: &v1alpha1.ControlPlaneTenantWebhooks{DeniedCIDRs: []string{"192.0.2.0/24", "10.0.0.0/8"}, AllowedCIDRs: []string{"10.1.0.0/16"}}}
	const allowed = "--tenant-webhook-allowed-cidrs=10.1.0.0/16"
	if diff := cmp.Diff([]string{"--tenant-webhook-denied-cidrs=10.0.0.0/8,192.0.2.0/24", allowed}, webhookArgs(spec)); diff != "" {
		t.Error(diff)
	}
	spec.Workloads = &v1alpha1.ControlPlaneWorkloads{NetworkIsolation: v1alpha1.ControlPlaneNetworkIsolation{ClusterCIDRs: []string{"11.0.0.0/16"}}}
	want := []string{"--tenant-webhook-denied-cidrs=10.0.0.0/8,100.64.0.0/10,11.0.0.0/16,172.16.0.0/12,192.0.2.0/24,192.168.0.0/16,240.0.0.0/4,fc00::/7", allowed}
	if diff := cmp.Diff(want, webhookArgs(spec)); diff != "" {
		t.Error(diff)
	}
	if got := webhookArgs(&v1alpha1.ControlPlaneSpec{}); len(got) != 0 {
		t.Errorf("without pods, %v", got)
	}
}
