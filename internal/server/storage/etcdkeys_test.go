package storage

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/storage"

	"github.com/tenantry/tenantry/internal/tenant"
)

// listing answers every list with the same objects, and like upstream's storage
// counts what remains only if no selector hides any.
type listing struct {
	storage.Interface
	items []corev1.ConfigMap
	key   string
}

func (l *listing) GetList(_ context.Context, key string, opts storage.ListOptions, into runtime.Object) error {
	l.key = key
	list := into.(*corev1.ConfigMapList)
	for _, item := range l.items {
		if matches, err := opts.Predicate.Matches(&item); err != nil {
			return err
		} else if matches {
			list.Items = append(list.Items, item)
		}
	}
	if opts.Predicate.Empty() {
		list.RemainingItemCount = new(int64)
	}
	return nil
}

func TestListOfEtcd(t *testing.T) {
	own := func(name string, n tenant.Name) corev1.ConfigMap {
		m := corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "ns"}}
		if n != tenant.System {
			m.Annotations = map[string]string{tenant.Annotation: string(n)}
		}
		return m
	}
	all := []corev1.ConfigMap{own("a", "acme"), own("b", "other"), own("c", tenant.System), own("d", "acme")}
	attributes := spaceAttributes(func(obj runtime.Object) (labels.Set, fields.Set, error) {
		m := obj.(*corev1.ConfigMap)
		return m.Labels, fields.Set{"metadata.name": m.Name, "metadata.namespace": m.Namespace}, nil
	})
	for name, tc := range map[string]struct {
		keys     etcdKeys
		cacheKey string
		selector string
		etcdKey  string
		want     []string
		counted  bool
	}{
		"namespace of a tenant":         {etcdKeys{namespaced: true}, "/m/t/acme/ns/", "", "/m/acme/ns/", []string{"a", "d"}, true},
		"with a selector":               {etcdKeys{namespaced: true}, "/m/t/acme/ns/", "metadata.name=d", "/m/acme/ns/", []string{"d"}, false},
		"all namespaces of a tenant":    {etcdKeys{namespaced: true}, "/m/t/acme/", "", "/m/acme/", []string{"a", "d"}, false},
		"without namespaces":            {etcdKeys{}, "/m/t/acme/", "", "/m/acme/", []string{"a", "d"}, true},
		"custom resources of a tenant":  {etcdKeys{custom: true}, "/m/t/acme/", "", "/m/acme/", []string{"a", "d"}, false},
		"namespace of the system space": {etcdKeys{namespaced: true}, "/m/s/acme/", "", "/m/acme/", []string{"c"}, false},
		"all tenants":                   {etcdKeys{namespaced: true}, "/m/t/", "", "/m/", []string{"a", "b", "d"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			store := &listing{items: all}
			tc.keys.Interface, tc.keys.resourcePrefix, tc.keys.attributes = store, "/m/", attributes
			predicate := storage.SelectionPredicate{Label: labels.Everything(), Field: fields.ParseSelectorOrDie(tc.selector), GetAttrs: attributes}
			var list corev1.ConfigMapList
			if err := tc.keys.GetList(t.Context(), tc.cacheKey, storage.ListOptions{Recursive: true, Predicate: predicate}, &list); err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, item := range list.Items {
				got = append(got, item.Name)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
			if store.key != tc.etcdKey || (list.RemainingItemCount != nil) != tc.counted {
				t.Errorf("key %q, remaining items counted: %v, want %q, %v", store.key, list.RemainingItemCount != nil, tc.etcdKey, tc.counted)
			}
		})
	}
}
