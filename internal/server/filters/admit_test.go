package filters

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/client-go/kubernetes/scheme"

	tenantregistry "github.com/tenantry/tenantry/internal/server/registry/tenant"
	"github.com/tenantry/tenantry/internal/tenant"
)

var errState = errors.New("the store is away")

// known is the state of tenants "a" and "b"; of "broken" it cannot be read.
func known(_ context.Context, n tenant.Name) (tenantregistry.State, bool, error) {
	if n == "broken" {
		return tenantregistry.State{}, false, errState
	}
	return tenantregistry.State{UID: types.UID("uid-" + n)}, n == "a" || n == "b", nil
}

// checked returns what a request says whose credentials were checked for the tenant of a UID.
func checked(requested tenant.Scope, authenticated tenant.Name, uid types.UID) *tenant.Request {
	r := &tenant.Request{Requested: requested, Authenticated: authenticated}
	r.NoteUID(uid)
	return r
}

func TestAdmitToSpace(t *testing.T) {
	pods := func(verb string) *request.RequestInfo {
		return &request.RequestInfo{IsResourceRequest: true, Verb: verb, Resource: "pods"}
	}
	health := &request.RequestInfo{Verb: "get", Path: "/readyz"}
	for name, tc := range map[string]struct {
		requested     tenant.Scope
		authenticated tenant.Name
		extra         []string
		info          *request.RequestInfo
		space         tenant.Name
		uid           types.UID
		is            func(error) bool // nil if admitted
	}{
		"own space":                       {authenticated: "a", info: pods("get"), space: "a", uid: "uid-a"},
		"a system user in a space":        {requested: "b", authenticated: tenant.System, info: pods("get"), space: "b", uid: "uid-b"},
		"a stranger":                      {requested: "b", authenticated: "a", info: pods("get"), is: apierrors.IsForbidden},
		"nobody's health check":           {info: health},
		"nobody's pods":                   {info: pods("get"), is: apierrors.IsForbidden},
		"a health check of a broken user": {authenticated: "a", extra: []string{"A"}, info: health, is: apierrors.IsForbidden},
		"the system space":                {authenticated: tenant.System, info: pods("create")},
		"a list of all":                   {requested: tenant.All, authenticated: tenant.System, info: pods("list")},
		"a watch of all":                  {requested: tenant.All, authenticated: tenant.System, info: pods("watch")},
		"a creation in all":               {requested: tenant.All, authenticated: tenant.System, info: pods("create"), is: apierrors.IsMethodNotSupported},
		"a look at one of all":            {requested: tenant.All, authenticated: tenant.System, info: pods("get"), is: apierrors.IsMethodNotSupported},
		"discovery of all":                {requested: tenant.All, authenticated: tenant.System, info: &request.RequestInfo{Verb: "get", Path: "/api"}},
		"a list of everything":            {requested: tenant.Everything, authenticated: tenant.System, info: pods("list")},
		"a deletion in everything":        {requested: tenant.Everything, authenticated: tenant.System, info: pods("delete"), is: apierrors.IsMethodNotSupported},
		"the state cannot be read":        {authenticated: "broken", info: pods("get"), is: apierrors.IsInternalError},
		"no RequestInfo":                  {authenticated: "a", is: apierrors.IsInternalError},
	} {
		t.Run(name, func(t *testing.T) {
			ctx := tenant.WithRequest(t.Context(), checked(tc.requested, tc.authenticated, types.UID("uid-"+tc.authenticated)))
			if tc.extra != nil {
				ctx = request.WithUser(ctx, &user.DefaultInfo{Name: "u", Extra: map[string][]string{tenant.UserExtraKey: tc.extra}})
			}
			if tc.info != nil {
				ctx = request.WithRequestInfo(ctx, tc.info)
			}
			n, uid, err := admitToSpace(httptest.NewRequestWithContext(ctx, http.MethodGet, "/", nil), known, nil)
			if n != tc.space || uid != tc.uid {
				t.Errorf("got space %q of %q, want %q of %q", n, uid, tc.space, tc.uid)
			}
			if (err != nil) != (tc.is != nil) || err != nil && !tc.is(err) {
				t.Errorf("got error %v", err)
			}
		})
	}
}

