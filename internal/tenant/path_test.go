package tenant

import (
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParsePath(t *testing.T) {
	for path, want := range map[string]Target{
		"/":                      {Path: "/"},
		"/tenants":               {Path: "/tenants"},
		"/tenants/":              {Path: "/tenants/"},
		"/tenants/a":             {Scope: "a", Path: "/"},
		"/tenants/a/":            {Scope: "a", Path: "/"},
		"/tenants/a/version":     {Scope: "a", Path: "/version"},
		"/tenants/a/api/v1/pods": {Scope: "a", Path: "/api/v1/pods"},
		"/tenants/a/apis/apps/v1/namespaces/ns/deployments": {Scope: "a", Path: "/apis/apps/v1/namespaces/ns/deployments"},
		"/api/v1/pods":                                        {Path: "/api/v1/pods"},
		"/api/v1/tenants":                                     {Path: "/api/v1/tenants"},
		"/api/v1/tenants/a":                                   {Path: "/api/v1/tenants/a"},
		"/api/v1/tenants/a/":                                  {Path: "/api/v1/tenants/a/"},
		"/api/v1/tenants/a/status":                            {Path: "/api/v1/tenants/a/status"},
		"/api/v1/tenants/a/finalize":                          {Path: "/api/v1/tenants/a/finalize"},
		"/api/v1/tenants/status/pods":                         {Scope: "status", Path: "/api/v1/pods"},
		"/api/v1/tenants/pods/pods":                           {Scope: "pods", Path: "/api/v1/pods"},
		"/api/v1/tenants/namespaces/namespaces/pods/pods":     {Scope: "namespaces", Path: "/api/v1/namespaces/pods/pods"},
		"/api/v1/tenants/a/namespaces/ns/pods/p/status":       {Scope: "a", Path: "/api/v1/namespaces/ns/pods/p/status"},
		"/api/v1/watch/tenants/a/pods":                        {Scope: "a", Path: "/api/v1/watch/pods"},
		"/api/v1/watch/tenants/a":                             {Path: "/api/v1/watch/tenants/a"},
		"/apis/apps/v1/tenants/a/namespaces/ns/deployments":   {Scope: "a", Path: "/apis/apps/v1/namespaces/ns/deployments"},
		"/apis/apps/v1/watch/tenants/a/deployments":           {Scope: "a", Path: "/apis/apps/v1/watch/deployments"},
		"/apis/tenantry.io/v1alpha1/tenants/a":                {Path: "/apis/tenantry.io/v1alpha1/tenants/a"},
		"/apis/tenantry.io/v1alpha1/tenants/a/status":         {Path: "/apis/tenantry.io/v1alpha1/tenants/a/status"},
		"/api/v1/namespaces/tenants/pods/p":                   {Path: "/api/v1/namespaces/tenants/pods/p"},
		"/api/v1/tenants/all/namespaces/foo/pods":             {Scope: "all", Path: "/api/v1/namespaces/foo/pods"},
		"/tenants/a/api/v1/tenants/a/pods":                    {Scope: "a", Path: "/api/v1/pods"},
		"/tenants/a/api/v1/tenants/b":                         {Scope: "a", Path: "/api/v1/tenants/b"},
		"/api/v1/namespaces/ns/services/s/proxy/a//b":         {Path: "/api/v1/namespaces/ns/services/s/proxy/a//b"},
		"/tenants/a/api/v1/namespaces/n/pods/p/proxy/%61/x":   {Scope: "a", Path: "/api/v1/namespaces/n/pods/p/proxy/a/x"},
		"/api/v1/tenants/a/namespaces/n/configmaps/tenants":   {Scope: "a", Path: "/api/v1/namespaces/n/configmaps/tenants"},
		"/apis/g/v1/tenants/b/tenants":                        {Scope: "b", Path: "/apis/g/v1/tenants"},
		"/apis/g/v1/tenants/b/tenants/x":                      {Scope: "b", Path: "/apis/g/v1/tenants/x"},
		"/openapi/v3/apis/apps/v1":                            {Path: "/openapi/v3/apis/apps/v1"},
		"/tenants/all/api/v1/namespaces/foo/pods":             {Scope: "all", Path: "/api/v1/namespaces/foo/pods"},
		"/tenants/*/api/v1/pods":                              {Scope: Everything, Path: "/api/v1/pods"},
		"/tenants/system/api/v1/namespaces/foo/pods":          {Scope: "system", Path: "/api/v1/namespaces/foo/pods"},
		"/tenants/" + strings.Repeat("a", 63) + "/api":        {Scope: Scope(strings.Repeat("a", 63)), Path: "/api"},
		"/apis/apps/v1/tenants/a/namespaces/ns/deployments/d": {Scope: "a", Path: "/apis/apps/v1/namespaces/ns/deployments/d"},
	} {
		t.Run(path, func(t *testing.T) {
			u, err := url.ParseRequestURI(path)
			if err != nil {
				t.Fatal(err)
			}
			got, err := ParsePath(u.Path, u.EscapedPath())
			if err != nil {
				t.Fatal(err)
			}
			if unescaped, err := url.PathUnescape(got.Escaped); err != nil || unescaped != got.Path {
				t.Errorf("encoded path %q is not %q", got.Escaped, got.Path)
			}
			got.Escaped = ""
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestParsePathRefuses(t *testing.T) {
	for _, path := range []string{
		"/tenants//api", "//tenants/a/api", "/tenants/a//api", "/api//v1/tenants/a/pods",
		"/tenants/A/api", "/tenants/a.b/api", "/tenants/" + strings.Repeat("a", 64) + "/api",
		"/tenants/a/../b/api", "/tenants/../tenants/b/api", "/tenants/a/./api",
		"/tenants/a%2f..%2fb/api", "/tenants/%61/api", "/%74enants/a/api", "/tenants/a%2fapi/v1/pods",
		"/api/v1/tenants/%2e%2e/pods", "/api/v1/tenants/a/namespaces/%2e%2e/pods",
		"/api/v1%2ftenants/a/pods", "/api/v1/tenants/%61/pods", "/api/v1/tenants/A/pods",
		"/tenants/a/tenants/b/api", "/tenants/a/tenants", "/tenants/a/api/v1/tenants/b/pods",
		"/tenants/a%00/api", "/tenants/a%20/api", "/tenants/-a/api",
		"/api/v1/tenants/*/pods", "/tenants/%2a/api", "/tenants/**/api",
	} {
		t.Run(path, func(t *testing.T) {
			u, err := url.ParseRequestURI(path)
			if err != nil {
				t.Skip("no URL")
			}
			if got, err := ParsePath(u.Path, u.EscapedPath()); err == nil {
				t.Errorf("ParsePath(%q) = %+v, want an error", path, got)
			}
		})
	}
}

// TestParsePathWithoutSlash checks the paths of requests that name no path, such as
// OPTIONS *.
func TestParsePathWithoutSlash(t *testing.T) {
	for _, path := range []string{"", "*", "tenants/a/api"} {
		if got, err := ParsePath(path, path); err == nil {
			t.Errorf("ParsePath(%q) = %+v, want an error", path, got)
		}
	}
}

// FuzzParsePath checks that whatever is sent, the result names either no tenant
// or exactly one that stands literally in the path, and that what remains is
// not a path that names a tenant again.
func FuzzParsePath(f *testing.F) {
	for _, seed := range []string{
		"/tenants/a/api/v1/pods", "/api/v1/tenants/a/pods", "/apis/g/v/watch/tenants/a/x", "/tenants/a/tenants/b",
		"/tenants/%61/api", "/api/v1/tenants/a/status", "//tenants/a", "/tenants/a%2fb/c",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		u, err := url.ParseRequestURI(raw)
		if err != nil || u.Host != "" || u.Path == "" {
			t.Skip()
		}
		target, err := ParsePath(u.Path, u.EscapedPath())
		if err != nil {
			return
		}
		if target.Scope == "" {
			if target.Path != u.Path {
				t.Fatalf("short path %q became %q", u.Path, target.Path)
			}
			return
		}
		if _, err := parseRoot(string(target.Scope)); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(u.EscapedPath(), "tenants/"+string(target.Scope)) {
			t.Fatalf("tenant %q is not in %q", target.Scope, u.EscapedPath())
		}
		if target.Path == "" || target.Path[0] != '/' {
			t.Fatalf("rest %q is no path", target.Path)
		}
		again, err := ParsePath(target.Path, target.Path)
		if err == nil && strings.HasPrefix(target.Path, "/tenants/") && again.Scope != "" {
			t.Fatalf("rest %q names a space again", target.Path)
		}
	})
}
