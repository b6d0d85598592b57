package filters

import (
	"cmp"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"k8s.io/apiserver/pkg/endpoints/request"

	"github.com/tenantry/tenantry/internal/server/storage"
	"github.com/tenantry/tenantry/internal/tenant"
)

// TestTables checks which requests storage takes for those of tables.
func TestTables(t *testing.T) {
	const table = "application/json;as=Table;v=v1;g=meta.k8s.io"
	for name, tc := range map[string]struct {
		verb, accept, query string
		n                   tenant.Name
		want, whole         bool
		accepted            string // if it is something else
	}{
		"a list":                   {accept: table, want: true},
		"a watch":                  {verb: "watch", accept: table, want: true},
		"of kubectl":               {accept: table + ",application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json", want: true},
		"a clause that comes last": {accept: "application/json,application/cbor; v=v1 ; as=Table;q=0.1;g=meta.k8s.io", want: true},
		"with whole objects":       {accept: table, query: "?includeObject=Object", want: true, whole: true},
		"with metadata":            {accept: table, query: "?includeObject=Metadata", want: true},
		"of whole objects, no table": {
			accept: "application/json", query: "?includeObject=Object",
		},
		"no table":   {accept: "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"},
		"anything":   {accept: "*/*"},
		"one object": {verb: "get", accept: table},
		"deletions":  {verb: "deletecollection", accept: table, accepted: "application/json;q=1"},
		"deletions, of kubectl": {verb: "deletecollection", accept: "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1;q=0.5, " + table,
			accepted: "application/json;q=1,application/json;"}, // and the parameters in any order
		"in the system space": {accept: table, n: tenant.System},
	} {
		t.Run(name, func(t *testing.T) {
			if tc.verb == "" {
				tc.verb = "list"
			}
			if tc.n == "" {
				tc.n = "a"
			}
			var whole, got bool
			var accepted string
			handler := WithTables(http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) {
				whole, got = storage.TableFrom(req.Context())
				accepted = req.Header.Get("Accept")
			}))
			req := httptest.NewRequest(http.MethodGet, "/x"+tc.query, nil)
			req.Header.Set("Accept", tc.accept)
			ctx := request.WithRequestInfo(req.Context(), &request.RequestInfo{IsResourceRequest: true, Verb: tc.verb})
			handler.ServeHTTP(httptest.NewRecorder(), req.WithContext(tenant.WithSpace(ctx, tc.n)))
			if want := cmp.Or(tc.accepted, tc.accept); !strings.HasPrefix(accepted, want) || tc.accepted != "" && strings.Contains(accepted, "Table") {
				t.Errorf("it accepts %q, want %q", accepted, want)
			}
			if got != tc.want || whole != tc.whole {
				t.Errorf("a table: %t, want %t; whole: %t, want %t", got, tc.want, whole, tc.whole)
			}
		})
	}
}

// TestMetrics checks that lists of metrics in spaces are bounded, whoever asks for them in which form.
func TestMetrics(t *testing.T) {
	for _, group := range []string{"metrics.k8s.io", "custom.metrics.k8s.io", "external.metrics.k8s.io", "example.com"} {
		for _, n := range []tenant.Name{"a", tenant.System} {
			ctx := request.WithRequestInfo(tenant.WithSpace(t.Context(), n), &request.RequestInfo{IsResourceRequest: true, Verb: "list", APIGroup: group})
			handler := WithTables(http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) {
				if _, got := storage.TableFrom(req.Context()); got != (group != "example.com" && n == "a") {
					t.Errorf("%s in %q: bounded: %v", group, n, got)
				}
			}))
			handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(ctx, http.MethodGet, "/x", nil))
		}
	}
}