// TestWithSpace checks which requests end with which tenant.
func TestWithSpace(t *testing.T) {
	type bound struct {
		Space  tenant.Name
		UID    types.UID
		System bool
	}
	for name, tc := range map[string]struct {
		requested     tenant.Scope
		authenticated tenant.Name
		code          int
		want          []bound
	}{
		"a member":         {authenticated: "a", code: http.StatusOK, want: []bound{{"a", "uid-a", false}}},
		"a system user":    {requested: "a", authenticated: tenant.System, code: http.StatusOK, want: []bound{{"a", "uid-a", true}}},
		"the system space": {authenticated: tenant.System, code: http.StatusOK},
		"all":              {requested: tenant.All, authenticated: tenant.System, code: http.StatusOK},
		"a stranger":       {requested: "b", authenticated: "a", code: http.StatusForbidden},
	} {
		t.Run(name, func(t *testing.T) {
			var got []bound
			detached := 0
			bind := func(ctx context.Context, n tenant.Name, uid types.UID, system bool) (context.Context, context.CancelFunc) {
				got = append(got, bound{n, uid, system})
				return ctx, func() { detached++ }
			}
			handler := WithSpace(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				if detached > 0 {
					t.Error("the request no longer ends with its tenant while it is served")
				}
				w.WriteHeader(http.StatusOK)
			}), known, nil, bind, scheme.Codecs.WithoutConversion())
			ctx := tenant.WithRequest(t.Context(), checked(tc.requested, tc.authenticated, types.UID("uid-"+tc.authenticated)))
			ctx = request.WithRequestInfo(ctx, &request.RequestInfo{IsResourceRequest: true, Verb: "list", Resource: "pods"})
			recorder := httptest.NewRecorder()
			handler.ServeHTTP(recorder, httptest.NewRequestWithContext(ctx, http.MethodGet, "/api/v1/pods", nil))
			if recorder.Code != tc.code || detached != len(tc.want) {
				t.Errorf("got %d and %d ends, want %d and %d", recorder.Code, detached, tc.code, len(tc.want))
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestUsersAreAsAuthenticated checks that an impersonated user is what authentication would
// have made of it, for all that comes behind authorization.
func TestUsersAreAsAuthenticated(t *testing.T) {
	bind := func(ctx context.Context, _ tenant.Name, _ types.UID, _ bool) (context.Context, context.CancelFunc) {
		return ctx, func() {}
	}
	for name, tc := range map[string]struct {
		of     tenant.Name
		name   string
		groups []string
		code   int
		want   []string
	}{
		"privileged":         {"a", "u", []string{"g", user.SystemPrivilegedGroup}, http.StatusOK, []string{"g", user.AllAuthenticated}},
		"with a system name": {"a", "system:admin", nil, http.StatusForbidden, nil},
		"a system user":      {tenant.System, "u", []string{user.SystemPrivilegedGroup}, http.StatusOK, []string{user.SystemPrivilegedGroup}},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			handler := WithSpace(http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) {
				u, _ := request.UserFrom(req.Context())
				got = u.GetGroups()
			}), known, nil, bind, scheme.Codecs.WithoutConversion())
			ctx := tenant.WithRequest(t.Context(), checked("a", tc.of, types.UID("uid-"+tc.of)))
			ctx = request.WithRequestInfo(ctx, &request.RequestInfo{IsResourceRequest: true, Verb: "list", Resource: "pods"})
			ctx = request.WithUser(ctx, &user.DefaultInfo{Name: tc.name, Groups: tc.groups, Extra: map[string][]string{tenant.UserExtraKey: {string(tc.of)}}})
			recorder := httptest.NewRecorder()
			handler.ServeHTTP(recorder, httptest.NewRequestWithContext(ctx, http.MethodGet, "/api/v1/pods", nil))
			if recorder.Code != tc.code {
				t.Errorf("status %d, want %d", recorder.Code, tc.code)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestWithTenant checks what the other filters see of a path.
func TestWithTenant(t *testing.T) {
	for path, tc := range map[string]struct {
		code      int
		requested tenant.Scope
		path, uri string
	}{
		"/tenants/a/api/v1/pods?limit=1":                {http.StatusOK, "a", "/api/v1/pods", "/api/v1/pods?limit=1"},
		"/api/v1/tenants/a/pods":                        {http.StatusOK, "a", "/api/v1/pods", "/api/v1/pods"},
		"/api/v1/pods?x=1":                              {http.StatusOK, "", "/api/v1/pods", "/api/v1/pods?x=1"},
		"/tenants/a/../b/api/v1/pods":                   {code: http.StatusBadRequest},
		"/api/v1/pods?x=" + strings.Repeat("1", maxURI): {code: http.StatusRequestURITooLong},
		"/tenants/a/api/v1/tenants/b/pods":              {code: http.StatusBadRequest},
	} {
		t.Run(path, func(t *testing.T) {
			served := false
			handler := WithTenant(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
				served = true
				if got := tenant.RequestFrom(req.Context()).Requested; got != tc.requested || req.URL.Path != tc.path || req.RequestURI != tc.uri {
					t.Errorf("got %q, %q, %q; want %q, %q, %q", got, req.URL.Path, req.RequestURI, tc.requested, tc.path, tc.uri)
				}
				w.WriteHeader(http.StatusOK)
			}), scheme.Codecs.WithoutConversion())
			recorder := httptest.NewRecorder()
			handler.ServeHTTP(recorder, httptest.NewRequest(http.MethodGet, path, nil))
			if recorder.Code != tc.code || served != (tc.code == http.StatusOK) {
				t.Errorf("got %d, served: %t; want %d", recorder.Code, served, tc.code)
			}
		})
	}
}
