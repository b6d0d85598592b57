package serializer

import (
	"encoding/json"
	"net/url"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/validate/content"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"

	"github.com/tenantry/tenantry/internal/tenant"
)

// FuzzEncode checks that whatever an object holds, clients read the tenant and the
// rest of the object as they are. Names of roles may be nearly anything.
func FuzzEncode(f *testing.F) {
	for _, name := range []string{
		"role", "system:role", "role:", "a: b", "a #b", "it's", `say "x"`, "a\nb", "a\n  tenant: other", "ünïcode", " ", "'", "\\", "\t", "\x7f", "&<>",
		`","tenant":"other`, "a very long name with many spaces in it that goes on and on far beyond the end of any line of text",
	} {
		f.Add(name, "acme", "value")
		f.Add("role", "acme", name)
	}
	for _, n := range []string{"123", "1e3", "null", "true", "no", "y", "0x1f", "1-2", "a-b"} {
		f.Add("role", n, "value")
	}
	f.Fuzz(func(t *testing.T, name, space, value string) {
		n, err := tenant.Parse(space)
		if err != nil || !n.IsSpace() || name == "" || len(content.IsPathSegmentName(name)) > 0 || !utf8.ValidString(name) || !utf8.ValidString(value) {
			t.Skip("not to be stored")
		}
		object := rbacv1.ClusterRole{
			TypeMeta:   metav1.TypeMeta{APIVersion: "rbac.authorization.k8s.io/v1", Kind: "ClusterRole"},
			ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{tenant.Annotation: space, "x": value}},
			Rules:      []rbacv1.PolicyRule{{Verbs: []string{value}}},
		}
		list := &rbacv1.ClusterRoleList{
			TypeMeta: metav1.TypeMeta{APIVersion: "rbac.authorization.k8s.io/v1", Kind: "ClusterRoleList"},
			Items:    []rbacv1.ClusterRole{object, object},
		}
		for _, format := range []wireFormat{{"application/json", false}, {"application/json", true}, {"application/yaml", false}} {
			unmarshal := json.Unmarshal
			if format.mediaType == "application/yaml" {
				if strings.ContainsFunc(name+value, isUnreadable) {
					continue
				}
				unmarshal = func(data []byte, into any) error { return yaml.Unmarshal(data, into) }
			}
			var got roleOnWire
			if err := unmarshal(encode(t, format.mediaType, format.pretty, &object), &got); err != nil {
				t.Fatalf("%v: %v", format, err)
			}
			got.check(t, format, space, name, value)
			var items struct{ Items []roleOnWire }
			if err := unmarshal(encode(t, format.mediaType, format.pretty, list.DeepCopy()), &items); err != nil {
				t.Fatalf("%v: %v", format, err)
			}
			if len(items.Items) != len(list.Items) {
				t.Fatalf("%v: %d items", format, len(items.Items))
			}
			for _, item := range items.Items {
				item.check(t, format, space, name, value)
			}
		}
	})
}

// isUnreadable reports whether upstream's own decoder of YAML refuses a character.
func isUnreadable(r rune) bool {
	return unicode.IsControl(r) && !strings.ContainsRune("\t\n", r) || r > 0xd7ff
}

type wireFormat struct {
	mediaType string
	pretty    bool
}

type roleOnWire struct {
	Metadata struct {
		Name, Tenant, SelfLink string
		Annotations            map[string]string
	}
	Rules []rbacv1.PolicyRule
}

func (r *roleOnWire) check(t *testing.T, format wireFormat, space, name, value string) {
	t.Helper()
	if r.Metadata.Name != name || r.Metadata.Tenant != space {
		t.Errorf("%v: name %q, tenant %q, want %q, %q", format, r.Metadata.Name, r.Metadata.Tenant, name, space)
	}
	if len(r.Rules) != 1 || r.Rules[0].Verbs[0] != value || r.Metadata.Annotations["x"] != value {
		t.Errorf("%v: %q is not in %v and %q", format, value, r.Rules, r.Metadata.Annotations)
	}
	link, err := url.Parse(r.Metadata.SelfLink)
	if err != nil {
		t.Errorf("%v: %v", format, err)
	} else if want := "/apis/rbac.authorization.k8s.io/v1/tenants/" + space + "/clusterroles/" + name; link.Path != want {
		t.Errorf("%v: the link %q leads to %q, want %q", format, r.Metadata.SelfLink, link.Path, want)
	}
}

// FuzzDecode checks that decoding takes out the tenant and the link, and nothing else.
func FuzzDecode(f *testing.F) {
	for _, metadata := range []string{
		`{"name":"c","tenant":"acme"}`, `{"name":"c","selfLink":"/x","tenant":"acme"}`, `{"tenant":"acme","name":"c"}`, `{"tenant":null}`, `{"tenant":{"tenant":"x"}}`, `{"tenant":"a","tenant":"b"}`,
		`{"annotations":{"tenant":"x"}}`, `{"labels":{"tenant":"x"},"tenant":""}`, `[]`, `"tenant"`, `{"ten\u0061nt":"acme"}`, `{"tenant":"acme"`,
	} {
		f.Add(`{"kind":"ConfigMap","apiVersion":"v1","metadata":` + metadata + `,"data":{"tenant":"kept"}}`)
	}
	f.Add(`{"metadata":{"name":"c"},"kind":"ConfigMap","apiVersion":"v1","metadata":{"tenant":"acme"}}`)
	f.Fuzz(func(t *testing.T, body string) {
		plain, _ := runtime.SerializerInfoForMediaType(scheme.Codecs.SupportedMediaTypes(), "application/json")
		wrapped, _ := runtime.SerializerInfoForMediaType(Wrap(scheme.Codecs.WithoutConversion(), testLinks).SupportedMediaTypes(), "application/json")
		want, _, wantErr := plain.Serializer.Decode([]byte(body), nil, nil)
		got, _, err := wrapped.Serializer.Decode([]byte(body), nil, nil)
		if wantErr != nil {
			return // a body that upstream refuses may be accepted without its tenant
		}
		if err != nil {
			t.Fatalf("%s: %v", body, err)
		}
		if linked, ok := want.(metav1.ObjectMetaAccessor); ok {
			linked.GetObjectMeta().SetSelfLink("")
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s:\n%s", body, diff)
		}
	})
}
