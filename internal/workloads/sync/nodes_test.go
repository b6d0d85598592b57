package sync

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/tenantry/tenantry/internal/tenant"
	"github.com/tenantry/tenantry/internal/workloads/names"
)

func nodeOfHost() *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "node", UID: "nu", Labels: map[string]string{
			corev1.LabelTopologyZone: "here", corev1.LabelHostname: "node", "example.com/secret": "s",
		}, Annotations: map[string]string{"example.com/secret": "s"}},
		Spec: corev1.NodeSpec{ProviderID: "secret", Taints: []corev1.Taint{{Key: "secret"}}},
		Status: corev1.NodeStatus{
			Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "10.0.0.1"}},
			Conditions: []corev1.NodeCondition{
				{Type: corev1.NodeReady, Status: corev1.ConditionTrue, Message: "secret"}, {Type: corev1.NodeDiskPressure, Status: corev1.ConditionTrue},
			},
			NodeInfo: corev1.NodeSystemInfo{MachineID: "secret"},
		},
	}
}

func shownNow(changes ...func(*corev1.Node)) *corev1.Node {
	node := shownNode(nodeOfHost())
	node.UID = "su"
	for _, change := range changes {
		change(node)
	}
	return node
}

// TestShownNode checks what the system space is told of a node.
func TestShownNode(t *testing.T) {
	want := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "node", Labels: map[string]string{corev1.LabelTopologyZone: "here", corev1.LabelHostname: "node"},
			Annotations: map[string]string{names.HostUIDAnnotation: "nu"}},
		Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}},
	}
	if diff := cmp.Diff(want, shownNode(nodeOfHost())); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestNodes(t *testing.T) {
	for name, tc := range map[string]struct {
		shown, host *corev1.Node
		want        []string
	}{
		"a new one":              {host: nodeOfHost(), want: []string{"create nodes"}},
		"the same":               {shown: shownNow(), host: nodeOfHost()},
		"one in another zone":    {shown: shownNow(func(n *corev1.Node) { n.Labels[corev1.LabelTopologyZone] = "there" }), host: nodeOfHost(), want: []string{"update nodes"}},
		"one with a label more":  {shown: shownNow(func(n *corev1.Node) { n.Labels["example.com/own"] = "x" }), host: nodeOfHost()},
		"one that is not ready":  {shown: shownNow(func(n *corev1.Node) { n.Status.Conditions[0].Status = corev1.ConditionFalse }), host: nodeOfHost(), want: []string{"update nodes/status"}},
		"one that is gone":       {shown: shownNow(), want: []string{"delete nodes su"}},
		"one of another life":    {shown: shownNow(func(n *corev1.Node) { n.Annotations[names.HostUIDAnnotation] = "before" }), host: nodeOfHost(), want: []string{"delete nodes su"}},
		"somebody's own":         {shown: shownNow(func(n *corev1.Node) { n.Annotations = nil }), host: nodeOfHost()},
		"somebody's own, and no": {shown: shownNow(func(n *corev1.Node) { n.Annotations = nil })},
		"none":                   {},
	} {
		t.Run(name, func(t *testing.T) {
			var objects []runtime.Object
			if tc.shown != nil {
				objects = append(objects, tc.shown)
			}
			w := newWorld(t, objects...)
			if tc.host != nil {
				w.cache(w.hostNodes, tc.host)
			}
			if err := w.syncNode(t.Context(), item{kind: nodeItem, tenant: tenant.System, name: "node"}); err != nil {
				t.Fatal(err)
			}
			w.expect(tc.want, nil)
		})
	}
}
