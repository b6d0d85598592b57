package kubecontrollers

import (
	"math"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/utils/ptr"
)

// TestReplicasAreFew checks how many pods the controller of StatefulSets makes in memory.
func TestReplicasAreFew(t *testing.T) {
	of := func(namespace string, replicas int32, bytes int) *appsv1.StatefulSet {
		return &appsv1.StatefulSet{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "s"},
			Spec: appsv1.StatefulSetSpec{Replicas: ptr.To(replicas), Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{"a": strings.Repeat("x", bytes)}},
			}},
		}
	}
	for name, tc := range map[string]struct {
		set        *appsv1.StatefulSet
		from, upTo int32
	}{
		"most":               {set: of("a|default", maxReplicas, 0), from: maxReplicas, upTo: maxReplicas},
		"too many":           {set: of("a|default", math.MaxInt32, 0), from: maxReplicas, upTo: maxReplicas},
		"large":              {set: of("a|default", math.MaxInt32, 1<<20), from: 100, upTo: 128},
		"few that are large": {set: of("a|default", 3, 1<<20), from: 3, upTo: 3},
		"the system space":   {set: of("default", math.MaxInt32, 0), from: math.MaxInt32, upTo: math.MaxInt32},
	} {
		t.Run(name, func(t *testing.T) {
			views := informers.NewSharedInformerFactory(fake.NewClientset(), 0).Apps().V1().StatefulSets()
			if err := views.Informer().GetStore().Add(tc.set); err != nil {
				t.Fatal(err)
			}
			before := *tc.set.Spec.Replicas
			shown, err := boundedStatefulSets{views}.Lister().StatefulSets(tc.set.Namespace).Get(tc.set.Name)
			if err != nil {
				t.Fatal(err)
			}
			if got := *shown.Spec.Replicas; got < tc.from || got > tc.upTo {
				t.Errorf("%d replicas, want %d to %d", got, tc.from, tc.upTo)
			}
			if *tc.set.Spec.Replicas != before {
				t.Error("the shared object has changed")
			}
		})
	}
}
