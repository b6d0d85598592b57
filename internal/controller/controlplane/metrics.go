package controlplane

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/cert"

	"github.com/tenantry/tenantry/api/v1alpha1"
)

var (
	conditionGauge = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "tenantry_control_plane_condition",
		Help: "1 while a condition of a ControlPlane (Available, Progressing, Degraded, WorkloadsReady) is true, otherwise 0.",
	}, []string{"namespace", "name", "condition"})
	expiry = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "tenantry_control_plane_certificate_expiry_timestamp_seconds",
		Help: "When a certificate of a ControlPlane expires: that of its servers (server), of its administrator's kubeconfig (admin), of its managers (manager), of its syncer (syncer) or that by which its servers log in to an external etcd (etcd).",
	}, []string{"namespace", "name", "certificate"})
)

// Collectors returns the metrics of this package.
func Collectors() []prometheus.Collector { return []prometheus.Collector{conditionGauge, expiry} }

// show shows the conditions of a ControlPlane.
func show(cp *v1alpha1.ControlPlane) {
	for _, c := range cp.Status.Conditions {
		value := 0.0
		if c.Status == metav1.ConditionTrue {
			value = 1
		}
		conditionGauge.WithLabelValues(cp.Namespace, cp.Name, c.Type).Set(value)
	}
}

// observeExpiry notes when a certificate, as PEM, expires.
func observeExpiry(cp *v1alpha1.ControlPlane, name string, certPEM []byte) {
	if all, err := cert.ParseCertsPEM(certPEM); err == nil {
		expires(cp, name, all[0].NotAfter)
	}
}

// expires notes when a certificate expires.
func expires(cp *v1alpha1.ControlPlane, name string, at time.Time) {
	expiry.WithLabelValues(cp.Namespace, cp.Name, name).Set(float64(at.Unix()))
}

// forget ends the series of a ControlPlane that is gone.
func forget(cp types.NamespacedName) {
	labels := prometheus.Labels{"namespace": cp.Namespace, "name": cp.Name}
	conditionGauge.DeletePartialMatch(labels)
	expiry.DeletePartialMatch(labels)
}
