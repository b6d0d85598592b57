package tenant

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/tenantry/tenantry/api/v1alpha1"
)

var (
	pods     = schema.GroupResource{Resource: "pods"}
	volumes  = schema.GroupResource{Resource: "persistentvolumes"}
	roles    = schema.GroupResource{Group: rbacv1.GroupName, Resource: "clusterroles"}
	bindings = schema.GroupResource{Group: rbacv1.GroupName, Resource: "clusterrolebindings"}
)

func TestNextStage(t *testing.T) {
	for name, tc := range map[string]struct {
		left remaining
		want []schema.GroupResource
	}{
		"RBAC waits":            {remaining{volumes: 1, pods: 1, roles: 1, bindings: 1}, []schema.GroupResource{volumes, pods}},
		"bindings before roles": {remaining{roles: 1, bindings: 1}, []schema.GroupResource{bindings}},
		"roles last":            {remaining{roles: 1}, []schema.GroupResource{roles}},
		"nothing":               {remaining{}, nil},
	} {
		if diff := cmp.Diff(tc.want, nextStage(tc.left)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

func deleted(age time.Duration) func(*v1alpha1.Tenant) {
	return func(t *v1alpha1.Tenant) {
		at := metav1.NewTime(time.Now().Add(-age))
		t.DeletionTimestamp = &at
	}
}

func object(resource schema.GroupResource, name string, finalizers ...string) StoredObject {
	return StoredObject{Resource: resource.WithVersion("v1"), Name: name, UID: "u", Finalizers: finalizers}
}

func in(namespace string, o StoredObject) StoredObject {
	o.Namespace = namespace
	return o
}

func ending(o StoredObject) StoredObject {
	o.Terminating = true
	return o
}

func terminating(name string, finalizers ...corev1.FinalizerName) corev1.Namespace {
	now := metav1.Now()
	return corev1.Namespace{
		ObjectMeta: metav1.ObjectMeta{Name: name, DeletionTimestamp: &now},
		Spec:       corev1.NamespaceSpec{Finalizers: finalizers},
	}
}

func TestDelete(t *testing.T) {
	now := metav1.Now()
	stuck := corev1.Namespace{
		ObjectMeta: metav1.ObjectMeta{Name: "b", DeletionTimestamp: &now},
		Status: corev1.NamespaceStatus{Conditions: []corev1.NamespaceCondition{
			{Type: corev1.NamespaceContentRemaining, Status: "True", Message: "some are left"},
			{Type: corev1.NamespaceFinalizersRemaining, Status: "True", Message: "example.com/keep in 1 instance"},
		}},
	}
	for name, tc := range map[string]struct {
		age        time.Duration
		finalize   []error
		namespaces []corev1.Namespace
		objects    map[schema.GroupResource][]StoredObject
		calls      []string
		waits      bool
		message    string // part of the condition Deleting, empty for none
		left       int64
	}{
		"already empty": {finalize: []error{nil}, calls: []string{"verify", "finalize"}},
		"content of namespaces that finalizers hold": {
			age:        time.Minute,
			finalize:   []error{notEmpty(remaining{namespaces: 2, pods: 2, volumes: 1, bindings: 1})},
			namespaces: []corev1.Namespace{{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, stuck},
			objects: map[schema.GroupResource][]StoredObject{
				pods: {in("a", object(pods, "p", "example.com/keep"))}, volumes: {object(volumes, "v")},
			},
			calls: []string{
				"verify", "list namespaces", "delete namespace a", "list persistentvolumes", "list pods", "delete pods a/p",
			},
			waits: true, left: 6,
			message: "waiting for the finalizers of pods a/p; etcd still holds 1 clusterrolebindings.rbac.authorization.k8s.io, 2 namespaces, 1 persistentvolumes, 2 pods",
		},
		"namespaces with keys that nothing serves": {
			age:        time.Minute,
			finalize:   []error{notEmpty(remaining{namespaces: 1, pods: 3})},
			namespaces: []corev1.Namespace{stuck},
			calls:      []string{"verify", "list namespaces", "list pods"},
			waits:      true, left: 4,
			message: "waiting for namespaces b (example.com/keep in 1 instance); etcd still holds 1 namespaces, 3 pods",
		},
		"empty namespaces go, finalizers of others are honoured": {
			age:      time.Minute,
			finalize: []error{notEmpty(remaining{namespaces: 2, volumes: 1})},
			namespaces: []corev1.Namespace{
				terminating("c", "kubernetes"), terminating("d", "example.com/keep", "kubernetes"), terminating("e", "example.com/keep"),
			},
			objects: map[schema.GroupResource][]StoredObject{volumes: {object(volumes, "v")}},
			calls: []string{
				"verify", "list namespaces", "list persistentvolumes",
				"finalize namespace c to []", "finalize namespace d to [example.com/keep]",
			},
			waits: true, left: 3, message: "waiting for namespaces d, e;",
		},
		"pods that are given time to end": {
			age:        time.Minute,
			finalize:   []error{notEmpty(remaining{namespaces: 1, pods: 1})},
			namespaces: []corev1.Namespace{stuck},
			objects:    map[schema.GroupResource][]StoredObject{pods: {ending(in("b", object(pods, "p")))}},
			calls:      []string{"verify", "list namespaces", "list pods"},
			waits:      true, left: 2, message: "waiting for pods b/p to end",
		},
		"in one go": {
			finalize: []error{notEmpty(remaining{volumes: 1, bindings: 1}), notEmpty(remaining{bindings: 1}), nil},
			objects: map[schema.GroupResource][]StoredObject{
				volumes: {object(volumes, "v")}, bindings: {object(bindings, "b")},
			},
			calls: []string{
				"verify", "list persistentvolumes", "delete persistentvolumes v",
				"verify", "list clusterrolebindings.rbac.authorization.k8s.io", "delete clusterrolebindings.rbac.authorization.k8s.io b",
				"verify", "finalize",
			},
			message: "deleting 1 clusterrolebindings", left: 2,
		},
		"finalizers are honoured, RBAC stays": {
			age:      time.Minute,
			finalize: []error{notEmpty(remaining{volumes: 1, bindings: 1})},
			objects:  map[schema.GroupResource][]StoredObject{volumes: {object(volumes, "v", "example.com/keep")}},
			calls:    []string{"verify", "list persistentvolumes", "delete persistentvolumes v"},
			waits:    true, left: 2,
			message: "waiting for the finalizers of persistentvolumes v",
		},
		"keys that nothing serves": {
			age:      time.Minute,
			finalize: []error{notEmpty(remaining{volumes: 1})},
			calls:    []string{"verify", "list persistentvolumes"},
			waits:    true, left: 1, message: "no API serves them",
		},
	} {
		t.Run(name, func(t *testing.T) {
			acme := newTenant(deleted(tc.age))
			f := newFixture(t, acme)
			f.finalize, f.spaces.namespaces, f.spaces.objects = tc.finalize, tc.namespaces, tc.objects
			key := client.ObjectKeyFromObject(acme)
			result, err := f.Reconcile(context.Background(), reconcile.Request{NamespacedName: key})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.calls, f.spaces.calls, cmpopts.SortSlices(strings.Compare)); diff != "" {
				t.Errorf("calls: %s", diff)
			}
			if waits := result.RequeueAfter > 0; waits != tc.waits {
				t.Errorf("looks again after %s", result.RequeueAfter)
			}
			receipts := &eventsv1.EventList{}
			if err := f.Client.List(context.Background(), receipts); err != nil {
				t.Fatal(err)
			}
			if (len(receipts.Items) == 1) == tc.waits {
				t.Errorf("receipts: %v", receipts.Items)
			}
			got := &v1alpha1.Tenant{}
			if err := f.Client.Get(context.Background(), key, got); err != nil {
				t.Fatal(err)
			}
			c := meta.FindStatusCondition(got.Status.Conditions, v1alpha1.ConditionDeleting)
			if tc.message == "" {
				if c != nil {
					t.Errorf("unexpected condition %+v", c)
				}
				return
			}
			if c == nil || !strings.Contains(c.Message, tc.message) {
				t.Errorf("condition %+v, want message %q", c, tc.message)
			}
			if got.Status.Deletion == nil || got.Status.Deletion.Left != tc.left {
				t.Errorf("deletion %+v, want %d left", got.Status.Deletion, tc.left)
			}
		})
	}
}

func TestDeleteWithoutFinalizer(t *testing.T) {
	acme := newTenant(deleted(0), func(t *v1alpha1.Tenant) { t.Finalizers = []string{"example.com/other"} })
	f := newFixture(t, acme)
	if _, err := f.Reconcile(context.Background(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(acme)}); err != nil {
		t.Fatal(err)
	}
	if len(f.spaces.calls) > 0 {
		t.Errorf("calls %q for a space that is gone", f.spaces.calls)
	}
}

func TestDeletionPoll(t *testing.T) {
	for age, want := range map[time.Duration]time.Duration{
		0: minDeletionPoll, time.Hour: maxDeletionPoll,
	} {
		acme := newTenant(deleted(age))
		f := newFixture(t, acme)
		result, err := f.awaitDeletion(context.Background(), acme, remaining{pods: 1}, outcome{waiting: "pods"})
		if err != nil || result.RequeueAfter != want {
			t.Errorf("age %s: looks again after %s, %v; want %s", age, result.RequeueAfter, err, want)
		}
	}
}
