package filters

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensionsapiserver "k8s.io/apiextensions-apiserver/pkg/apiserver"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	_ "k8s.io/kubernetes/pkg/apis/authentication/install"
	_ "k8s.io/kubernetes/pkg/apis/authorization/install"
	_ "k8s.io/kubernetes/pkg/apis/autoscaling/install"
	_ "k8s.io/kubernetes/pkg/apis/core/install"
	_ "k8s.io/kubernetes/pkg/apis/policy/install"
	"sigs.k8s.io/yaml"

	"github.com/tenantry/tenantry/internal/bounds"
	"github.com/tenantry/tenantry/internal/tenant"
)

// sendIn passes a body through the filter in the space of n, as the server assembles it, and
// returns the status and the message of the response.
func sendIn(t *testing.T, n tenant.Name, method, contentType string, length int64, body []byte) (status int, message string) {
	t.Helper()
	req := newRequest(method, contentType, bytes.NewReader(body))
	req.ContentLength = length
	return sendRequest(t, n, req, body)
}

// sendRequest passes a request with a body through the filter in the space of n.
func sendRequest(t *testing.T, n tenant.Name, req *http.Request, body []byte) (status int, message string) {
	t.Helper()
	handler := WithBody(http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) {
		if arrived, err := io.ReadAll(req.Body); err != nil || !bytes.Equal(arrived, body) {
			t.Errorf("%d of %d bytes arrive, error %v", len(arrived), len(body), err)
		}
	}), legacyscheme.Codecs, apiextensionsapiserver.Codecs)
	response := httptest.NewRecorder()
	ctx := tenant.WithRequest(req.Context(), &tenant.Request{Authenticated: n})
	handler.ServeHTTP(response, req.WithContext(request.WithUser(ctx, &user.DefaultInfo{Name: "u"})))
	var sent metav1.Status
	if response.Body.Len() > 0 {
		if err := json.Unmarshal(response.Body.Bytes(), &sent); err != nil {
			t.Errorf("%s: %v", response.Body, err)
		}
	}
	return response.Code, sent.Message
}

// elements returns lists that are a bit longer than the threshold of what is looked at.
func elements(length int) []any {
	list := make([]any, length)
	for i := range list {
		list[i] = "ten bytes."
	}
	return list
}

func marshal(t *testing.T, by func(any) ([]byte, error), v any) []byte {
	t.Helper()
	data, err := by(v)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// inYAML returns what is not JSON.
func inYAML(v any) ([]byte, error) { return yaml.Marshal(v) }

// TestBounds checks in each format that the longest list and map and the most owners pass,
// and one more does not.
func TestBounds(t *testing.T) {
	entries := func(length int) map[string]any {
		m := map[string]any{}
		for i := range length {
			m[fmt.Sprint("key-", i)] = nil
		}
		return m
	}
	owners := func(length int) map[string]any {
		// Admission looks at them in shorter bodies.
		return map[string]any{"metadata": map[string]any{"name": strings.Repeat("x", bounds.MinBody), "ownerReferences": elements(length)}}
	}
	patch := func(v any) []any { return []any{map[string]any{"op": "add", "path": "/a", "value": v}} }
	object := func(v any) any { return map[string]any{"a": v} }
	type format struct {
		contentType string
		marshal     func(any) ([]byte, error)
		list        int
		within      func(any) any
	}
	for name, f := range map[string]format{
		"JSON":                        {"application/json", json.Marshal, 10_000, object},
		"none":                        {"", json.Marshal, 10_000, object},
		"JSON with a charset":         {"application/json; charset=utf-8", json.Marshal, 10_000, object},
		"merge patch":                 {"application/merge-patch+json", json.Marshal, 10_000, object},
		"merge patch, odd parameters": {"application/merge-patch+json;;=", json.Marshal, 10_000, object},
		"JSON in capitals":            {"Application/JSON", json.Marshal, 10_000, object},
		"strategic merge patch":       {"application/strategic-merge-patch+json", json.Marshal, 5_000, object},
		"strategic, odd parameters":   {"application/strategic-merge-patch+json;;=", json.Marshal, 5_000, object},
		"JSON patch":                  {"application/json-patch+json", json.Marshal, 10_000, func(v any) any { return patch(v) }},
		"YAML":                        {"application/yaml", inYAML, 10_000, object},
		"apply":                       {"application/apply-patch+yaml", inYAML, 10_000, object},
		"JSON as YAML":                {"application/yaml", json.Marshal, 10_000, object},
		"apply JSON":                  {"application/apply-patch+yaml", json.Marshal, 10_000, object},
	} {
		for rule, tc := range map[string]struct {
			most    int
			of      func(int) any
			message string
		}{
			"list":   {f.list, func(n int) any { return elements(n) }, "elements in"},
			"map":    {20_000, func(n int) any { return entries(n) }, "entries in one map"},
			"owners": {64, func(n int) any { return owners(n) }, "ownerReferences, and a space takes no more; name fewer owners"},
		} {
			t.Run(name+" "+rule, func(t *testing.T) {
				fits, exceeds := marshal(t, f.marshal, f.within(tc.of(tc.most))), marshal(t, f.marshal, f.within(tc.of(tc.most+1)))
				for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete} {
					if status, message := sendIn(t, "a", method, f.contentType, int64(len(fits)), fits); status != http.StatusOK {
						t.Errorf("%s: %d are refused: %d, %s", method, tc.most, status, message)
					}
					status, message := sendIn(t, "a", method, f.contentType, int64(len(exceeds)), exceeds)
					if status != http.StatusRequestEntityTooLarge || !strings.Contains(message, "it has more than ") || !strings.Contains(message, tc.message) {
						t.Errorf("%s: %d: %d, %s", method, tc.most+1, status, message)
					}
				}
				if status, message := sendIn(t, tenant.System, http.MethodPost, f.contentType, int64(len(exceeds)), exceeds); status != http.StatusOK {
					t.Errorf("in the system space: %d, %s", status, message)
				}
			})
		}
	}
}

