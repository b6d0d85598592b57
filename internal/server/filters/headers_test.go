package filters

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/filters/impersonation"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/kubernetes/pkg/api/legacyscheme"

	"github.com/tenantry/tenantry/internal/tenant"
)

// TestImpersonatedExtras checks that the extras of an impersonated user are noted as upstream's impersonation makes
// them, because they say in which space it is authorized.
func TestImpersonatedExtras(t *testing.T) {
	for name, raw := range map[string]string{
		"encoded":            "Impersonate-Extra-Tenantry.io%2Ftenant: a\r\n",
		"encoded more":       "impersonate-extra-%74enantry%2eIO%2fTENANT: a\r\n",
		"upper case":         "Impersonate-Extra-%54enantry.io%2Ftenant: a\r\n",
		"encoded wrongly":    "Impersonate-Extra-Tenantry.io%2tenant: a\r\n",
		"encoded twice":      "Impersonate-Extra-Tenantry.io%252Ftenant: a\r\n",
		"twice":              "Impersonate-Extra-Tenantry.io%2Ftenant: a\r\nImpersonate-Extra-Tenantry.io%2Ftenant: b\r\n",
		"twice, differently": "Impersonate-Extra-Tenantry.io%2Ftenant: a\r\nImpersonate-Extra-Tenantry%2Eio%2Ftenant: a\r\n",
		"others":             "Impersonate-Extra-Scopes: a, b\r\nImpersonate-Extra-: c\r\nImpersonate-Group: d\r\n",
		"none":               "",
	} {
		t.Run(name, func(t *testing.T) {
			req, err := http.ReadRequest(bufio.NewReader(strings.NewReader("GET /api HTTP/1.1\r\nHost: h\r\nImpersonate-User: jane\r\n" + raw + "\r\n")))
			if err != nil {
				t.Fatal(err)
			}
			var want map[string][]string
			upstream := impersonation.WithImpersonation(http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) {
				u, _ := request.UserFrom(req.Context())
				want = u.GetExtra()
			}), authorizer.AuthorizerFunc(func(context.Context, authorizer.Attributes) (authorizer.Decision, string, error) {
				return authorizer.DecisionAllow, "", nil
			}), legacyscheme.Codecs)
			WithTenant(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
				upstream.ServeHTTP(w, req.WithContext(request.WithUser(req.Context(), &user.DefaultInfo{Name: "support"})))
				if got := tenant.RequestFrom(req.Context()).Impersonated; !cmp.Equal(got, want, cmpopts.EquateEmpty()) || want == nil {
					t.Errorf("noted %v, upstream makes %v", got, want)
				}
			}), legacyscheme.Codecs).ServeHTTP(httptest.NewRecorder(), req)
		})
	}
}

// TestHeaders checks that headers are as long as they may be, and no longer.
func TestHeaders(t *testing.T) {
	groups := func(n int) http.Header {
		headers := http.Header{}
		for i := range n {
			headers.Add("Impersonate-Group", fmt.Sprint("g", i))
		}
		return headers
	}
	for name, tc := range map[string]struct {
		headers http.Header
		refused bool
	}{
		"none":              {http.Header{}, false},
		"longest":           {http.Header{"X": {strings.Repeat("x", maxHeaders-1)}}, false},
		"long":              {http.Header{"X": {strings.Repeat("x", maxHeaders)}}, true},
		"long together":     {http.Header{"X": {strings.Repeat("x", maxHeaders/2), strings.Repeat("x", maxHeaders/2)}}, true},
		"most groups":       {groups(maxImpersonated), false},
		"too many groups":   {groups(maxImpersonated + 1), true},
		"many other things": {http.Header{"X-Group": groups(maxImpersonated + 1)["Impersonate-Group"]}, false},
		"extra values":      {http.Header{"Impersonate-Extra-A": groups(maxImpersonated)["Impersonate-Group"], "Impersonate-Extra-B": {"b"}}, true},
	} {
		t.Run(name, func(t *testing.T) {
			served := false
			handler := WithTenant(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { served = true }), legacyscheme.Codecs)
			req := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/api/v1/pods", nil)
			req.Header = tc.headers
			recorder := httptest.NewRecorder()
			handler.ServeHTTP(recorder, req)
			if served == tc.refused || tc.refused && recorder.Code != http.StatusRequestHeaderFieldsTooLarge {
				t.Errorf("served: %v, %d: %s", served, recorder.Code, recorder.Body)
			}
		})
	}
}
