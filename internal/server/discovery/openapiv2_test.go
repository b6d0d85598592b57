package discovery

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/tenantry/tenantry/internal/tenant"
)

// documentOf returns a document with one path and one definition.
func documentOf(name string) *spec.Swagger {
	return &spec.Swagger{SwaggerProps: spec.SwaggerProps{
		Swagger:     "2.0",
		Info:        &spec.Info{InfoProps: spec.InfoProps{Title: name, Version: "1"}},
		Paths:       &spec.Paths{Paths: map[string]spec.PathItem{"/" + name: {}}},
		Definitions: spec.Definitions{name: *spec.StringProperty()},
	}}
}

// definitionOf returns an established definition that serves v1, and does not serve v2.
func definitionOf(plural, kind string, generation int64, fields ...string) *apiextensionsv1.CustomResourceDefinition {
	properties := map[string]apiextensionsv1.JSONSchemaProps{}
	for _, field := range fields {
		properties[field] = apiextensionsv1.JSONSchemaProps{Type: "string"}
	}
	validation := &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object", Properties: properties}}
	return &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: plural + ".example.com", UID: types.UID(kind), Generation: generation},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: "example.com", Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: plural, Kind: kind, ListKind: kind + "List"},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{Name: "v1", Served: true, Storage: true, Schema: validation}, {Name: "v2", Schema: validation}},
		},
		Status: apiextensionsv1.CustomResourceDefinitionStatus{
			Conditions: []apiextensionsv1.CustomResourceDefinitionCondition{{Type: apiextensionsv1.Established, Status: apiextensionsv1.ConditionTrue}},
		},
	}
}

// serving is a server of definitions, of which a space does not see those with a name in hidden.
func serving(hidden string, definitions ...*apiextensionsv1.CustomResourceDefinition) Server {
	return Server{
		Definitions: func() []*apiextensionsv1.CustomResourceDefinition { return append(definitions[:0:0], definitions...) },
		Serves:      func(resource schema.GroupResource, _ bool) bool { return resource.String() != hidden },
	}
}

// get answers a request for a document.
func get(t *testing.T, handler http.Handler, url string) *httptest.ResponseRecorder {
	t.Helper()
	response := httptest.NewRecorder()
	handler.ServeHTTP(response, httptest.NewRequest(http.MethodGet, url, nil))
	if response.Code != http.StatusOK {
		t.Errorf("%s is answered with %d: %s", url, response.Code, response.Body)
	}
	return response
}

// TestOpenAPI reads what spaces see, in both versions, before and after changes.
func TestOpenAPI(t *testing.T) {
	documents := newOpenAPI(func() []*spec.Swagger { return []*spec.Swagger{documentOf("pods"), documentOf("crds")} })
	widgets, gadgets := definitionOf("widgets", "Widget", 1, "colour"), definitionOf("gadgets", "Gadget", 1)
	unestablished := definitionOf("gears", "Gear", 1)
	unestablished.Status = apiextensionsv1.CustomResourceDefinitionStatus{}
	other := definitionOf("widgets", "Widget", 2, "size")
	another := definitionOf("gizmos", "Gadget", 1, "own")
	v1 := openAPIv3Path + "/apis/example.com/v1"
	for _, tc := range []struct {
		n       tenant.Name
		servers []Server
		want    []string
	}{
		{"a", []Server{serving("", widgets, unestablished)}, []string{"Widget colour"}},
		{"a", []Server{serving("", widgets, unestablished)}, []string{"Widget colour"}}, // as it is kept
		{"b", []Server{serving("", gadgets)}, []string{"Gadget"}},
		{"a", []Server{serving("", other, gadgets)}, []string{"Gadget", "Widget size"}},
		{"c", []Server{serving("", other), serving("widgets.example.com", widgets, gadgets)}, []string{"Gadget", "Widget size"}},
		{"e", []Server{serving("gadgets.example.com", widgets, gadgets)}, []string{"Widget colour"}},
		{"d", []Server{serving("", another), serving("", gadgets)}, []string{"Gadget own"}}, // of one kind, the space's own
	} {
		var swagger spec.Swagger
		if err := swagger.UnmarshalJSON(get(t, documents.documentV2(tc.n, tc.servers), openAPIv2Path).Body.Bytes()); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(append(tc.want, "crds", "pods"), kindsOf(swagger.Definitions)); diff != "" {
			t.Errorf("v2 of %s: %s", tc.n, diff)
		}
		url := pathsOf(tc.servers)["apis/example.com/v1"].ServerRelativeURL
		for asked, kept := range map[string]string{v1: "", v1 + "?hash=old": "", url: "private, immutable"} {
			document, err := documents.documentV3(httptest.NewRequest(http.MethodGet, v1, nil), tc.n, tc.servers)
			if err != nil {
				t.Fatal(err)
			}
			response := get(t, document, asked)
			var openapi struct {
				Components struct{ Schemas spec.Definitions }
			}
			if err := json.Unmarshal(response.Body.Bytes(), &openapi); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, kindsOf(openapi.Components.Schemas)); diff != "" {
				t.Errorf("%s of %s: %s", asked, tc.n, diff)
			}
			if got := response.Header().Get(cacheControl); got != kept {
				t.Errorf("%s of %s may be kept: %q, want %q", asked, tc.n, got, kept)
			}
		}
		for _, path := range []string{"/apis/example.com/v2", "/apis/example.org/v1", "/apis/example.com", "/apis/example.com/v1/more"} {
			if document, err := documents.documentV3(httptest.NewRequest(http.MethodGet, openAPIv3Path+path, nil), tc.n, tc.servers); document != nil || err != nil {
				t.Errorf("%s has a document at %s, or %v", tc.n, path, err)
			}
		}
	}
}

