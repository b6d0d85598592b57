package sync

import (
	"encoding/json"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

// TestOneLife checks that what is deleted or changed is no later object of the name.
func TestOneLife(t *testing.T) {
	there := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web", UID: "p"}}
	client := fake.NewClientset(there)
	grace := int64(7)
	if err := deleteOne(t.Context(), client.CoreV1().Pods("ns"), "the pod", there, &grace); err != nil {
		t.Fatal(err)
	}
	options := client.Actions()[0].(clienttesting.DeleteAction).GetDeleteOptions()
	if options.Preconditions == nil || *options.Preconditions.UID != "p" || *options.GracePeriodSeconds != grace {
		t.Errorf("it is deleted with %v", options)
	}
	if err := deleteOne(t.Context(), client.CoreV1().Pods("ns"), "the pod", there, nil); err != nil {
		t.Errorf("what is gone: %v", err)
	}

	written, err := patchFor("p", map[string]any{"metadata": map[string]any{"labels": map[string]any{"a": "b"}}})
	if err != nil {
		t.Fatal(err)
	}
	var patch metav1.PartialObjectMetadata
	if err := json.Unmarshal(written, &patch); err != nil || patch.UID != "p" || patch.Labels["a"] != "b" {
		t.Errorf("the patch is %s, %v", written, err)
	}
}
