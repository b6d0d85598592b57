package filters

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/tenantry/tenantry/internal/tenant"
)

// send passes a body through the filter in the space of tenant "a" and returns
// what arrives behind it.
func send(t *testing.T, contentType, body string) (status int, arrived string) {
	t.Helper()
	return sendBy(t, http.MethodPost, contentType, body)
}

func sendBy(t *testing.T, method, contentType, body string) (status int, arrived string) {
	t.Helper()
	handler := WithBody(http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) {
		read, err := io.ReadAll(req.Body)
		if err != nil {
			t.Error(err)
		}
		if req.ContentLength != int64(len(read)) {
			t.Errorf("Content-Length %d, body has %d bytes", req.ContentLength, len(read))
		}
		arrived = string(read)
	}), scheme.Codecs.WithoutConversion())
	response := httptest.NewRecorder()
	handler.ServeHTTP(response, newRequest(method, contentType, strings.NewReader(body)))
	return response.Code, arrived
}

// newRequest returns a request of tenant "a" in its space.
func newRequest(method, contentType string, body io.Reader) *http.Request {
	req := httptest.NewRequest(method, "/api/v1/namespaces", body)
	req.Header.Set("Content-Type", contentType)
	ctx := request.WithUser(req.Context(), &user.DefaultInfo{Name: "u"})
	ctx = request.WithRequestInfo(ctx, &request.RequestInfo{IsResourceRequest: true, Verb: "create", Resource: "namespaces"})
	return req.WithContext(tenant.WithRequest(ctx, &tenant.Request{Authenticated: "a"}))
}

func TestTenantFieldIsTakenOut(t *testing.T) {
	for contentType, bodies := range map[string]map[string]string{
		"application/json": {
			`{"metadata":{"name":"n","tenant":"a"}}`:                                `{"metadata":{"name":"n"}}`,
			`{"metadata":{"name":"n","tenant":""}}`:                                 `{"metadata":{"name":"n"}}`,
			`{"metadata":{"name":"n","tenant":null}}`:                               `{"metadata":{"name":"n"}}`,
			`{"metadata":{"name":"n"},"data":{"tenant":"b"}}`:                       `{"metadata":{"name":"n"},"data":{"tenant":"b"}}`,
			`{"metadata":{"tenant":"a","tenant":"a"}}`:                              `{"metadata":{}}`,
			`{"spec":{"template":{"metadata":{"tenant":"b"}}},"metadata":{}}`:       `{"spec":{"template":{"metadata":{"tenant":"b"}}},"metadata":{}}`,
			`{"metadata":{"\u0074enant":"a","x":1}}`:                                `{"metadata":{"x":1}}`,
			`{"metadata":{"tenant":"a" , "tenant":"" , "x":1,"tenant":null}}`:       `{"metadata":{"x":1}}`,
			`{"metadata":{"x":1,"tenant":"a","tenant":"a" }, "y":"tenant"}`:         `{"metadata":{"x":1}, "y":"tenant"}`,
			` {"metadata" : {"tenant" : "a"},"metadata":{"x":1 ,"tenant":"a"}} `:    `{"metadata":{"x":1}}`,
			`{"metadata":[{"tenant":"b"}]}`:                                         `{"metadata":[{"tenant":"b"}]}`,
			`{"metadata":{"annotations":{"tenantry.io/tenant":"b"}}}`:               `{"metadata":{"annotations":{"tenantry.io/tenant":"b"}}}`,
			`{"metadata":{"name":"tenant", "labels":{"tenant":"b"}}, "x":"tenant"}`: `{"metadata":{"name":"tenant", "labels":{"tenant":"b"}}, "x":"tenant"}`,
			`not json, tenant`: `not json, tenant`,
		},
		"application/merge-patch+json":           {`{"metadata":{"tenant":"a"}}`: `{"metadata":{}}`},
		"application/strategic-merge-patch+json": {`{"metadata":{"tenant":"a"}}`: `{"metadata":{}}`},
		"application/apply-patch+yaml":           {"metadata:\n  name: web\n  tenant: a\n": `{"metadata":{"name":"web"}}`},
		"application/yaml":                       {"metadata:\n  tenant: \"\"\n": `{"metadata":{}}`},
		"application/json-patch+json": {
			`[{"op":"add","path":"/metadata/tenant","value":"a"}]`:                                              `[]`,
			`[{"op":"remove","path":"/metadata/tenant"}]`:                                                       `[]`,
			`[{"op":"replace","path":"/metadata","value":{"name":"n","tenant":"a"}}]`:                           `[{"op":"replace","path":"/metadata","value":{"name":"n"}}]`,
			`[{"op":"add","path":"/data/tenant","value":"b"}]`:                                                  `[{"op":"add","path":"/data/tenant","value":"b"}]`,
			`[{"op":"test","path":"/metadata/tenant","value":"a"},{"op":"add","path":"/data/x","value":"y"}]`:   `[{"op":"add","path":"/data/x","value":"y"}]`,
			`[{"op":"replace","path":"","value":{"metadata":{"tenant":"a"},"data":{"k":"v"},"tenant":"kept"}}]`: `[{"op":"replace","path":"","value":{"metadata":{},"data":{"k":"v"},"tenant":"kept"}}]`,
		},
		"application/vnd.kubernetes.protobuf": {"k8s\x00tenant": "k8s\x00tenant"},
	} {
		for body, want := range bodies {
			t.Run(contentType+" "+body, func(t *testing.T) {
				status, got := send(t, contentType, body)
				if status != http.StatusOK {
					t.Fatalf("status %d", status)
				}
				if !equal(want, got) {
					t.Errorf("got %s, want %s", got, want)
				}
			})
		}
	}
}

