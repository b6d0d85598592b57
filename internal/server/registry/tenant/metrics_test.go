package tenant

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tenantry/tenantry/api/v1alpha1"
)

func TestPhases(t *testing.T) {
	ready := func(status metav1.ConditionStatus) func(*v1alpha1.Tenant) {
		return func(t *v1alpha1.Tenant) {
			t.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: status}}
		}
	}
	deleted := func(t *v1alpha1.Tenant) { t.DeletionTimestamp = &metav1.Time{} }
	suspended := func(t *v1alpha1.Tenant) { t.Spec.Suspended = true }
	l := NewLookup(&Storage{})
	for _, tenant := range []*v1alpha1.Tenant{
		newTenant("new"),
		newTenant("not-ready", ready(metav1.ConditionFalse)),
		newTenant("ready", ready(metav1.ConditionTrue)),
		newTenant("ready-too", ready(metav1.ConditionTrue)),
		newTenant("suspended", ready(metav1.ConditionTrue), suspended),
		newTenant("deleted", ready(metav1.ConditionTrue), suspended, deleted),
	} {
		l.Set(tenant)
	}
	want := map[string]int{"Ready": 2, "Progressing": 2, "Suspended": 1, "Terminating": 1}
	if diff := cmp.Diff(want, l.phases()); diff != "" {
		t.Error(diff)
	}
}
