package kubecontrollers

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/tenantry/tenantry/internal/tenant"
)

// TestUnscheduledPods checks which pods are to fail: those that are deleted without a node, not all of one space at
// once.
func TestUnscheduledPods(t *testing.T) {
	synctest.Test(t, testUnscheduledPods)
}

func testUnscheduledPods(t *testing.T) {
	pods := informers.NewSharedInformerFactory(fake.NewClientset(), 0).Core().V1().Pods()
	var objects []runtime.Object
	add := func(namespace, name string, change func(*corev1.Pod)) {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, DeletionTimestamp: &metav1.Time{Time: time.Now()}}}
		change(pod)
		objects = append(objects, pod)
		if err := pods.Informer().GetStore().Add(pod); err != nil {
			t.Fatal(err)
		}
	}
	add("a|ns", "there", func(p *corev1.Pod) { p.DeletionTimestamp = nil })
	add("a|ns", "scheduled", func(p *corev1.Pod) { p.Spec.NodeName = "n" })
	add("a|ns", "failed", func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed })
	add("a|ns", "succeeded", func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded })
	const each = 10 * time.Millisecond
	const most = int(podGCTime/each) + 1
	for i := range most + 1 {
		add("a|ns", fmt.Sprint(i), func(*corev1.Pod) {})
	}
	add("b|ns", "x", func(*corev1.Pod) {})
	add("ns", "x", func(p *corev1.Pod) { p.Status.Phase = corev1.PodRunning })
	clients := fake.NewClientset(objects...)
	clients.PrependReactor("patch", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
		time.Sleep(each)
		return false, nil, nil
	})
	(&podGC{client: clients, pods: pods.Lister()}).collect(t.Context())
	failed, deleted := map[tenant.Name]int{}, map[tenant.Name]int{}
	for _, action := range clients.Actions() {
		n := tenant.Flat(action.GetNamespace()).Space()
		switch action := action.(type) {
		case clienttesting.PatchAction:
			if failed[n]++; action.GetSubresource() != "status" || len(action.GetName()) > 4 || !strings.Contains(string(action.GetPatch()), `"phase":"Failed"`) {
				t.Errorf("patches %s of %s: %s", action.GetSubresource(), action.GetName(), action.GetPatch())
			}
		case clienttesting.DeleteAction:
			deleted[n]++
		}
	}
	want := map[tenant.Name]int{"a": most, "b": 1, tenant.System: 1}
	if diff := cmp.Diff(want, failed); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(want, deleted); diff != "" {
		t.Error(diff)
	}
}
