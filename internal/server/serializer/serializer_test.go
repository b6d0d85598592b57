package serializer

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"

	"github.com/tenantry/tenantry/internal/tenant"
)

var testLinks = Links{
	corev1.SchemeGroupVersion.WithKind("ConfigMap"):   {root: "/api/v1", name: "configmaps", namespaced: true},
	corev1.SchemeGroupVersion.WithKind("Namespace"):   {root: "/api/v1", name: "namespaces"},
	rbacv1.SchemeGroupVersion.WithKind("ClusterRole"): {root: RootOf(rbacv1.SchemeGroupVersion), name: "clusterroles"},
}

func encode(t *testing.T, mediaType string, pretty bool, obj runtime.Object) []byte {
	t.Helper()
	wrapped := Wrap(scheme.Codecs.WithoutConversion(), testLinks)
	info, ok := runtime.SerializerInfoForMediaType(wrapped.SupportedMediaTypes(), mediaType)
	if !ok {
		t.Fatalf("no serializer for %q", mediaType)
	}
	s := info.Serializer
	if pretty {
		s = info.PrettySerializer
	}
	var out bytes.Buffer
	versions := schema.GroupVersions{corev1.SchemeGroupVersion, rbacv1.SchemeGroupVersion}
	if err := wrapped.EncoderForVersion(s, versions).Encode(obj, &out); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func configMap(n tenant.Name, name string) corev1.ConfigMap {
	object := corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "ns"},
		Data:       map[string]string{"selfLink": `"selfLink": "x","tenant":"y"`},
	}
	if n != tenant.System {
		object.Annotations = map[string]string{tenant.Annotation: string(n)}
	}
	return object
}

type onWire struct {
	Metadata struct {
		Name, Tenant, SelfLink string
	}
	Data map[string]string
}

func (o *onWire) check(t *testing.T, n, link string) {
	t.Helper()
	if o.Metadata.Tenant != n || o.Metadata.SelfLink != link {
		t.Errorf("tenant %q, selfLink %q; want %q, %q", o.Metadata.Tenant, o.Metadata.SelfLink, n, link)
	}
	if o.Data["selfLink"] != `"selfLink": "x","tenant":"y"` {
		t.Errorf("data was changed: %q", o.Data)
	}
}

func TestEncode(t *testing.T) {
	for name, tc := range map[string]struct {
		mediaType string
		pretty    bool
	}{
		"JSON": {"application/json", false}, "pretty JSON": {"application/json", true}, "YAML": {"application/yaml", false},
	} {
		t.Run(name, func(t *testing.T) {
			object := configMap("acme", "c")
			var got onWire
			if err := yaml.Unmarshal(encode(t, tc.mediaType, tc.pretty, &object), &got); err != nil {
				t.Fatal(err)
			}
			got.check(t, "acme", "/api/v1/tenants/acme/namespaces/ns/configmaps/c")
			if object.SelfLink != "" {
				t.Error("the encoded object was changed")
			}

			object = configMap(tenant.System, "c")
			got = onWire{}
			if err := yaml.Unmarshal(encode(t, tc.mediaType, tc.pretty, &object), &got); err != nil {
				t.Fatal(err)
			}
			got.check(t, "", "/api/v1/namespaces/ns/configmaps/c")

			list := &corev1.ConfigMapList{Items: []corev1.ConfigMap{configMap("a", "1"), configMap("b", "2"), configMap(tenant.System, "3")}}
			var items struct{ Items []onWire }
			if err := yaml.Unmarshal(encode(t, tc.mediaType, tc.pretty, list), &items); err != nil {
				t.Fatal(err)
			}
			if len(items.Items) != 3 {
				t.Fatalf("%d items", len(items.Items))
			}
			items.Items[0].check(t, "a", "/api/v1/tenants/a/namespaces/ns/configmaps/1")
			items.Items[1].check(t, "b", "/api/v1/tenants/b/namespaces/ns/configmaps/2")
			items.Items[2].check(t, "", "/api/v1/namespaces/ns/configmaps/3")
		})
	}
}

func TestSeparatorIsNeverShown(t *testing.T) {
	object := configMap("acme", "c")
	for _, mediaType := range []string{"application/json", "application/yaml"} {
		if out := encode(t, mediaType, false, &object); bytes.Contains(out, separator) {
			t.Errorf("%s", out)
		}
	}
}

func TestKindsWithoutPathStayAsTheyAre(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Annotations: map[string]string{tenant.Annotation: "acme"}}}
	if out := encode(t, "application/json", false, pod); strings.Contains(string(out), "selfLink") {
		t.Errorf("%s", out)
	}
}

func TestDecodeTakesOutWhatEncodePutIn(t *testing.T) {
	wrapped := Wrap(scheme.Codecs.WithoutConversion(), testLinks)
	info, _ := runtime.SerializerInfoForMediaType(wrapped.SupportedMediaTypes(), "application/json")
	object := configMap("acme", "c")
	object.APIVersion, object.Kind = "v1", "ConfigMap"
	encoded := encode(t, "application/json", false, &object)
	if !json.Valid(encoded) {
		t.Fatalf("%s", encoded)
	}
	decoded, _, err := info.StrictSerializer.Decode(encoded, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if name := decoded.(*corev1.ConfigMap).Name; name != "c" {
		t.Errorf("name %q", name)
	}
}
