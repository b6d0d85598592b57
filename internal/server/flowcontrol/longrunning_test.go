package flowcontrol

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/endpoints/request"
	genericfilters "k8s.io/apiserver/pkg/server/filters"

	"github.com/tenantry/tenantry/internal/tenant"
)

// TestLongRunning checks that what a tenant names so has a seat all the same, but for watches.
func TestLongRunning(t *testing.T) {
	long := LongRunning(genericfilters.BasicLongRunningRequestCheck(sets.NewString("watch", "proxy"), sets.NewString("attach", "exec", "proxy", "log", "portforward")))
	for _, tc := range []struct {
		in                tenant.Scope
		verb, subresource string
		want              bool
	}{
		{"acme", "watch", "", true},
		{"acme", "create", "exec", false},
		{"acme", "get", "log", false},
		{"acme", "create", "log", false},
		{"acme", "proxy", "", false},
		{"acme", "get", "proxy", false},
		{tenant.All, "create", "exec", false},
		{tenant.System.Scope(), "create", "exec", true},
		{tenant.System.Scope(), "get", "", false},
		{"", "get", "log", true}, // whose space is not known yet
	} {
		ctx := t.Context()
		if tc.in != "" {
			ctx = tenant.WithScope(ctx, tc.in)
		}
		req := httptest.NewRequestWithContext(ctx, http.MethodPost, "/", nil)
		if got := long(req, &request.RequestInfo{IsResourceRequest: true, Verb: tc.verb, Resource: "configmaps", Subresource: tc.subresource}); got != tc.want {
			t.Errorf("%q, %s of %q: %v", tc.in, tc.verb, tc.subresource, got)
		}
	}
}
