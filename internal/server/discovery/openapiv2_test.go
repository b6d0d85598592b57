package discovery

import (
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
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

// definitionsServer serves the definitions of a space.
type definitionsServer struct {
	document atomic.Pointer[spec.Swagger]
	sent     atomic.Int32
}

func (s *definitionsServer) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	document := s.document.Load()
	etag := strconv.Quote(document.Info.Title)
	if req.Header.Get("If-None-Match") == etag {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	body, err := document.MarshalJSON()
	if err != nil {
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	s.sent.Add(1)
	w.Header().Set("Etag", etag)
	_, _ = w.Write(body)
}

func TestOpenAPIv2(t *testing.T) {
	documents := newOpenAPI(func() []*spec.Swagger { return []*spec.Swagger{documentOf("pods"), documentOf("crds")} })
	servers := map[tenant.Name]*definitionsServer{"a": {}, "b": {}}
	servers["a"].document.Store(documentOf("widgets"))
	servers["b"].document.Store(documentOf("gadgets"))
	read := func(n tenant.Name) []string {
		t.Helper()
		handler := documents.builtinV2
		if own, ok := servers[n]; ok {
			handler = documents.v2(n, []Server{{Handler: own}})
		}
		response := httptest.NewRecorder()
		handler.ServeHTTP(response, httptest.NewRequest(http.MethodGet, openAPIv2Path, nil))
		var document spec.Swagger
		if err := document.UnmarshalJSON(response.Body.Bytes()); err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, name := range []string{"pods", "crds", "widgets", "gadgets", "gears"} {
			if _, ok := document.Definitions[name]; ok {
				names = append(names, name)
			}
		}
		return names
	}
	expect := func(want map[tenant.Name][]string) {
		t.Helper()
		got := make(map[tenant.Name][]string)
		for n := range want {
			got[n] = read(n)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	}
	want := map[tenant.Name][]string{
		"a": {"pods", "crds", "widgets"}, "b": {"pods", "crds", "gadgets"}, "without": {"pods", "crds"},
	}
	expect(want)
	expect(want)
	if sent := servers["a"].sent.Load(); sent != 1 {
		t.Errorf("unchanged definitions were read %d times, want once", sent)
	}
	servers["a"].document.Store(documentOf("gears"))
	want["a"] = []string{"pods", "crds", "gears"}
	expect(want)
}

func TestOpenAPIv2Failure(t *testing.T) {
	documents := newOpenAPI(func() []*spec.Swagger { return []*spec.Swagger{documentOf("pods")} })
	broken := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) })
	response := httptest.NewRecorder()
	documents.v2("a", []Server{{Handler: broken}}).ServeHTTP(response, httptest.NewRequest(http.MethodGet, openAPIv2Path, nil))
	if response.Code != http.StatusInternalServerError {
		t.Errorf("status %d, want 500: %s", response.Code, response.Body)
	}
}
