package translate

import (
	"fmt"
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	podv1 "k8s.io/kubernetes/pkg/api/v1/pod"

	"github.com/tenantry/tenantry/internal/workloads/names"
)

// TestEachSource checks with a pod that has all fields that a host gets: what upstream finds that it reads is copied,
// and the host's pod reads copies alone.
func TestEachSource(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web-0", Namespace: "shop", UID: "u"}}
	fill(reflect.ValueOf(&pod.Spec).Elem(), new(int))
	whole := pod.Spec.Volumes[0].VolumeSource
	whole.Projected.Sources[0].ServiceAccountToken = nil // in whose place comes a Secret of the host
	pod.Spec.Volumes = nil
	for i := range reflect.TypeFor[corev1.VolumeSource]().NumField() { // one of each type
		v := corev1.Volume{Name: fmt.Sprintf("v-%d", i)}
		reflect.ValueOf(&v.VolumeSource).Elem().Field(i).Set(reflect.ValueOf(whole).Field(i))
		pod.Spec.Volumes = append(pod.Spec.Volumes, v)
	}

	want, copies := upstream(pod), References{ConfigMaps: map[string]bool{}, Secrets: map[string]bool{}}
	if len(want.ConfigMaps) < 8 || len(want.Secrets) < 9 { // of volumes, projections, variables of each kind of container, and of images
		t.Fatalf("the pod reads %v alone", want)
	}
	if diff := cmp.Diff(want, ReferencesOf(&pod.Spec)); diff != "" {
		t.Errorf("what is copied (-want +got):\n%s", diff)
	}
	for name := range want.ConfigMaps {
		copies.ConfigMaps[names.Copy(name)] = true
	}
	for name := range want.Secrets {
		copies.Secrets[names.Copy(name)] = true
	}
	if diff := cmp.Diff(copies, upstream(Options{}.Pod(pod, home))); diff != "" {
		t.Errorf("what the host's pod reads (-want +got):\n%s", diff)
	}
}

// upstream returns what upstream finds that a pod reads.
func upstream(pod *corev1.Pod) References {
	r := References{ConfigMaps: map[string]bool{}, Secrets: map[string]bool{}}
	note := func(in map[string]bool) podv1.Visitor {
		return func(name string) bool {
			in[name] = true
			return true
		}
	}
	podv1.VisitPodConfigmapNames(pod, note(r.ConfigMaps))
	podv1.VisitPodSecretNames(pod, note(r.Secrets))
	return r
}

// fill gives a value in all fields that are not refused, and below them, texts of which each is another one.
func fill(v reflect.Value, n *int) {
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), n)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0), n)
	case reflect.String:
		*n++
		v.SetString(fmt.Sprintf("n-%d", *n))
	case reflect.Struct:
		for name, treated := range fields[v.Type()] {
			if treated == same || treated == changed {
				fill(v.FieldByName(name), n)
			}
		}
	}
}