// kindsOf returns the kinds among schemas, with their fields, and the names of built-in ones.
func kindsOf(schemas spec.Definitions) (kinds []string) {
	for name, schema := range schemas {
		kind, is := strings.CutPrefix(name, "com.example.v1.")
		switch {
		case is && !strings.HasSuffix(kind, "List"):
			for field := range schema.Properties {
				if field != "apiVersion" && field != "kind" && field != "metadata" {
					kind += " " + field
				}
			}
			kinds = append(kinds, kind)
		case !strings.Contains(name, "."):
			kinds = append(kinds, name)
		}
	}
	slices.Sort(kinds)
	return kinds
}

// TestOpenAPIOfVersions checks that each group version has a document and a hash of its own, by which clients keep it.
func TestOpenAPIOfVersions(t *testing.T) {
	documents := newOpenAPI(func() []*spec.Swagger { return []*spec.Swagger{documentOf("pods")} })
	widgets, things := definitionOf("widgets", "Widget", 1, "colour"), definitionOf("things", "Thing", 1)
	widgets.Spec.Versions[1].Served = true
	things.Name, things.Spec.Group = "things.example.org", "example.org"
	servers := []Server{serving("", widgets, things)}
	bodies := map[string]string{}
	for _, name := range []string{"apis/example.com/v1", "apis/example.com/v2", "apis/example.org/v1"} {
		url := pathsOf(servers)[name].ServerRelativeURL
		document, err := documents.documentV3(httptest.NewRequest(http.MethodGet, openAPIv3Path+"/"+name, nil), "a", servers)
		if err != nil || document == nil {
			t.Fatalf("%s: %v", name, err)
		}
		response := get(t, document, url)
		if got := response.Header().Get(cacheControl); got != "private, immutable" {
			t.Errorf("%s may be kept: %q", name, got)
		}
		if same, is := bodies[response.Body.String()]; is {
			t.Errorf("%s has the document of %s", name, same)
		}
		bodies[response.Body.String()] = name
	}
	if one, two := bytesOf([]*apiextensionsv1.CustomResourceDefinition{widgets}), bytesOf([]*apiextensionsv1.CustomResourceDefinition{widgets, things}); one <= 0 || two <= one {
		t.Errorf("documents take %d bytes, and with another definition %d", one, two)
	}
	if taken, least := documents.v3.small.bytes.Load(), int64(len(bodies)*servedBytesV3); taken < least {
		t.Errorf("documents of %d group versions count %d bytes, not %d and more", len(bodies), taken, least)
	}
	get(t, documents.documentV2("a", servers), "/openapi/v2")
	if taken, least := documents.v2.small.bytes.Load(), int64(len(bodies)*servedBytesV2); taken < least {
		t.Errorf("a document of %d versions counts %d bytes, not %d and more", len(bodies), taken, least)
	}
}
