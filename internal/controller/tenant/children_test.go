package tenant

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tenantry/tenantry/internal/tenant"
)

func stored(namespace, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: namespace, Name: name, UID: "u", ResourceVersion: "7",
		Labels: map[string]string{"l": "v"}, Annotations: map[string]string{tenant.Annotation: "acme", "a": "b"},
	}
}

func slim(namespace, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name, UID: "u", ResourceVersion: "7"}
}

func TestTrim(t *testing.T) {
	hard := corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{"pods": one}}
	role := rbacv1.RoleRef{Name: "cluster-admin"}
	for name, tc := range map[string]struct{ obj, want client.Object }{
		"namespace": {
			&corev1.Namespace{ObjectMeta: stored("", "default"), Spec: corev1.NamespaceSpec{Finalizers: []corev1.FinalizerName{"kubernetes"}}},
			&corev1.Namespace{ObjectMeta: slim("", "acme|default")},
		},
		"service account": {
			&corev1.ServiceAccount{ObjectMeta: stored("default", "default"), Secrets: []corev1.ObjectReference{{Name: "s"}}},
			&corev1.ServiceAccount{ObjectMeta: slim("acme|default", "default")},
		},
		"quota": {
			&corev1.ResourceQuota{ObjectMeta: stored("default", "q"), Spec: hard, Status: corev1.ResourceQuotaStatus{Hard: hard.Hard}},
			&corev1.ResourceQuota{ObjectMeta: slim("acme|default", "q"), Spec: hard, Status: corev1.ResourceQuotaStatus{Hard: hard.Hard}},
		},
		"binding": {
			&rbacv1.ClusterRoleBinding{ObjectMeta: stored("", "b"), RoleRef: role},
			&rbacv1.ClusterRoleBinding{ObjectMeta: slim("", "acme|b"), RoleRef: role},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if err := trim(tc.obj); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, tc.obj); diff != "" {
				t.Error(diff)
			}
			if got := tenantOf(tc.obj); got != "acme" {
				t.Errorf("belongs to %q", got)
			}
		})
	}
}

func TestTrimEvent(t *testing.T) {
	foreign := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "default"}}
	if got, _ := trimEvent(watch.Event{Type: watch.Added, Object: foreign}); got.Type != watch.Error {
		t.Errorf("an object without tenant became %+v", got)
	}
	bookmark := watch.Event{Type: watch.Bookmark, Object: &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{ResourceVersion: "9"}}}
	if got, pass := trimEvent(bookmark); !pass || got.Type != watch.Bookmark {
		t.Errorf("a bookmark became %+v", got)
	}
}
