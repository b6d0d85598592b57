package quota

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/tenantry/tenantry/api/v1alpha1"
	"github.com/tenantry/tenantry/internal/server/storage/cachememory"
	"github.com/tenantry/tenantry/test/until"
)

// TestStoredTakesMemory checks that nothing more is stored than the memory of all allows, whatever the quota does, and
// what needs no more is.
func TestStoredTakesMemory(t *testing.T) {
	const bytes = string(v1alpha1.ResourceStoredBytes)
	limit := list(bytes, "1Gi")
	s := &fakeStore{quota: newQuota("1", limit, limit, list(bytes, "1000"))}
	l := newTestLedger(t, s, s.quota.DeepCopy())
	l.memory = cachememory.New(0, 15000)
	charge := func(before, after int64) error {
		c := change("default", before > 0, true)
		size := map[runtime.Object]int64{c.New: after, c.Old: before}
		c.Size = func(obj runtime.Object) (int64, error) { return size[obj], nil }
		_, err := l.Charge(t.Context(), c)
		return err
	}
	if err := charge(0, 2000); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "--tenant-cache-total-bytes") {
		t.Errorf("a third of what all may have: %v", err)
	}
	for what, change := range map[string][2]int64{"little more": {0, 500}, "less": {5000, 4000}, "as much": {5000, 5000}} {
		if err := charge(change[0], change[1]); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// TestCountStored checks that memory is told what the quotas of tenants say, also of tenants that have gone.
func TestCountStored(t *testing.T) {
	client := fake.NewClientset()
	factory := informers.NewSharedInformerFactory(client, 0)
	memory := cachememory.New(0, 1<<20)
	if err := countStored(factory.Core().V1().ResourceQuotas(), memory); err != nil {
		t.Fatal(err)
	}
	factory.Start(t.Context().Done())
	quotas := client.CoreV1().ResourceQuotas(keyOf("acme").namespace.String())
	all := int64(1<<20) / 3
	refused := func(what string, want bool) {
		t.Helper()
		until.True(t, what, func() bool { return (memory.MayStore("other", 0, all/4) != nil) == want })
	}
	store := func(bytes string) {
		t.Helper()
		q := newQuota("1", nil, nil, list(string(v1alpha1.ResourceStoredBytes), bytes))
		if _, err := quotas.Update(t.Context(), q, metav1.UpdateOptions{}); apierrors.IsNotFound(err) {
			_, err = quotas.Create(t.Context(), q, metav1.CreateOptions{})
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	refused("nothing is stored", false)
	store("256Ki")
	refused("much is stored", true)
	store("1Ki")
	refused("little is stored", false)
	store("256Ki")
	refused("much is stored again", true)
	if err := quotas.Delete(t.Context(), v1alpha1.TenantQuota, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	refused("the tenant has gone", false)
	theirs := newQuota("1", nil, nil, list(string(v1alpha1.ResourceStoredBytes), "1Gi"))
	theirs.Name = "their-own"
	another := newQuota("1", nil, nil, list(string(v1alpha1.ResourceStoredBytes), "256Ki"))
	another.Namespace = keyOf("globex").namespace.String()
	for _, q := range []*corev1.ResourceQuota{theirs, another} { // the second one tells when the first was seen
		if _, err := client.CoreV1().ResourceQuotas(q.Namespace).Create(t.Context(), q, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	refused("another tenant has much", true)
	if err := client.CoreV1().ResourceQuotas(another.Namespace).Delete(t.Context(), v1alpha1.TenantQuota, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	refused("none has", false)
}
