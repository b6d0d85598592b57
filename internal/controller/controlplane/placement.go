package controlplane

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"

	"github.com/tenantry/tenantry/api/v1alpha1"
)

// place says where pods run, and how nodes get their image.
func place(pod *applycorev1.PodSpecApplyConfiguration, by *v1alpha1.ControlPlanePod) error {
	// The fields are those of a pod, which have the same names in what is applied.
	chosen, err := json.Marshal(corev1.PodSpec{
		NodeSelector: by.NodeSelector, Tolerations: by.Tolerations, Affinity: by.Affinity, PriorityClassName: by.PriorityClassName,
	})
	if err != nil {
		return fmt.Errorf("reading spec.pod: %w", err)
	}
	placed := applycorev1.PodSpecApplyConfiguration{}
	if err := json.Unmarshal(chosen, &placed); err != nil {
		return fmt.Errorf("reading spec.pod: %w", err)
	}
	pod.NodeSelector, pod.Tolerations, pod.Affinity, pod.PriorityClassName = placed.NodeSelector, placed.Tolerations, placed.Affinity, placed.PriorityClassName
	for _, secret := range by.ImagePullSecrets {
		pod.WithImagePullSecrets(applycorev1.LocalObjectReference().WithName(secret.Name))
	}
	return nil
}

// proxy are the variables by which processes call others through a proxy. What belongs to the
// ControlPlane is called directly.
func proxy(w *work) []*applycorev1.EnvVarApplyConfiguration {
	by := w.cp.Spec.Pod.Proxy
	if by == nil {
		return nil
	}
	direct := []string{"localhost", "127.0.0.0/8", "::1", serviceHost(w.cp)}
	if w.address != "" && w.address != corev1.ClusterIPNone {
		direct = append(direct, w.address)
	}
	if w.cp.Spec.Workloads != nil {
		direct = append(direct, "$(KUBERNETES_SERVICE_HOST)") // the host's, which its kubelets fill in
	}
	direct = append(direct, etcdHosts(w.cp)...)
	direct = append(direct, by.NoProxy...)
	slices.Sort(direct)
	values := map[string]string{"HTTP_PROXY": by.URL, "HTTPS_PROXY": by.URL, "NO_PROXY": strings.Join(slices.Compact(direct), ",")}
	var variables []*applycorev1.EnvVarApplyConfiguration
	for _, name := range slices.Sorted(maps.Keys(values)) {
		variables = append(variables, applycorev1.EnvVar().WithName(name).WithValue(values[name]))
	}
	return variables
}

// etcdHosts are the names and addresses of the members of the etcds of a ControlPlane.
func etcdHosts(cp *v1alpha1.ControlPlane) []string {
	etcd := cp.Spec.Storage.Etcd
	if etcd == nil {
		return nil
	}
	endpoints := slices.Clone(etcd.Endpoints)
	for _, o := range etcd.Overrides {
		endpoints = append(endpoints, o.Endpoints...)
	}
	var hosts []string
	for _, endpoint := range endpoints {
		if parsed, err := url.Parse(endpoint); err == nil { // of which the definition sees to
			hosts = append(hosts, parsed.Hostname())
		}
	}
	return hosts
}
