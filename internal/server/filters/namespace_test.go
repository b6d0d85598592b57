package filters

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/endpoints/request"

	"github.com/tenantry/tenantry/internal/tenant"
)

func TestWithNamespace(t *testing.T) {
	for name, tc := range map[string]struct {
		method, namespace string
		scope             tenant.Scope
		want              types.UID
		noted             bool
	}{
		"create":              {http.MethodPost, "known", "acme", "uid of acme|known", true},
		"update":              {http.MethodPut, "known", "acme", "uid of acme|known", true},
		"patch":               {http.MethodPatch, "known", tenant.System.Scope(), "uid of known", true},
		"delete":              {http.MethodDelete, "known", "acme", "uid of acme|known", true},
		"a new namespace":     {http.MethodPost, "new", "acme", "", true},
		"nothing is changed":  {http.MethodGet, "known", "acme", "", false},
		"no namespace":        {http.MethodPost, "", "acme", "", false},
		"all tenants at once": {http.MethodPost, "known", tenant.All, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			ctx := tenant.WithScope(t.Context(), tc.scope)
			ctx = request.WithRequestInfo(ctx, &request.RequestInfo{IsResourceRequest: true, Namespace: tc.namespace})
			handler := WithNamespace(http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) {
				if got, noted := tenant.RequestFrom(req.Context()).Namespace(); got != tc.want || noted != tc.noted {
					t.Errorf("noted %q, %v", got, noted)
				}
			}), func(name tenant.Flat) types.UID {
				if name.Plain() == "new" {
					return ""
				}
				return types.UID("uid of " + name)
			})
			handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(ctx, tc.method, "/", nil))
		})
	}
}