// inProtobuf returns an object as clients send it.
func inProtobuf(t *testing.T, object runtime.Object) []byte {
	t.Helper()
	codecs := legacyscheme.Codecs
	if _, ok := object.(*apiextensionsv1.CustomResourceDefinition); ok {
		codecs = apiextensionsapiserver.Codecs
	}
	info, ok := runtime.SerializerInfoForMediaType(codecs.SupportedMediaTypes(), runtime.ContentTypeProtobuf)
	if !ok {
		t.Fatal("no serializer")
	}
	var buffer bytes.Buffer
	if err := info.Serializer.Encode(object, &buffer); err != nil {
		t.Fatal(err)
	}
	return buffer.Bytes()
}

func TestBoundsOfProtobuf(t *testing.T) {
	kind := func(apiVersion, kind string) metav1.TypeMeta {
		return metav1.TypeMeta{APIVersion: apiVersion, Kind: kind}
	}
	text := func(length int) []string { return strings.Split(strings.Repeat("ten bytes./", length-1), "/") }
	managed := func(length int) metav1.ObjectMeta {
		fields := "{" + strings.TrimSuffix(strings.Repeat(`"f:a":{},`, length), ",") + "}"
		return metav1.ObjectMeta{ManagedFields: []metav1.ManagedFieldsEntry{{FieldsV1: metav1.NewFieldsV1(fields)}}}
	}
	for name, tc := range map[string]struct {
		most int
		of   func(int) runtime.Object
	}{
		"list": {10_000, func(n int) runtime.Object {
			return &corev1.PersistentVolumeClaim{TypeMeta: kind("v1", "PersistentVolumeClaim"), Spec: corev1.PersistentVolumeClaimSpec{AccessModes: make([]corev1.PersistentVolumeAccessMode, n)}}
		}},
		"owners": {64, func(n int) runtime.Object {
			refs := make([]metav1.OwnerReference, n)
			refs[0].Name = strings.Repeat("x", 10_000)
			return &corev1.Pod{TypeMeta: kind("v1", "Pod"), ObjectMeta: metav1.ObjectMeta{OwnerReferences: refs}}
		}},
		"managed fields": {20_000, func(n int) runtime.Object {
			return &corev1.Pod{TypeMeta: kind("v1", "Pod"), ObjectMeta: managed(n)}
		}},
		"definition": {10_000, func(n int) runtime.Object {
			return &apiextensionsv1.CustomResourceDefinition{
				TypeMeta: kind("apiextensions.k8s.io/v1", "CustomResourceDefinition"),
				Spec:     apiextensionsv1.CustomResourceDefinitionSpec{Names: apiextensionsv1.CustomResourceDefinitionNames{Categories: text(n)}},
			}
		}},
		"managed fields of a scale": {20_000, func(n int) runtime.Object {
			return &autoscalingv1.Scale{TypeMeta: kind("autoscaling/v1", "Scale"), ObjectMeta: managed(n)}
		}},
		"options of a deletion": {10_000, func(n int) runtime.Object {
			return &metav1.DeleteOptions{TypeMeta: kind("v1", "DeleteOptions"), DryRun: text(n)}
		}},
		"eviction": {10_000, func(n int) runtime.Object {
			return &policyv1.Eviction{TypeMeta: kind("policy/v1", "Eviction"), DeleteOptions: &metav1.DeleteOptions{DryRun: text(n)}}
		}},
		"token": {10_000, func(n int) runtime.Object {
			return &authenticationv1.TokenRequest{TypeMeta: kind("authentication.k8s.io/v1", "TokenRequest"), Spec: authenticationv1.TokenRequestSpec{Audiences: text(n)}}
		}},
		"review": {10_000, func(n int) runtime.Object {
			return &authorizationv1.SubjectAccessReview{TypeMeta: kind("authorization.k8s.io/v1", "SubjectAccessReview"), Spec: authorizationv1.SubjectAccessReviewSpec{Groups: text(n)}}
		}},
		"binding": {20_000, func(n int) runtime.Object {
			return &corev1.Binding{TypeMeta: kind("v1", "Binding"), ObjectMeta: managed(n)}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			fits, exceeds := inProtobuf(t, tc.of(tc.most)), inProtobuf(t, tc.of(tc.most+1))
			for _, length := range []int64{-1, int64(len(fits))} {
				if status, message := sendIn(t, "a", http.MethodPost, runtime.ContentTypeProtobuf, length, fits); status != http.StatusOK {
					t.Errorf("%d are refused: %d, %s", tc.most, status, message)
				}
			}
			for _, length := range []int64{-1, int64(len(exceeds))} {
				if status, message := sendIn(t, "a", http.MethodPost, runtime.ContentTypeProtobuf, length, exceeds); status != http.StatusRequestEntityTooLarge {
					t.Errorf("%d: %d, %s", tc.most+1, status, message)
				}
			}
			if status, message := sendIn(t, tenant.System, http.MethodPost, runtime.ContentTypeProtobuf, int64(len(exceeds)), exceeds); status != http.StatusOK {
				t.Errorf("in the system space: %d, %s", status, message)
			}
		})
	}
}

