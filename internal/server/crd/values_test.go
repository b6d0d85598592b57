package crd

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	listers "k8s.io/apiextensions-apiserver/pkg/client/listers/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/client-go/tools/cache"

	"github.com/tenantry/tenantry/internal/server/storage"
)

func TestContentOf(t *testing.T) {
	for name, tc := range map[string]struct {
		contentType, body string
		want              Content
	}{
		"nothing":          {"", ``, Content{}},
		"text":             {"", `"a,b"`, Content{}},
		"empty":            {"", `{}`, Content{0, 1}},
		"object":           {"application/json", `{"a": 1, "b,{[": "\",{\\"}`, Content{2, 1}},
		"list":             {"application/json", `[[], [ ], [{}, {"a": [1,2]}]]`, Content{8, 2}},
		"JSON as YAML":     {"application/apply-patch+yaml", `{"a": "x, y, z"}`, Content{1, 1}},
		"YAML":             {"application/yaml", "a:\n- b: 1\n- {c: 2, d: \"x, y\"}\n", Content{6, 3}},
		"YAML, parameters": {"application/yaml; charset=utf-8", "a: {}", Content{1, 2}},
		"aliases":          {"application/apply-patch+yaml", "a: &a [1,2,3]\nb: [*a,*a,*a]\n", Content{17, 1}},
		"no YAML":          {"application/yaml", "a: [", Content{}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := contentOf(tc.contentType, []byte(tc.body)); got != tc.want {
				t.Errorf("%+v, want %+v", got, tc.want)
			}
		})
	}
}

func TestWithContent(t *testing.T) {
	indexer := cache.NewIndexer(cache.MetaNamespaceKeyFunc, nil)
	definition := func(generation int64) *apiextensionsv1.CustomResourceDefinition {
		return &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: "xs.example.com", Generation: generation}}
	}
	var served string
	var early, late error // whether the definition is still the one that it was
	handler := withContent(http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) {
		body, err := io.ReadAll(req.Body)
		if err != nil {
			t.Error(err)
		}
		served, early = string(body), storage.StillDefined(req.Context())
		if err := indexer.Update(definition(2)); err != nil {
			t.Error(err)
		}
		late = storage.StillDefined(req.Context())
	}), listers.NewCustomResourceDefinitionLister(indexer), func(content Content, _ *apiextensionsv1.CustomResourceDefinition) error {
		if content.Values > 1 {
			return errors.New("too much")
		}
		return nil
	})
	const few, many = `{"a": 1}`, `{"a": 1, "b": 2}`
	large := few + strings.Repeat(" ", maxBody)
	for name, tc := range map[string]struct {
		method, resource, body string
		refused                bool
	}{
		"create":           {http.MethodPost, "xs", few, false},
		"create with much": {http.MethodPost, "xs", many, true},
		"update with much": {http.MethodPut, "xs", many, true},
		"patch with much":  {http.MethodPatch, "xs", many, true},
		"delete":           {http.MethodDelete, "xs", many, false},
		"unknown":          {http.MethodPost, "ys", many, false},
		"too large":        {http.MethodPost, "xs", large, false}, // which upstream refuses
	} {
		t.Run(name, func(t *testing.T) {
			req := httptest.NewRequestWithContext(request.WithRequestInfo(t.Context(), &request.RequestInfo{
				IsResourceRequest: true, APIGroup: "example.com", APIVersion: "v1", Resource: tc.resource,
			}), tc.method, "/", strings.NewReader(tc.body))
			if err := indexer.Update(definition(1)); err != nil {
				t.Fatal(err)
			}
			served, early, late = "", nil, nil
			handler.ServeHTTP(httptest.NewRecorder(), req)
			if writes := served != "" && tc.resource == "xs" && tc.method != http.MethodDelete; early != nil || (late != nil) != writes {
				t.Errorf("the definition has changed: %v, and after a change: %v", early, late)
			}
			if want := tc.body; tc.refused != (served != want) {
				t.Errorf("it was served a body of %d bytes, want refused: %v", len(served), tc.refused)
			}
		})
	}
}
