package sync

import (
	"errors"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
)

// Informers that list call a transform of their own result once more.
func TestSlimTwice(t *testing.T) {
	meta := metav1.ObjectMeta{Name: "web", Namespace: "tn-shop", ManagedFields: []metav1.ManagedFieldsEntry{{Manager: fieldManager}}}
	for name, o := range map[string]runtime.Object{
		"pod":       &corev1.Pod{ObjectMeta: meta, Spec: corev1.PodSpec{NodeName: "n", Hostname: "h", Containers: []corev1.Container{{Name: "c"}}}},
		"Service":   &corev1.Service{ObjectMeta: meta, Spec: corev1.ServiceSpec{ClusterIPs: []string{"10.0.0.1"}, Ports: []corev1.ServicePort{{Port: 80, NodePort: 30000}}}},
		"claim":     &corev1.PersistentVolumeClaim{ObjectMeta: meta, Spec: corev1.PersistentVolumeClaimSpec{VolumeName: "v", StorageClassName: new("c")}},
		"namespace": &corev1.Namespace{ObjectMeta: meta},
		"policy":    &networkingv1.NetworkPolicy{ObjectMeta: meta, Spec: denyAll(nil).Spec},
		"Ingress":   &networkingv1.Ingress{ObjectMeta: meta, Spec: networkingv1.IngressSpec{IngressClassName: new("c")}},
		"HTTPRoute": &gatewayv1.HTTPRoute{ObjectMeta: meta, Spec: gatewayv1.HTTPRouteSpec{Hostnames: []gatewayv1.Hostname{"a.example.com"}}},
		"budget":    &policyv1.PodDisruptionBudget{ObjectMeta: meta, Spec: policyv1.PodDisruptionBudgetSpec{MinAvailable: new(intstr.FromInt32(1))}},
	} {
		once, err := slim(o.DeepCopyObject())
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		twice, err := slim(once.(runtime.Object).DeepCopyObject())
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if equality.Semantic.DeepEqual(once, o) && name != "namespace" {
			t.Errorf("%s: nothing has been dropped", name)
		}
		if !equality.Semantic.DeepEqual(once, twice) {
			t.Errorf("%s: slimmed twice it is %+v, once %+v", name, twice, once)
		}
	}
}

// TestSlimPodsHaveNames checks that it is known of a pod in the cache what webhooks of the host have added to it.
func TestSlimPodsHaveNames(t *testing.T) {
	pod := spacePod(bound)
	host := hostPod(pod, func(p *corev1.Pod) {
		p.Spec.Containers = append(slices.Clone(pod.Spec.Containers), corev1.Container{Name: "agent"})
		p.Spec.NodeName, p.Status.Message = "node", "Container agent was using 900Mi"
	})
	slimmed, err := slim(host)
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, hostSpace(), pod, slimmed.(*corev1.Pod))
	if err := w.look(); err != nil {
		t.Fatal(err)
	}
	got, err := w.spaces.CoreV1().Pods(pod.Namespace).Get(t.Context(), pod.Name, metav1.GetOptions{})
	if err != nil || got.Status.Message == "" || strings.Contains(got.Status.Message, "agent") {
		t.Errorf("it is told %q, %v", got.Status.Message, err)
	}
	host.Spec.Resources = &corev1.ResourceRequirements{}
	if slimmed, err = slim(host); err != nil || slimmed.(*corev1.Pod).Spec.Resources == nil {
		t.Errorf("what resources of its own it has is not known: %v", err)
	}
	if refused := podNotTaken(errors.New("no agent"), pod, slimmed.(*corev1.Pod)); strings.Contains(refused, "agent") {
		t.Errorf("it is refused: %s", refused)
	}
}
