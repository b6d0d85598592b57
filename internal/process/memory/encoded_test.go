package memory

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// TestEncoded compares with what protobuf takes.
func TestEncoded(t *testing.T) {
	now := metav1.Now()
	named := metav1.ObjectMeta{Name: "web-0", Namespace: "default", UID: "0b6b5b5e-2a06-4a9e-a9f6-5a8b3f7e3c0d", CreationTimestamp: now, Labels: map[string]string{"app": "web"}}
	for name, object := range map[string]interface{ Size() int }{
		"nothing": &corev1.ConfigMap{},
		"texts":   &corev1.ConfigMap{ObjectMeta: named, Data: map[string]string{"a": "some text", "b": ""}},
		"bytes":   &corev1.Secret{ObjectMeta: named, Data: map[string][]byte{"a": make([]byte, 1000)}},
		"rules": &rbacv1.Role{ObjectMeta: named, Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"get", "list"}}, {Verbs: []string{"*"}},
		}},
		"empty rules": &networkingv1.NetworkPolicy{ObjectMeta: named, Spec: networkingv1.NetworkPolicySpec{
			Ingress: make([]networkingv1.NetworkPolicyIngressRule, 1000),
			Egress:  []networkingv1.NetworkPolicyEgressRule{{Ports: []networkingv1.NetworkPolicyPort{{Port: new(intstr.FromInt32(80))}}}},
		}},
		"a pod": &corev1.Pod{ObjectMeta: named, Spec: corev1.PodSpec{Containers: []corev1.Container{{
			Name: "web", Image: "registry.example.com/web:1", Ports: []corev1.ContainerPort{{ContainerPort: 8080, Protocol: "TCP"}},
			Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse("100m"), "memory": resource.MustParse("1Gi")}},
		}}, TerminationGracePeriodSeconds: new(int64(30)), RestartPolicy: "Always"},
			Status: corev1.PodStatus{Phase: "Running", StartTime: &now, PodIPs: []corev1.PodIP{{IP: "10.0.0.1"}}}},
	} {
		if got, want := Encoded(object), object.Size(); got > want+want/4 || got < want/2 {
			t.Errorf("%s: %d, and protobuf takes %d", name, got, want)
		}
	}
	if got := Encoded(nil); got != 0 {
		t.Errorf("nothing takes %d", got)
	}
}

func BenchmarkEncoded(b *testing.B) {
	value := pod()
	for b.Loop() {
		Encoded(value)
	}
}
