package flattened

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tenantry/tenantry/internal/tenant"
)

var names = Keep(func(obj runtime.Object, slim metav1.ObjectMeta) error {
	switch o := obj.(type) {
	case *corev1.Namespace:
		*o = corev1.Namespace{ObjectMeta: slim}
	case *corev1.ServiceAccount:
		*o = corev1.ServiceAccount{ObjectMeta: slim}
	}
	return nil
})

func stored(namespace, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: namespace, Name: name, UID: "u", ResourceVersion: "7",
		Labels: map[string]string{"l": "v"}, Annotations: map[string]string{tenant.Annotation: "acme", "a": "b"},
	}
}

func slim(namespace, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name, UID: "u", ResourceVersion: "7"}
}

func TestTrimEvent(t *testing.T) {
	for name, tc := range map[string]struct{ obj, want client.Object }{
		"cluster-scoped": {&corev1.Namespace{ObjectMeta: stored("", "default")}, &corev1.Namespace{ObjectMeta: slim("", "acme|default")}},
		"in a namespace": {&corev1.ServiceAccount{ObjectMeta: stored("default", "default")}, &corev1.ServiceAccount{ObjectMeta: slim("acme|default", "default")}},
	} {
		t.Run(name, func(t *testing.T) {
			got, pass := names.trimEvent(watch.Event{Type: watch.Added, Object: tc.obj})
			if diff := cmp.Diff(watch.Event{Type: watch.Added, Object: tc.want}, got); diff != "" || !pass {
				t.Error(diff)
			}
			if got := Space(tc.obj); got != "acme" {
				t.Errorf("is in %q", got)
			}
		})
	}
	foreign := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "default"}}
	if got, _ := names.trimEvent(watch.Event{Type: watch.Added, Object: foreign}); got.Type != watch.Error {
		t.Errorf("an object without tenant became %+v", got)
	}
	bookmark := watch.Event{Type: watch.Bookmark, Object: &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{ResourceVersion: "9"}}}
	if got, pass := names.trimEvent(bookmark); !pass || got.Type != watch.Bookmark {
		t.Errorf("a bookmark became %+v", got)
	}
}
