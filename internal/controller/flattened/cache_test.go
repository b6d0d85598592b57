package flattened

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func TestSlim(t *testing.T) {
	hard := corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{"pods": resource.MustParse("1")}}
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
			if err := Slim(tc.obj, *tc.want.(metav1.ObjectMetaAccessor).GetObjectMeta().(*metav1.ObjectMeta)); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, tc.obj); diff != "" {
				t.Error(diff)
			}
			if got := string(Space(tc.obj)); got != "acme" {
				t.Errorf("belongs to %q", got)
			}
		})
	}
}
