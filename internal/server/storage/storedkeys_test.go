package storage

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
)

// TestFormerKeys checks that etcd has keys by the names of the first version, which
// older servers know, and that nothing above it has these names, whoever wrote them.
func TestFormerKeys(t *testing.T) {
	protobuf, _ := runtime.SerializerInfoForMediaType(scheme.Codecs.SupportedMediaTypes(), runtime.ContentTypeProtobuf)
	codecs := map[string]runtime.Codec{
		"built in": scheme.Codecs.CodecForVersions(protobuf.Serializer, scheme.Codecs.UniversalDeserializer(),
			corev1.SchemeGroupVersion, corev1.SchemeGroupVersion),
		"custom": unstructured.UnstructuredJSONScheme,
	}
	for name, tc := range map[string]struct {
		annotations, labels             map[string]string
		storedAnnotations, storedLabels map[string]string
		// read are the annotations and labels that are read, if others than were written.
		readAnnotations, readLabels map[string]string
	}{
		"nothing": {},
		"others": {
			annotations: map[string]string{"a": "b"}, labels: map[string]string{"c": "d"},
			storedAnnotations: map[string]string{"a": "b"}, storedLabels: map[string]string{"c": "d"},
		},
		"a copy": {
			annotations: map[string]string{"tenantry.io/tenant": "acme", "tenantry.io/published-from": "u/h", "a": "b"},
			labels:      map[string]string{"tenantry.io/published-copy": "true"},
			storedAnnotations: map[string]string{
				"multi-tenancy.k8s.io/tenant": "acme", "multi-tenancy.k8s.io/published-from": "u/h", "a": "b",
			},
			storedLabels: map[string]string{"multi-tenancy.k8s.io/published-copy": "true"},
		},
		"a published definition": {
			annotations:       map[string]string{"multi-tenancy.k8s.io/published": "true"},
			labels:            map[string]string{"tenantry.io/published-definition": "true"},
			storedAnnotations: map[string]string{"multi-tenancy.k8s.io/published": "true"},
			storedLabels:      map[string]string{"multi-tenancy.k8s.io/published-definition": "true"},
		},
		"forged by the former names": {
			annotations:       map[string]string{"multi-tenancy.k8s.io/tenant": "b", "multi-tenancy.k8s.io/published-from": "u/h", "a": "b"},
			labels:            map[string]string{"multi-tenancy.k8s.io/published-copy": "true", "c": "d"},
			storedAnnotations: map[string]string{"a": "b"}, storedLabels: map[string]string{"c": "d"},
			readAnnotations: map[string]string{"a": "b"}, readLabels: map[string]string{"c": "d"},
		},
		"forged beside what is true": {
			annotations:       map[string]string{"tenantry.io/tenant": "a", "multi-tenancy.k8s.io/tenant": "b"},
			storedAnnotations: map[string]string{"multi-tenancy.k8s.io/tenant": "a"},
			readAnnotations:   map[string]string{"tenantry.io/tenant": "a"},
		},
	} {
		for kind, upstream := range codecs {
			t.Run(name+", "+kind, func(t *testing.T) {
				object := &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}}
				object.Annotations, object.Labels = tc.annotations, tc.labels
				written := converted(t, kind, object)
				before := written.DeepCopyObject()
				codec := keysCodec{upstream}
				data, err := runtime.Encode(codec, written)
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(before, written); diff != "" {
					t.Errorf("what is written was changed: %s", diff)
				}
				checkKeys(t, upstream, data, tc.storedAnnotations, tc.storedLabels)
				if tc.readAnnotations == nil {
					tc.readAnnotations, tc.readLabels = tc.annotations, tc.labels
				}
				checkKeys(t, codec, data, tc.readAnnotations, tc.readLabels)
			})
		}
	}
	// What a conversion webhook puts there is not the server's.
	data := []byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"annotations":{"tenantry.io/tenant":"b"},"labels":{"tenantry.io/published-copy":"true"}}}`)
	checkKeys(t, keysCodec{unstructured.UnstructuredJSONScheme}, data, nil, nil)
}

// converted returns an object of the type that is built in or custom.
func converted(t *testing.T, kind string, object *metav1.PartialObjectMetadata) runtime.Object {
	t.Helper()
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		t.Fatal(err)
	}
	if strings.HasPrefix(kind, "custom") {
		return &unstructured.Unstructured{Object: content}
	}
	typed := &corev1.ConfigMap{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(content, typed); err != nil {
		t.Fatal(err)
	}
	return typed
}

func checkKeys(t *testing.T, codec runtime.Codec, data []byte, annotations, labels map[string]string) {
	t.Helper()
	obj, err := runtime.Decode(codec, data)
	if err != nil {
		t.Fatal(err)
	}
	got := obj.(metav1.Object)
	want := [2]map[string]string{annotations, labels}
	for i, m := range []map[string]string{got.GetAnnotations(), got.GetLabels()} {
		if len(m)+len(want[i]) > 0 && !cmp.Equal(m, want[i]) {
			t.Errorf("got %v, want %v", m, want[i])
		}
	}
}
