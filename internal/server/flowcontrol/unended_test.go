package flowcontrol

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"k8s.io/apiserver/pkg/endpoints/request"

	"github.com/tenantry/tenantry/internal/tenant"
)

// TestUnended checks that what runs for a write does not end with its client, so that its
// seats are not free before.
func TestUnended(t *testing.T) {
	longRunning := func(_ *http.Request, info *request.RequestInfo) bool { return info.Verb == "connect" }
	for name, tc := range map[string]struct {
		tenant tenant.Name
		verb   string
		ends   bool
	}{
		"write":               {"acme", "create", false},
		"patch":               {"acme", "patch", false},
		"read":                {"acme", "list", true},
		"exec":                {"acme", "connect", true},
		"write by the system": {tenant.System, "create", true},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, gone := context.WithCancel(contextOf(&tenant.Request{Authenticated: tc.tenant}, userOf(tc.tenant, "jane")))
			ctx, cancel := context.WithTimeout(ctx, 300*time.Millisecond) // as the client asks
			defer cancel()
			asked, _ := ctx.Deadline()
			ctx = request.WithRequestInfo(ctx, &request.RequestInfo{Verb: tc.verb, IsResourceRequest: true})
			handler := WithUnended(http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) {
				gone()
				if ended := req.Context().Err() != nil; ended != tc.ends {
					t.Errorf("ended with its client: %v, want %v", ended, tc.ends)
				}
				if got, ok := req.Context().Deadline(); !ok || got.Equal(asked) != tc.ends {
					t.Errorf("ends at %s, the client asked for %s", got, asked)
				}
			}), longRunning)
			handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/", nil).WithContext(ctx))
		})
	}
}