func equal(want, got string) bool {
	var a, b any
	if json.Unmarshal([]byte(want), &a) != nil || json.Unmarshal([]byte(got), &b) != nil {
		return want == got
	}
	return cmp.Equal(a, b)
}

// TestPatchesThatTakeLong checks that a patch of many operations on a long list is refused
// before upstream copies the list for each of them.
func TestPatchesThatTakeLong(t *testing.T) {
	const operation = `{"op":"add","path":"/zz/0","value":0},`
	list := `{"op":"add","path":"/zz","value":["0"` + strings.Repeat(`,"`+strings.Repeat("0", 210)+`"`, 9_999) + `]}`
	for body, want := range map[string]int{
		"[" + strings.Repeat(operation, 100) + list + "]":                                       http.StatusOK,
		"[" + strings.Repeat(operation, 9000) + list + "]":                                      http.StatusBadRequest,
		"[" + strings.Repeat(strings.Replace(operation, "op", `\u006fp`, 1), 9000) + list + "]": http.StatusBadRequest,
		"[" + strings.Repeat(operation, 9999) + `{"op":"add","path":"/a","value":"b"}` + "]":    http.StatusOK,
	} {
		if status, _ := send(t, "application/json-patch+json", body); status != want {
			t.Errorf("%d bytes, %q...: status %d, want %d", len(body), body[:60], status, want)
		}
	}
}

// TestPatchesOfTooManyOperations checks that no work is done for a patch that upstream refuses.
func TestPatchesOfTooManyOperations(t *testing.T) {
	for operations, stripped := range map[int]bool{10_000: true, 10_001: false} {
		patch := "[" + strings.Repeat(`{"op":"remove","path":"/metadata/tenant"},`, operations-1) + `{"op":"remove","path":"/metadata/tenant"}]`
		got, err := stripJSONPatch(t.Context(), []byte(patch), tenant.System)
		if err != nil || (string(got) == "[]") != stripped || (string(got) == patch) == stripped {
			t.Errorf("%d operations: %d bytes are left of %d, error %v", operations, len(got), len(patch), err)
		}
	}
}

func TestForeignTenantFieldIsRefused(t *testing.T) {
	for contentType, bodies := range map[string][]string{
		"application/json": {
			`{"metadata":{"tenant":"b"}}`, `{"metadata":{"tenant":"system"}}`, `{"metadata":{"tenant":7}}`,
			`{"metadata":{"tenant":"a","tenant":"b"}}`, `{"metadata":{},"metadata":{"tenant":"b"}}`, `{"metadata":{"\u0074enant":"b"}}`,
			`{"metadata":{"tenant":{"a":"b"}}}`,
		},
		"application/merge-patch+json":           {`{"metadata":{"tenant":"b"}}`},
		"application/strategic-merge-patch+json": {`{"metadata":{"tenant":"b"}}`},
		"application/apply-patch+yaml": {
			"metadata:\n  tenant: b\n", `{"metadata":{"tenant":"b"}}`, "metadata:\n  \"\\x74enant\": b\n", "{metadata: {tenant: b}}",
		},
		"application/json-patch+json": {
			`[{"op":"add","path":"/metadata/tenant","value":"b"}]`,
			`[{"op":"add","path":"/metadata","value":{"tenant":"b"}}]`,
			`[{"op":"copy","path":"/data/x","from":"/metadata/tenant"}]`,
			`[{"op":"copy","path":"/data/x","from":"\u002fmetadata/tenant"}]`,
			`[{"op":"add","path":"","value":{"metadata":{"tenant":"a","tenant":"b"}}}]`,
		},
	} {
		for _, body := range bodies {
			t.Run(contentType+" "+body, func(t *testing.T) {
				if status, got := send(t, contentType, body); status != http.StatusBadRequest {
					t.Errorf("status %d, %q arrived; want 400", status, got)
				}
			})
		}
	}
}

func FuzzStripJSON(f *testing.F) {
	f.Add([]byte(`{"metadata":{"tenant":"a"}}`))
	f.Add([]byte(`{"metadata":{"tenant":"b","tenant":"a"}}`))
	f.Add([]byte(`{"metadata":[{"tenant":"b"}]}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		stripped, err := stripJSON(t.Context(), slices.Clone(body), "a")
		if err != nil || !json.Valid(body) {
			return
		}
		var object struct {
			Metadata struct {
				Tenant *string `json:"tenant"`
			} `json:"metadata"`
		}
		if !json.Valid(stripped) {
			t.Fatalf("%s became %s", body, stripped)
		}
		if json.Unmarshal(stripped, &object) == nil && object.Metadata.Tenant != nil && *object.Metadata.Tenant == "b" {
			t.Errorf("tenant %q is left in %s", *object.Metadata.Tenant, stripped)
		}
	})
}

func FuzzStripJSONPatch(f *testing.F) {
	f.Add([]byte(`[{"op":"add","path":"/metadata/tenant","value":"a"}]`))
	f.Fuzz(func(t *testing.T, body []byte) {
		if _, err := stripJSONPatch(t.Context(), slices.Clone(body), "a"); err != nil && !strings.Contains(err.Error(), "metadata.tenant") {
			t.Error(err)
		}
	})
}