// TestNestedProtobuf checks that a definition is refused whose schemas to decode would take
// more than Go's largest stack, and end the process.
func TestNestedProtobuf(t *testing.T) {
	field := func(number uint64, size int) []byte {
		return binary.AppendUvarint(binary.AppendUvarint(nil, number<<3|2), uint64(size))
	}
	var heads [][]byte // from the innermost schema, each the field "not" of another
	size := 0
	within := func(number uint64) {
		head := field(number, size)
		heads, size = append(heads, head), size+len(head)
	}
	for size < maxBody-100 {
		within(28)
	}
	for _, number := range []uint64{1, 4, 7, 2} { // spec.versions[0].schema.openAPIV3Schema
		within(number)
	}
	slices.Reverse(heads)
	unknown := &runtime.Unknown{TypeMeta: runtime.TypeMeta{Kind: "CustomResourceDefinition", APIVersion: "apiextensions.k8s.io/v1"}, Raw: slices.Concat(heads...)}
	body := append([]byte("k8s\x00"), marshal(t, func(any) ([]byte, error) { return unknown.Marshal() }, nil)...)
	if status, message := sendIn(t, "a", http.MethodPost, runtime.ContentTypeProtobuf, int64(len(body)), body); status != http.StatusRequestEntityTooLarge {
		t.Errorf("%d of %d bytes: %s", status, len(body), message)
	}
}

