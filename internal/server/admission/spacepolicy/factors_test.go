package spacepolicy

import (
	"reflect"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/kubernetes/pkg/apis/apps"
	"k8s.io/kubernetes/pkg/apis/autoscaling"
	"k8s.io/kubernetes/pkg/apis/core"
)

// TestFactors checks each bound of what controllers multiply, by an object that is at it and
// one that is beyond.
func TestFactors(t *testing.T) {
	set := func(replicas int32) *apps.StatefulSet {
		return &apps.StatefulSet{Spec: apps.StatefulSetSpec{Replicas: replicas}}
	}
	scale := func(replicas int32) *autoscaling.Scale {
		return &autoscaling.Scale{Spec: autoscaling.ScaleSpec{Replicas: replicas}}
	}
	// large is a set of a thousand replicas that take all that they may, and some bytes.
	empty := ReplicaBytes(core.PodTemplateSpec{}, []core.PersistentVolumeClaim(nil), (*metav1.LabelSelector)(nil))
	large := func(more int) *apps.StatefulSet {
		large := set(1024)
		large.Spec.Template.Spec.Hostname = strings.Repeat("a", MaxReplicaBytes/1024-empty+more)
		return large
	}
	// endpoints have 300 addresses with 300 ports, 9,999 without, and one more for each.
	endpoints := func(more int) *core.Endpoints {
		return &core.Endpoints{Subsets: []core.EndpointSubset{
			{Addresses: make([]core.EndpointAddress, 100), NotReadyAddresses: make([]core.EndpointAddress, 200), Ports: make([]core.EndpointPort, 300)},
			{Addresses: make([]core.EndpointAddress, 9_999)},
			{NotReadyAddresses: make([]core.EndpointAddress, 1+more)},
		}}
	}
	for name, tc := range map[string]struct {
		resource   schema.GroupResource
		most, more runtime.Object
		refusal    string
	}{
		"replicas": {
			most: set(10_000), more: set(10_001),
			refusal: `statefulsets.apps "x" is forbidden: SpacePolicy: it has 10001 replicas, and a StatefulSet in a space at most 10000; make several StatefulSets of it`,
		},
		"scale": {
			most: scale(10_000), more: scale(10_001),
			refusal: `statefulsets.apps "x" is forbidden: SpacePolicy: it has 10001 replicas, and a StatefulSet in a space at most 10000; make several StatefulSets of it`,
		},
		"scale of another resource": {resource: apps.Resource("deployments"), most: scale(1<<31 - 1)},
		"bytes of replicas": {
			most: large(0), more: large(1),
			refusal: `statefulsets.apps "x" is forbidden: SpacePolicy: its replicas take 134218752 bytes of memory, and those of a StatefulSet in a space at most 134217728; ` +
				`have fewer, or make its template or volumeClaimTemplates shorter`,
		},
		"endpoints": {
			resource: core.Resource("endpoints"), most: endpoints(0), more: endpoints(1),
			refusal: `endpoints "x" is forbidden: SpacePolicy: it has 100001 endpoints, which are addresses times ports, and Endpoints in a space at most 100000; use EndpointSlices`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			if tc.resource.Empty() {
				tc.resource = statefulSets
			}
			check := func(object, old runtime.Object) string {
				operation := admission.Create
				if old != nil {
					operation = admission.Update
				}
				a := admission.NewAttributesRecord(object, old, schema.GroupVersionKind{}, "ns", "x", tc.resource.WithVersion("v1"), "", operation, nil, false, member)
				if err := Definitions(nil).Check(a, "a"); err != nil {
					return err.Error()
				}
				return ""
			}
			if got := check(tc.most, nil); got != "" {
				t.Errorf("at the bound: %s", got)
			}
			if tc.more == nil {
				return
			}
			if got := check(tc.more, nil); got != tc.refusal {
				t.Errorf("a new one beyond the bound: got %q, want %q", got, tc.refusal)
			}
			if got := check(tc.more, tc.most); got != tc.refusal {
				t.Errorf("changed to one beyond the bound: got %q, want %q", got, tc.refusal)
			}
			if got := check(tc.more, tc.more); got != "" {
				t.Errorf("one that was stored so: %s", got)
			}
		})
	}
}

func TestSizeOf(t *testing.T) {
	type pair struct {
		a *pair
		s string
	}
	one := &pair{s: "123"}
	for _, tc := range []struct {
		value any
		want  int
	}{
		{"12345", 16 + 5},
		{[]string{"1", "2"}, 24 + 2*(16+1)},
		{map[string]string{"k": "value"}, 8 + 16 + 1 + 16 + 5},
		{pair{one, ""}, 24 + 24 + 3},
		{[]any{nil, 1}, 24 + 16 + 16 + 8},
	} {
		if got := sizeOf(reflect.ValueOf(tc.value)); got != tc.want {
			t.Errorf("%v: %d, want %d", tc.value, got, tc.want)
		}
	}
}
