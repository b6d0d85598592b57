package kubecontrollers

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/tenantry/tenantry/internal/spaces"

	"github.com/tenantry/tenantry/internal/tenant"
)

func TestIdentityOf(t *testing.T) {
	type identity struct {
		Namespace, Name, UID, OwnerName, OwnerUID string
	}
	pod := func(namespace, ownerName string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: "p", UID: "u",
			OwnerReferences: []metav1.OwnerReference{{Name: ownerName, UID: "o"}},
		}}
	}
	forged := pod("ns", "a|x")
	forged.OwnerReferences[0].UID = "a|o"
	for name, tc := range map[string]struct {
		obj  any
		want identity
	}{
		"system":         {pod("ns", "x"), identity{"ns", "p", "u", "x", "o"}},
		"tenant":         {pod("a|ns", "x"), identity{"a|ns", "a|p", "a|u", "a|x", "a|o"}},
		"deleted unseen": {cache.DeletedFinalStateUnknown{Obj: pod("a|ns", "x")}, identity{"a|ns", "a|p", "a|u", "a|x", "a|o"}},
		"cluster-scoped": {
			&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "a|r", UID: "u", OwnerReferences: []metav1.OwnerReference{{Name: "x", UID: "o"}}}},
			identity{"", "a|r", "a|u", "a|x", "a|o"},
		},
		"system object that names a tenant's owner": {forged, identity{"ns", "p", "u", "system|a|x", "system|a|o"}},
	} {
		t.Run(name, func(t *testing.T) {
			obj := identityOf(tc.obj).(metav1.Object)
			owner := obj.GetOwnerReferences()[0]
			got := identity{obj.GetNamespace(), obj.GetName(), string(obj.GetUID()), owner.Name, string(owner.UID)}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("identity (-want +got):\n%s", diff)
			}
		})
	}
	if forged.OwnerReferences[0].Name != "a|x" {
		t.Error("the shared object was changed")
	}
}

// TestGarbageCollectorReadsNoStore checks that the collector, which saves a request where
// a store has the owner, finds nothing there. The shared store has objects by the names
// that they have in their space: an owner "a|ns/x" of one would answer for another.
func TestGarbageCollectorReadsNoStore(t *testing.T) {
	factory, err := spaces.NewInformerFactory(&rest.Config{Host: "https://127.0.0.1:1"}, 0)
	if err != nil {
		t.Fatal(err)
	}
	informers := &identityInformers{typed: factory, interest: newInterest(factory, func(tenant.Name) {})}
	resource := corev1.SchemeGroupVersion.WithResource("configmaps")
	shared, err := factory.ForResource(resource)
	if err != nil {
		t.Fatal(err)
	}
	if err := shared.Informer().GetStore().Add(object("a|ns", "owner")); err != nil {
		t.Fatal(err)
	}
	informer, err := informers.ForResource(resource)
	if err != nil {
		t.Fatal(err)
	}
	if keys := informer.Informer().GetStore().ListKeys(); len(keys) > 0 {
		t.Errorf("the collector finds %v without asking for their identity", keys)
	}
}
