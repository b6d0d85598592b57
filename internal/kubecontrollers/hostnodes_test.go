package kubecontrollers

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"

	hostnames "github.com/tenantry/tenantry/internal/workloads/names"
)

// TestHostNodes checks that pods on a host cluster have nodes, and others those that there are.
func TestHostNodes(t *testing.T) {
	core := informers.NewSharedInformerFactory(fake.NewClientset(), 0).Core().V1()
	nodes, err := newHostNodes(core.Nodes(), core.Pods().Informer())
	if err != nil {
		t.Fatal(err)
	}
	if err := core.Nodes().Informer().GetIndexer().Add(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "here", Labels: map[string]string{"a": "b"}}}); err != nil {
		t.Fatal(err)
	}
	for node, annotations := range map[string]map[string]string{"on-host": {hostnames.HostUIDAnnotation: "u"}, "gone": nil, "": {hostnames.HostUIDAnnotation: "u"}} {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "acme|shop", Name: "on-" + node, Annotations: annotations}, Spec: corev1.PodSpec{NodeName: node}}
		if err := core.Pods().Informer().GetIndexer().Add(pod); err != nil {
			t.Fatal(err)
		}
	}
	for name, found := range map[string]bool{"here": true, "on-host": true, "gone": false, "": false} {
		node, err := nodes.Lister().Get(name)
		if (err == nil) != found || err != nil && !apierrors.IsNotFound(err) {
			t.Errorf("%q: got %v, %v", name, node, err)
		}
		if found && (node.Name != name || (len(node.Labels) > 0) != (name == "here")) {
			t.Errorf("%q: got %+v", name, node.ObjectMeta)
		}
	}
}
