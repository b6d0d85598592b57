package kubecontrollers

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"

	"github.com/tenantry/tenantry/internal/tenant"
)

// TestJobsOfOtherSpaces checks that a CronJob has no Jobs but those of its namespace.
func TestJobsOfOtherSpaces(t *testing.T) {
	views := informers.NewSharedInformerFactory(fake.NewClientset(), 0).Batch().V1()
	const byOwner = "byOwner"
	jobs := views.Jobs().Informer()
	if err := jobs.AddIndexers(cache.Indexers{byOwner: func(obj any) ([]string, error) {
		return []string{string(metav1.GetControllerOf(obj.(metav1.Object)).UID)}, nil
	}}); err != nil {
		t.Fatal(err)
	}
	const uid = types.UID("known to others")
	in := func(space tenant.Name, namespace, name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: tenant.Flatten(space, namespace).String(), Name: name}
	}
	nightly := &batchv1.CronJob{ObjectMeta: in("a", "default", "nightly")}
	nightly.UID = uid
	// One of another tenant with the same name is another one.
	other := &batchv1.CronJob{ObjectMeta: in("b", "default", "nightly")}
	other.UID = "its own"
	for _, obj := range []*batchv1.CronJob{nightly, other} {
		if err := views.CronJobs().Informer().GetStore().Add(obj); err != nil {
			t.Fatal(err)
		}
	}
	for _, meta := range []metav1.ObjectMeta{
		in("a", "default", "own"), in("a", "test", "elsewhere"), in("b", "default", "foreign"), in(tenant.System, "default", "system"),
	} {
		meta.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(nightly, batchv1.SchemeGroupVersion.WithKind("CronJob"))}
		if err := jobs.GetStore().Add(&batchv1.Job{ObjectMeta: meta}); err != nil {
			t.Fatal(err)
		}
	}
	found, err := ownedJobs(views.Jobs(), views.CronJobs().Lister()).Informer().GetIndexer().ByIndex(byOwner, string(uid))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, obj := range found {
		names = append(names, obj.(*batchv1.Job).Name)
	}
	if diff := cmp.Diff([]string{"own"}, names); diff != "" {
		t.Error(diff)
	}
}
