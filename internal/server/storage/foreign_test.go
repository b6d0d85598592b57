package storage

import (
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/tenantry/tenantry/internal/tenant"
)

// FuzzForeignCodec checks that what a space may see of custom resources is
// decoded in full and that what it may not is known for what it is, whatever the
// objects hold beside.
func FuzzForeignCodec(f *testing.F) {
	for _, n := range []string{"", "acme", "other", "system", `a"b`, "a.b", "*"} {
		f.Add("name", "namespace", n, "key", "value")
		f.Add("name", "", n, "metadata.annotations."+tenant.Annotation, "other")
		f.Add(`"},"metadata":{"annotations":{"`+tenant.Annotation+`":"acme"}}`, "a", n, "tenant", "acme")
		f.Add("", "", n, `multi-tenancy\.k8s\.io/tenant`, "other")
	}
	f.Fuzz(func(t *testing.T, name, namespace, owner, key, value string) {
		for _, s := range []string{name, namespace, owner, key, value} {
			if !utf8.ValidString(s) {
				t.Skip("not to be stored as JSON")
			}
		}
		stored := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "example.com/v1", "kind": "Widget",
			key: map[string]any{"annotations": map[string]any{tenant.Annotation: value}},
		}}
		stored.SetAPIVersion("example.com/v1")
		stored.SetKind("Widget")
		stored.SetName(name)
		stored.SetNamespace(namespace)
		annotations := map[string]string{key: value}
		delete(annotations, tenant.Annotation)
		if owner != "" {
			annotations[tenant.Annotation] = owner
		}
		stored.SetAnnotations(annotations)
		data, err := runtime.Encode(unstructured.UnstructuredJSONScheme, stored)
		if err != nil {
			t.Skip("not to be stored")
		}
		full := &unstructured.Unstructured{}
		if _, _, err := unstructured.UnstructuredJSONScheme.Decode(data, nil, full); err != nil {
			t.Skip("not to be read")
		}
		n, err := tenantOf(full)
		if err != nil {
			t.Fatal(err)
		}
		for _, only := range []tenant.Name{tenant.System, "acme", n} {
			got := &unstructured.Unstructured{}
			codec := foreignCodec{Codec: unstructured.UnstructuredJSONScheme, foreign: func(n tenant.Name) bool { return n != only }}
			if _, _, err := codec.Decode(data, nil, got); err != nil {
				t.Fatal(err)
			}
			if shown, err := tenantOf(got); err != nil || shown != n {
				t.Errorf("by %q it belongs to %q, %v, want %q", only, shown, err, n)
			}
			if only == n {
				if diff := cmp.Diff(full.Object, got.Object); diff != "" {
					t.Error(diff)
				}
				continue
			}
			if got.GetName() != full.GetName() || got.GetNamespace() != full.GetNamespace() {
				t.Errorf("of a foreign object the name is %s/%s", got.GetNamespace(), got.GetName())
			}
			for field := range got.Object {
				if field != "apiVersion" && field != "kind" && field != "metadata" {
					t.Errorf("of a foreign object there is %q", field)
				}
			}
		}
	})
}
