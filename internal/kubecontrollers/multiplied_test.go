package kubecontrollers

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/utils/ptr"

	"github.com/tenantry/tenantry/internal/server/admission/spacepolicy"
)

// TestSmallSets checks which StatefulSets that were stored before they were bounded the
// controller sees.
func TestSmallSets(t *testing.T) {
	apps := informers.NewSharedInformerFactory(fake.NewClientset(), 0).Apps().V1()
	add := func(namespace, name string, replicas int32, change func(*appsv1.StatefulSet)) {
		set := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: appsv1.StatefulSetSpec{Replicas: ptr.To(replicas)}}
		if change != nil {
			change(set)
		}
		if err := apps.StatefulSets().Informer().GetStore().Add(set); err != nil {
			t.Fatal(err)
		}
	}
	withAnnotation := func(bytes int) func(*appsv1.StatefulSet) {
		return func(set *appsv1.StatefulSet) {
			set.Spec.Template.Annotations = map[string]string{"a": strings.Repeat("a", bytes)}
		}
	}
	revision := func(name string, data []byte) func(*appsv1.StatefulSet) {
		long := &appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{Namespace: "a|ns", Name: name, UID: types.UID(name)},
			Data: runtime.RawExtension{Raw: data}}
		if err := apps.ControllerRevisions().Informer().GetStore().Add(long); err != nil {
			t.Fatal(err)
		}
		return func(set *appsv1.StatefulSet) { set.Status.CurrentRevision = name }
	}
	annotated := func(bytes int) []byte {
		return fmt.Appendf(nil, `{"spec":{"template":{"$patch":"replace","metadata":{"annotations":{"a":%q}}}}}`, strings.Repeat("a", bytes))
	}
	ofLong := revision("long", make([]byte, maxReplicaBytes/growth/100+1))
	add("a|ns", "most", spacepolicy.MaxReplicas, nil)
	add("a|ns", "more", spacepolicy.MaxReplicas+1, nil)
	add("a|ns", "endless", 1<<31-1, nil)
	add("a|ns", "large", 100, withAnnotation(maxReplicaBytes/100))
	add("a|ns", "few large", fewReplicas, withAnnotation(maxReplicaBytes/100))
	add("a|ns", "large before", 100, ofLong)
	add("a|ns", "few large before", 99, ofLong)
	add("a|ns", "measured before", 100, revision("measured", annotated(maxReplicaBytes/growth/100)))
	add("a|ns", "measured large before", 100, revision("measured large", annotated(maxReplicaBytes/100)))
	add("ns", "the platform's", spacepolicy.MaxReplicas+1, nil)

	shown := smallSets(apps.StatefulSets(), apps.ControllerRevisions().Lister())
	want := map[string]bool{"most": true, "few large": true, "few large before": true, "measured before": true, "the platform's": true}
	sets, err := shown.Lister().List(labels.Everything())
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]bool{}
	for _, set := range sets {
		got[set.Name] = true
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if _, err := shown.Lister().StatefulSets("a|ns").Get("endless"); err == nil {
		t.Error("the controller gets a StatefulSet that ends the process")
	}
}

// TestSmallEndpoints checks that no controller multiplies Endpoints that were stored before
// they were bounded.
func TestSmallEndpoints(t *testing.T) {
	core := informers.NewSharedInformerFactory(fake.NewClientset(), 0).Core().V1()
	shown := smallEndpoints(core.Endpoints())
	for _, tc := range []struct {
		namespace   string
		ports, want int
	}{
		{"a|ns", spacepolicy.MaxEndpoints / 1000, 1000},
		{"a|ns", spacepolicy.MaxEndpoints/1000 + 1, 0},
		{"ns", spacepolicy.MaxEndpoints/1000 + 1, 1000},
	} {
		endpoints := &corev1.Endpoints{ObjectMeta: metav1.ObjectMeta{Namespace: tc.namespace, Name: "e", ResourceVersion: "1"}, Subsets: []corev1.EndpointSubset{
			{Addresses: make([]corev1.EndpointAddress, 400), NotReadyAddresses: make([]corev1.EndpointAddress, 600), Ports: make([]corev1.EndpointPort, tc.ports)},
		}}
		if err := core.Endpoints().Informer().GetStore().Add(endpoints); err != nil {
			t.Fatal(err)
		}
		for _, lister := range []corelisters.EndpointsLister{shown.Lister(), offeredFairly(newDebts(1).informer(shown.Informer(), sharing{}), corelisters.NewEndpointsLister).Lister()} {
			got, err := lister.Endpoints(tc.namespace).Get("e")
			if err != nil || got.ResourceVersion != "1" {
				t.Fatalf("got %v, %v", got, err)
			}
			addresses := 0
			for _, s := range got.Subsets {
				addresses += len(s.Addresses) + len(s.NotReadyAddresses)
			}
			if addresses != tc.want || len(endpoints.Subsets) != 1 {
				t.Errorf("%s with %d ports: %d addresses, want %d", tc.namespace, tc.ports, addresses, tc.want)
			}
		}
	}
}

// TestMadeRevisions checks that the controller applies no ControllerRevision of a tenant that
// says more than one of its own.
func TestMadeRevisions(t *testing.T) {
	apps := informers.NewSharedInformerFactory(fake.NewClientset(), 0).Apps().V1()
	shown := madeRevisions(apps.ControllerRevisions())
	for _, tc := range []struct {
		namespace, name, data string
		shown                 bool
	}{
		{"a|ns", "made", `{"spec":{"template":{"$patch":"replace"}}}`, true},
		{"a|ns", "foreign", `{"spec":{"template":{"$patch":"replace"},"selector":null}}`, false},
		{"ns", "of the platform", `{}`, true},
	} {
		revision := &appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{Namespace: tc.namespace, Name: tc.name, UID: types.UID(tc.name)},
			Data: runtime.RawExtension{Raw: []byte(tc.data)}}
		if err := apps.ControllerRevisions().Informer().GetStore().Add(revision); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if _, err := shown.Lister().ControllerRevisions(tc.namespace).Get(tc.name); (err == nil) != tc.shown {
				t.Errorf("%s: %v", tc.name, err)
			}
		}
	}
}

// TestSmallServices checks that no controller multiplies the ports of Services that were
// stored before they were bounded.
func TestSmallServices(t *testing.T) {
	core := informers.NewSharedInformerFactory(fake.NewClientset(), 0).Core().V1()
	shown := smallServices(core.Services())
	for _, tc := range []struct {
		namespace string
		ports     int
		shown     bool
	}{
		{"a|ns", spacepolicy.MaxServicePorts, true},
		{"a|ns", spacepolicy.MaxServicePorts + 1, false},
		{"ns", spacepolicy.MaxServicePorts + 1, true},
	} {
		service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: tc.namespace, Name: "s"}, Spec: corev1.ServiceSpec{Ports: make([]corev1.ServicePort, tc.ports)}}
		if err := core.Services().Informer().GetStore().Add(service); err != nil {
			t.Fatal(err)
		}
		if _, err := shown.Lister().Services(tc.namespace).Get("s"); (err == nil) != tc.shown {
			t.Errorf("%s with %d ports: %v", tc.namespace, tc.ports, err)
		}
	}
}