// TestWhatCannotBeCounted checks that nothing gets by because it is not understood here, but
// by upstream.
func TestWhatCannotBeCounted(t *testing.T) {
	long := &corev1.PersistentVolumeClaim{Spec: corev1.PersistentVolumeClaimSpec{AccessModes: make([]corev1.PersistentVolumeAccessMode, 10_001)}}
	raw := marshal(t, func(any) ([]byte, error) { return long.Marshal() }, nil)
	envelope := func(kind, apiVersion string) []byte {
		unknown := &runtime.Unknown{TypeMeta: runtime.TypeMeta{Kind: kind, APIVersion: apiVersion}, Raw: raw}
		return append([]byte("k8s\x00"), marshal(t, func(any) ([]byte, error) { return unknown.Marshal() }, nil)...)
	}
	for name, tc := range map[string]struct {
		contentType string
		body        []byte
		status      int
	}{
		"protobuf":                        {runtime.ContentTypeProtobuf, envelope("PersistentVolumeClaim", "v1"), http.StatusRequestEntityTooLarge},
		"protobuf without a kind":         {runtime.ContentTypeProtobuf, envelope("", "v1"), http.StatusBadRequest},
		"protobuf without a version":      {runtime.ContentTypeProtobuf, envelope("PersistentVolumeClaim", ""), http.StatusBadRequest},
		"protobuf of an unknown kind":     {runtime.ContentTypeProtobuf, envelope("Widget", "example.com/v1"), http.StatusBadRequest},
		"protobuf of an internal version": {runtime.ContentTypeProtobuf, envelope("PersistentVolumeClaim", "__internal"), http.StatusNotAcceptable},
		"no protobuf":                     {runtime.ContentTypeProtobuf, bytes.Repeat([]byte("x"), 10_000), http.StatusBadRequest},
		"little that is no protobuf":      {runtime.ContentTypeProtobuf, bytes.Repeat([]byte("x"), 9_999), http.StatusOK},
		"no JSON, which upstream refuses": {runtime.ContentTypeJSON, bytes.Repeat([]byte("x"), 10_000), http.StatusOK},
		"no YAML, which upstream refuses": {runtime.ContentTypeYAML, []byte("a: [" + strings.Repeat("0,", 10_001)), http.StatusOK},
		"an unknown type":                 {"text/plain", raw, http.StatusOK},
	} {
		t.Run(name, func(t *testing.T) {
			status, message := sendIn(t, "a", http.MethodPost, tc.contentType, int64(len(tc.body)), tc.body)
			if status != tc.status || len(message) > 1000 {
				t.Errorf("got %d, want %d: %.200s", status, tc.status, message)
			}
		})
	}
}

// TestYAMLIsCountedWithItsAliases checks what aliases make of a short text.
func TestYAMLIsCountedWithItsAliases(t *testing.T) {
	body := []byte("a: &a " + strings.Repeat("x", 10_000) + "\nb: &b [" + strings.Repeat("*a,", 100) + "]\nc: [" + strings.Repeat("*b,", 10) + "]\n")
	if status, message := sendIn(t, "a", http.MethodPost, runtime.ContentTypeYAML, int64(len(body)), body); status != http.StatusBadRequest {
		t.Errorf("%d, %s", status, message)
	}
}

// TestHasBody checks that only what upstream decodes as an object is read.
func TestHasBody(t *testing.T) {
	for name, tc := range map[string]struct {
		method string
		body   io.Reader
		info   *request.RequestInfo
		want   bool
	}{
		"a creation":           {http.MethodPost, strings.NewReader("{}"), &request.RequestInfo{IsResourceRequest: true}, true},
		"without a body":       {http.MethodPost, nil, &request.RequestInfo{IsResourceRequest: true}, false},
		"with an empty one":    {http.MethodPost, http.NoBody, &request.RequestInfo{IsResourceRequest: true}, false},
		"of no resource":       {http.MethodPost, strings.NewReader("{}"), &request.RequestInfo{}, false},
		"of nobody knows what": {http.MethodPost, strings.NewReader("{}"), nil, false},
		"a look":               {http.MethodGet, strings.NewReader("{}"), &request.RequestInfo{IsResourceRequest: true}, false},
	} {
		t.Run(name, func(t *testing.T) {
			req := httptest.NewRequest(tc.method, "/", tc.body)
			if tc.body == nil {
				req.Body = nil
			}
			if tc.info != nil {
				req = req.WithContext(request.WithRequestInfo(req.Context(), tc.info))
			}
			if got := hasBody(req); got != tc.want {
				t.Errorf("got %t", got)
			}
		})
	}
}

