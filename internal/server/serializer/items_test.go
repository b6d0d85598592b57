package serializer

import (
	"bytes"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/json"

	"github.com/tenantry/tenantry/internal/tenant"
)

// What is encoded is byte by byte what upstream encodes.
func TestItemsAreUpstreams(t *testing.T) {
	first, second := configMap("acme", "a"), configMap(tenant.System, "b")
	second.Data["html"] = "<&>\u2028\n\"items\":[]}"
	kind := metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMapList"}
	page := metav1.ListMeta{ResourceVersion: "7", Continue: "[]}\n"}
	object := map[string]any{"apiVersion": "example.com/v1", "kind": "Thing", "metadata": map[string]any{"name": "a"}}
	lists := map[string]runtime.Object{
		"none":         &corev1.ConfigMapList{TypeMeta: kind, ListMeta: page},
		"empty":        &corev1.ConfigMapList{TypeMeta: kind, ListMeta: page, Items: []corev1.ConfigMap{}},
		"one":          &corev1.ConfigMapList{TypeMeta: kind, ListMeta: page, Items: []corev1.ConfigMap{first}},
		"two":          &corev1.ConfigMapList{TypeMeta: kind, Items: []corev1.ConfigMap{first, second}},
		"of metadata":  &metav1.PartialObjectMetadataList{Items: []metav1.PartialObjectMetadata{{ObjectMeta: first.ObjectMeta}}},
		"of any kind":  &corev1.List{Items: []runtime.RawExtension{{Object: &first}, {Raw: []byte(`{"kind":"Thing"}`)}}},
		"unstructured": &unstructured.UnstructuredList{Object: map[string]any{"kind": "ThingList"}, Items: []unstructured.Unstructured{{Object: object}}},
		"bare":         &unstructured.UnstructuredList{Object: map[string]any{}, Items: []unstructured.Unstructured{{Object: object}, {Object: object}}},
	}
	for format, options := range map[string]json.SerializerOptions{
		"streamed":   {StreamingCollectionsEncoding: true},
		"whole":      {},
		"pretty":     {Pretty: true},
		"YAML":       {Yaml: true},
		"everything": {Strict: true, StreamingCollectionsEncoding: true},
	} {
		encoder := json.NewSerializerWithOptions(json.DefaultMetaFactory, nil, nil, options)
		for name, list := range lists {
			t.Run(format+"/"+name, func(t *testing.T) {
				var want, got bytes.Buffer
				if err := encoder.Encode(list, &want); err != nil {
					t.Fatal(err)
				}
				items, err := meta.ExtractList(list)
				if err != nil {
					t.Fatal(err)
				}
				if err := encodeList(encoder, list, items, &got); err != nil {
					t.Fatal(err)
				}
				if got.String() != want.String() {
					t.Errorf("got:\n%s\nwant upstream's:\n%s", got.String(), want.String())
				}
			})
		}
	}
}
