package sync

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestReferences(t *testing.T) {
	r := newReferences()
	a, b := reference{configMapItem, "acme|shop", "a"}, reference{secretItem, "acme|shop", "a"}
	one, two := item{podItem, "acme", "acme|shop", "one"}, item{podItem, "acme", "acme|shop", "two"}
	set := func(i item, now []reference, changed ...reference) {
		t.Helper()
		if diff := cmp.Diff(changed, r.set(i, now), cmp.AllowUnexported(reference{})); diff != "" {
			t.Errorf("what is named changes (-want +got):\n%s", diff)
		}
	}
	set(one, []reference{a, b}, a, b)
	set(two, []reference{a})
	set(one, []reference{b})
	if !r.has(a) || !r.has(b) {
		t.Error("what pods name is not named")
	}
	if got := r.namesOf(a); !slices.Equal(got, []string{"two"}) {
		t.Errorf("it is named by %v", got)
	}
	set(two, []reference{a})
	set(two, nil, a)
	if r.has(a) || !r.has(b) {
		t.Error("what no pod names is named")
	}
	set(one, nil, b)
	if len(r.naming) != 0 || len(r.byItem) != 0 {
		t.Errorf("left are %v and %v", r.naming, r.byItem)
	}
}

// TestSourceBeforePod checks that a copy is looked at of which the source is told before what names it, as at a start:
// it may have been changed while no syncer worked.
func TestSourceBeforePod(t *testing.T) {
	naming := spacePod(both(bound, func(p *corev1.Pod) {
		p.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "m"}}}}}
	}))
	w, source := newWorld(t), item{configMapItem, "acme", "acme|shop", "m"}
	w.sourceChanged(configMapItem)(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "acme|shop", Name: "m"}})
	if got := w.items(); slices.Contains(got, source) {
		t.Errorf("what nobody names is looked at: %v", got)
	}
	w.podChanged(naming)
	if got := w.items(); !slices.Contains(got, source) {
		t.Errorf("looked at are %v", got)
	}
	w.podChanged(naming)
	if got := w.items(); slices.Contains(got, source) {
		t.Error("it is looked at with each change of the pod")
	}
}
