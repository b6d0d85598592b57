package kubecontrollers

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"

	"github.com/tenantry/tenantry/internal/roundtrip"
	"github.com/tenantry/tenantry/internal/tenant"
)

// TestUnscheduledPods checks which pods are to fail: those that are deleted without a node, not all of one space at
// once, and whatever webhooks of another one do.
func TestUnscheduledPods(t *testing.T) {
	defer func(all []utilruntime.ErrorHandler) { utilruntime.ErrorHandlers = all }(utilruntime.ErrorHandlers)
	utilruntime.ErrorHandlers = nil // they wait by the time of other tests
	synctest.Test(t, testUnscheduledPods)
}

func testUnscheduledPods(t *testing.T) {
	pods := informers.NewSharedInformerFactory(fake.NewClientset(), 0).Core().V1().Pods()
	add := func(namespace, name string, change func(*corev1.Pod)) {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, DeletionTimestamp: &metav1.Time{Time: time.Now()}}}
		change(pod)
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
	add("hangs|ns", "x", func(*corev1.Pod) {})
	var mu sync.Mutex
	failed, deleted := map[tenant.Name]int{}, map[tenant.Name]int{}
	note := func(of map[tenant.Name]int, namespace string) {
		mu.Lock()
		defer mu.Unlock()
		of[tenant.Flat(namespace).Space()]++
	}
	client := kubernetes.NewForConfigOrDie(&rest.Config{QPS: -1, Transport: roundtrip.Func(func(req *http.Request) (*http.Response, error) {
		parts := strings.Split(req.URL.Path, "/") // api v1 namespaces NAMESPACE pods NAME [status]
		namespace, name, subresource := parts[4], parts[6], strings.Join(parts[7:], "/")
		if strings.HasPrefix(namespace, "hangs|") {
			<-req.Context().Done()
			return nil, req.Context().Err()
		}
		if req.Method == http.MethodDelete {
			note(deleted, namespace)
		} else {
			patch, _ := io.ReadAll(req.Body)
			if note(failed, namespace); subresource != "status" || len(name) > 4 || !strings.Contains(string(patch), `"phase":"Failed"`) {
				t.Errorf("%s %s of %s: %s", req.Method, subresource, name, patch)
			}
			time.Sleep(each)
		}
		return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Request: req,
			Body: io.NopCloser(strings.NewReader(`{"kind":"Pod","apiVersion":"v1","metadata":{"name":"x"}}`))}, nil
	})})
	began := time.Now()
	(&podGC{client: client, pods: pods.Lister()}).collect(t.Context())
	if took := time.Since(began); took != podGCTimeout {
		t.Errorf("it took %v", took)
	}
	want := map[tenant.Name]int{"a": most, "b": 1, tenant.System: 1}
	if diff := cmp.Diff(want, failed); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(want, deleted); diff != "" {
		t.Error(diff)
	}
}