// TestSmallBodiesAreNotRead checks that what needs no look is left to upstream to read.
func TestSmallBodiesAreNotRead(t *testing.T) {
	for name, tc := range map[string]struct {
		n      tenant.Name
		length int64
		read   bool
	}{
		"small":                        {"a", 9_999, false},
		"large":                        {"a", 10_000, true},
		"of unknown size":              {"a", -1, true},
		"large, in the system space":   {tenant.System, 10_000, false},
		"unknown, in the system space": {tenant.System, -1, false},
	} {
		t.Run(name, func(t *testing.T) {
			read := false
			handler := WithBody(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}), legacyscheme.Codecs)
			req := newRequest(http.MethodPost, runtime.ContentTypeProtobuf, readerFunc(func([]byte) (int, error) {
				read = true
				return 0, io.EOF
			}))
			req.ContentLength = tc.length
			handler.ServeHTTP(httptest.NewRecorder(), req.WithContext(tenant.WithRequest(req.Context(), &tenant.Request{Authenticated: tc.n})))
			if read != tc.read {
				t.Errorf("the body is read: %t", read)
			}
		})
	}
}

// TestBodiesThatEnd checks that the client is told why its body was not taken.
func TestBodiesThatEnd(t *testing.T) {
	for name, tc := range map[string]struct {
		err  error
		code int
	}{
		"late":      {&apierrors.StatusError{ErrStatus: metav1.Status{Code: http.StatusRequestTimeout}}, http.StatusRequestTimeout},
		"too large": {apierrors.NewRequestEntityTooLargeError("send less"), http.StatusRequestEntityTooLarge},
		"cut off":   {io.ErrUnexpectedEOF, http.StatusBadRequest},
	} {
		t.Run(name, func(t *testing.T) {
			handler := WithBody(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the request arrives") }), legacyscheme.Codecs)
			req := newRequest(http.MethodPost, runtime.ContentTypeJSON, readerFunc(func([]byte) (int, error) { return 0, tc.err }))
			response := httptest.NewRecorder()
			handler.ServeHTTP(response, req.WithContext(tenant.WithRequest(req.Context(), &tenant.Request{Authenticated: "a"})))
			if response.Code != tc.code {
				t.Errorf("status %d, want %d", response.Code, tc.code)
			}
		})
	}
}

// TestBodiesOfNoSpace checks that a body is not looked at as if it were in some space.
func TestBodiesOfNoSpace(t *testing.T) {
	handler := WithBody(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the request arrives") }), legacyscheme.Codecs)
	req := newRequest(http.MethodPost, runtime.ContentTypeProtobuf, strings.NewReader("{}"))
	response := httptest.NewRecorder()
	handler.ServeHTTP(response, req.WithContext(tenant.WithRequest(req.Context(), &tenant.Request{})))
	if response.Code != http.StatusBadRequest {
		t.Errorf("status %d", response.Code)
	}
}

// BenchmarkBody passes 100 kB of JSON through the filter, in a space and in the system's, in
// which it is not counted.
func BenchmarkBody(b *testing.B) {
	body := []byte(`{"a":[` + strings.TrimSuffix(strings.Repeat(`{"name":"container","image":"registry.example.com/image:v1","args":["--verbose"]},`, 1200), ",") + "]}")
	handler := WithBody(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}), legacyscheme.Codecs, apiextensionsapiserver.Codecs)
	for _, n := range []tenant.Name{"a", tenant.System} {
		b.Run(n.String(), func(b *testing.B) {
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			for b.Loop() {
				req := newRequest(http.MethodPost, runtime.ContentTypeJSON, bytes.NewReader(body))
				response := httptest.NewRecorder()
				handler.ServeHTTP(response, req.WithContext(tenant.WithRequest(req.Context(), &tenant.Request{Authenticated: n})))
				if response.Code != http.StatusOK {
					b.Fatal(response.Body)
				}
			}
		})
	}
}
