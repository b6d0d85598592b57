package flowcontrol

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/utils/ptr"

	"github.com/tenantry/tenantry/api/v1alpha1"
	"github.com/tenantry/tenantry/internal/server/storage"
	"github.com/tenantry/tenantry/internal/tenant"
)

func TestSizeOf(t *testing.T) {
	defaults := Size{BodyBytes: 2048, ListObjects: 10}
	for name, tc := range map[string]struct {
		own  *v1alpha1.RequestLimit
		want Size
	}{
		"defaults":   {nil, defaults},
		"nothing":    {&v1alpha1.RequestLimit{}, defaults},
		"own body":   {&v1alpha1.RequestLimit{BodyBytes: ptr.To[int64](4096)}, Size{4096, 10}},
		"own list":   {&v1alpha1.RequestLimit{ListObjects: ptr.To[int32](20)}, Size{2048, 20}},
		"any number": {&v1alpha1.RequestLimit{ListObjects: ptr.To[int32](0)}, Size{2048, 0}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, defaults.of(tc.own)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestBodiesAreLimited(t *testing.T) {
	own := map[tenant.Name]*v1alpha1.RequestLimit{
		"small": {BodyBytes: ptr.To[int64](1024)},
		"large": {BodyBytes: ptr.To[int64](mostBodyBytes)},
	}
	const message = `Request entity too large: users of tenant "small" may send 1024 bytes at once (requestLimit.bodyBytes); ` +
		"send less, or ask the platform's administrators for more"
	reader := func(size int) io.Reader { return strings.NewReader(strings.Repeat("x", size)) }
	chunked := func(size int) io.Reader { return struct{ io.Reader }{reader(size)} }
	for name, tc := range map[string]struct {
		tenant  tenant.Name
		method  string
		body    io.Reader
		refused bool
		read    int // by upstream
	}{
		"nothing":                 {"small", http.MethodPost, nil, false, 0},
		"at the limit":            {"small", http.MethodPost, reader(1024), false, 1024},
		"beyond":                  {"small", http.MethodPost, reader(1025), true, 0},
		"a patch":                 {"small", http.MethodPatch, reader(1025), true, 0},
		"options of a deletion":   {"small", http.MethodDelete, reader(1025), true, 0},
		"a read":                  {"small", http.MethodGet, reader(1025), true, 0},
		"chunked, at the limit":   {"small", http.MethodPut, chunked(1024), false, 1024},
		"chunked, beyond":         {"small", http.MethodPut, chunked(1025), true, 1024},
		"chunked, far beyond":     {"small", http.MethodPut, chunked(1 << 20), true, 1024},
		"in many parts":           {"small", http.MethodPut, iotest.OneByteReader(reader(5000)), true, 1024},
		"of who may send more":    {"large", http.MethodPost, reader(5000), false, 5000},
		"of who has no own limit": {"other", http.MethodPost, reader(5000), true, 0},
		"of the system":           {tenant.System, http.MethodPost, reader(5000), false, 5000},
	} {
		t.Run(name, func(t *testing.T) {
			read := 0
			handler := WithRequestLimit(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body, err := io.ReadAll(r.Body)
				if read = len(body); err != nil { // as upstream does
					responsewriters.ErrorNegotiated(err, codecs(), metav1.SchemeGroupVersion, w, r)
					if _, again := r.Body.Read(make([]byte, 1)); again == nil || errors.Is(again, io.EOF) {
						t.Errorf("reading on: %v", again)
					}
				}
			}), Size{BodyBytes: 4096}, func(n tenant.Name) *v1alpha1.RequestLimit { return own[n] }, codecs())
			ctx := contextOf(&tenant.Request{Authenticated: tc.tenant}, userOf(tc.tenant, "jane"))
			answer := httptest.NewRecorder()
			handler.ServeHTTP(answer, httptest.NewRequest(tc.method, "/", tc.body).WithContext(ctx))
			if refused := answer.Code == http.StatusRequestEntityTooLarge; refused != tc.refused || read != tc.read {
				t.Errorf("status %d after %d bytes, want refused: %v, %d bytes", answer.Code, read, tc.refused, tc.read)
			}
			if !tc.refused || tc.tenant != "small" {
				return
			}
			var status metav1.Status
			if err := json.NewDecoder(bytes.NewReader(answer.Body.Bytes())).Decode(&status); err != nil {
				t.Fatal(err)
			}
			if status.Message != message || status.Reason != metav1.StatusReasonRequestEntityTooLarge {
				t.Errorf("reason %s, message %q, want %q", status.Reason, status.Message, message)
			}
		})
	}
}

func TestListsAreLimited(t *testing.T) {
	own := map[tenant.Name]*v1alpha1.RequestLimit{"many": {ListObjects: ptr.To[int32](0)}}
	few := &storage.ListLimit{Tenant: "few", Objects: 10}
	unpaged := &storage.ListLimit{Tenant: "few", Objects: 10, Unpaged: true}
	for name, tc := range map[string]struct {
		tenant      tenant.Name
		requested   tenant.Scope
		verb, query string
		want        *storage.ListLimit
	}{
		"a list":                           {"few", "", "list", "", few},
		"a page":                           {"few", "", "list", "limit=5", few},
		"in another's space":               {"few", "many", "list", "", few},
		"a watch":                          {"few", "", "watch", "watch=1", few},
		"all of a collection":              {"few", "", "deletecollection", "", unpaged},
		"all of a collection, by no limit": {"few", "", "deletecollection", "limit=0", unpaged},
		"a part of a collection":           {"few", "", "deletecollection", "limit=5", few},
		"one object":                       {"few", "", "get", "", nil},
		"a write":                          {"few", "", "create", "", nil},
		"who may read any number":          {"many", "", "list", "", nil},
		"the system":                       {tenant.System, "few", "list", "", nil},
	} {
		t.Run(name, func(t *testing.T) {
			var got *storage.ListLimit
			handler := WithRequestLimit(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				if limit, ok := storage.ListLimitFrom(r.Context()); ok {
					got = &limit
				}
			}), Size{BodyBytes: mostBodyBytes, ListObjects: 10}, func(n tenant.Name) *v1alpha1.RequestLimit { return own[n] }, codecs())
			ctx := contextOf(&tenant.Request{Authenticated: tc.tenant, Requested: tc.requested}, userOf(tc.tenant, "jane"))
			ctx = request.WithRequestInfo(ctx, &request.RequestInfo{IsResourceRequest: true, Verb: tc.verb, Resource: "pods"})
			handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/api/v1/pods?"+tc.query, nil).WithContext(ctx))
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestValidateSize(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*Size)
		want   string
	}{
		"defaults":      {func(*Size) {}, ""},
		"small bodies":  {func(s *Size) { s.BodyBytes = leastBodyBytes }, ""},
		"no body":       {func(s *Size) { s.BodyBytes = 0 }, "--tenant-body-bytes"},
		"more than all": {func(s *Size) { s.BodyBytes = mostBodyBytes + 1 }, "--tenant-body-bytes"},
		"lists":         {func(s *Size) { s.ListObjects = 500 }, ""},
		"negative":      {func(s *Size) { s.ListObjects = -1 }, "--tenant-list-objects"},
	} {
		t.Run(name, func(t *testing.T) {
			o := NewOptions()
			tc.change(&o.Size)
			err := errors.Join(o.Validate()...)
			if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
}
