package kubecontrollers

import (
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/utils/ptr"
)

func TestOwnerOfPod(t *testing.T) {
	factory := informers.NewSharedInformerFactory(fake.NewClientset(), 0)
	e := &shared{informers: factory}
	for name, finished := range map[string]bool{"running": false, "finished": true} {
		job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "a|ns", UID: types.UID(name)}}
		if finished {
			job.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobComplete, Status: corev1.ConditionTrue}}
		}
		if err := factory.Batch().V1().Jobs().Informer().GetStore().Add(job); err != nil {
			t.Fatal(err)
		}
	}
	for _, tc := range []struct {
		kind, owner string
		uid, want   types.UID
	}{
		{"ReplicaSet", "set", "u", "u"},
		{"Job", "running", "running", "running"},
		{"Job", "running", "before", ""},
		{"Job", "finished", "finished", ""},
		{"Job", "gone", "gone", ""},
	} {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "a|ns", OwnerReferences: []metav1.OwnerReference{
			{Kind: tc.kind, Name: tc.owner, UID: tc.uid, Controller: ptr.To(true)},
		}}}
		if err := factory.Core().V1().Pods().Informer().GetStore().Add(pod); err != nil {
			t.Fatal(err)
		}
		if got := e.ownerOfPod("a|ns", "p"); got != tc.want {
			t.Errorf("%s %s: %q, want %q", tc.kind, tc.owner, got, tc.want)
		}
	}
	if got := e.ownerOfPod("a|ns", "other"); got != "" {
		t.Errorf("a pod that is not known has the owner %q", got)
	}
}
