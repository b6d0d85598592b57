package controlplane

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"

	"github.com/tenantry/tenantry/api/v1alpha1"
)

// TestHostToken checks that pods which act on the host have tokens of an hour: hosts let those live for a year that admission mounts,
// which are for 3,607 seconds.
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
