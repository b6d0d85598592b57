package admission

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
)

// TestFlatClaims checks that NodeRestriction does not look at a volume of the system space for a
// claim of a tenant.
func TestFlatClaims(t *testing.T) {
	shared := informers.NewSharedInformerFactory(fake.NewClientset(), 0)
	stored := shared.Core().V1().PersistentVolumeClaims().Informer().GetStore()
	for namespace, want := range map[string]string{"acme|ns": "acme|v", "ns": "v"} {
		claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "c"}, Spec: corev1.PersistentVolumeClaimSpec{VolumeName: "v"}}
		if err := stored.Add(claim); err != nil {
			t.Fatal(err)
		}
		shown, err := withFlatClaims(shared).Core().V1().PersistentVolumeClaims().Lister().PersistentVolumeClaims(namespace).Get("c")
		if err != nil {
			t.Fatal(err)
		}
		if got := shown.Spec.VolumeName; got != want {
			t.Errorf("in %s: got volume %q, want %q", namespace, got, want)
		}
		if claim.Spec.VolumeName != "v" {
			t.Error("a shared claim was changed")
		}
	}
}
