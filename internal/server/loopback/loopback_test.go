package loopback

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/client-go/rest"

	"github.com/tenantry/tenantry/internal/tenant"
)

// as returns the context of a request of a user of tenant own that names a space.
func as(t *testing.T, own tenant.Name, requested tenant.Scope) context.Context {
	t.Helper()
	ctx := tenant.WithRequest(t.Context(), &tenant.Request{Requested: requested, Authenticated: own})
	return request.WithUser(ctx, &user.DefaultInfo{Name: "u", Extra: map[string][]string{tenant.UserExtraKey: {string(own)}}})
}

func TestSpaces(t *testing.T) {
	var asked string
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) { asked = req.RequestURI }))
	defer server.Close()
	base := &rest.Config{Host: server.URL}
	serving := OfRequest(base, Path{Path: "/apis/g/v1/shared"}, Path{Method: http.MethodGet, Path: "/api/v1", Exactly: true})
	const pods = "/api/v1/namespaces/ns/pods"
	for name, tc := range map[string]struct {
		config       *rest.Config
		ctx          context.Context
		method, path string
		want         string // is empty if nothing is asked
	}{
		"system":                             {config: System(base), path: pods, want: "/tenants/system" + pods},
		"system, escaped":                    {config: System(base), path: "/api/v1/a%2Fb", want: "/tenants/system/api/v1/a%2Fb"},
		"system, another space":              {config: System(base), path: "/tenants/acme" + pods, want: "/tenants/acme" + pods},
		"system, whatever the context says":  {config: System(base), ctx: as(t, "acme", ""), path: pods, want: "/tenants/system" + pods},
		"no request":                         {config: serving, path: pods},
		"request without a tenant":           {config: serving, ctx: tenant.WithRequest(t.Context(), &tenant.Request{}), path: pods},
		"request of a tenant":                {config: serving, ctx: as(t, "acme", ""), path: pods, want: "/tenants/acme" + pods},
		"request of the system's user":       {config: serving, ctx: as(t, tenant.System, ""), path: pods, want: "/tenants/system" + pods},
		"request of the system in a space":   {config: serving, ctx: as(t, tenant.System, "acme"), path: pods, want: "/tenants/acme" + pods},
		"request of a foreign user":          {config: serving, ctx: as(t, "globex", "acme"), path: pods},
		"request about all spaces":           {config: serving, ctx: as(t, tenant.System, tenant.All), path: pods},
		"platform's path":                    {config: serving, path: "/apis/g/v1/shared/x", want: "/tenants/system/apis/g/v1/shared/x"},
		"platform's path for a tenant":       {config: serving, ctx: as(t, "acme", ""), path: "/apis/g/v1/shared", want: "/tenants/system/apis/g/v1/shared"},
		"what begins like a platform's path": {config: serving, path: "/apis/g/v1/sharedfiles"},
		"below an exact path":                {config: serving, path: "/api/v1/secrets"},
		"exact path":                         {config: serving, path: "/api/v1", want: "/tenants/system/api/v1"},
		"exact path, another method":         {config: serving, method: http.MethodPost, path: "/api/v1"},
	} {
		t.Run(name, func(t *testing.T) {
			asked = ""
			if tc.ctx == nil {
				tc.ctx = t.Context()
			}
			client, err := rest.HTTPClientFor(tc.config)
			if err != nil {
				t.Fatal(err)
			}
			req, err := http.NewRequestWithContext(tc.ctx, tc.method, server.URL+tc.path, nil)
			if err != nil {
				t.Fatal(err)
			}
			response, err := client.Do(req)
			if err == nil {
				response.Body.Close()
			}
			if asked != tc.want {
				t.Errorf("asked for %q, want %q", asked, tc.want)
			}
			if tc.want == "" && (err == nil || !strings.Contains(err.Error(), "names no space")) {
				t.Errorf("error %v", err)
			}
		})
	}
}
