package filters

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	tenantregistry "github.com/tenantry/tenantry/internal/server/registry/tenant"
	"github.com/tenantry/tenantry/internal/server/spaceapi"
	"github.com/tenantry/tenantry/internal/tenant"
)

func TestAdmit(t *testing.T) {
	pods := func(verb string) *request.RequestInfo {
		return &request.RequestInfo{IsResourceRequest: true, Verb: verb, Resource: "pods"}
	}
	review := &request.RequestInfo{
		IsResourceRequest: true, Verb: "create", APIGroup: "authorization.k8s.io", Resource: "selfsubjectaccessreviews",
	}
	deletion := func(verb, group, resource, name string) *request.RequestInfo {
		return &request.RequestInfo{IsResourceRequest: true, Verb: verb, APIGroup: group, Resource: resource, Name: name}
	}
	shows := func(n tenant.Name, resource schema.GroupResource, name string) (bool, error) {
		if name == "unknown" {
			return false, errors.New("no discovery")
		}
		return n == "a" && resource == spaceapi.APIServices && name == "v1.apps", nil
	}
	const registration = "apiregistration.k8s.io"
	terminating := tenantregistry.State{Terminating: true}
	suspended := tenantregistry.State{Suspended: true, Reason: "unpaid"}
	for name, tc := range map[string]struct {
		own     tenant.Name
		info    *request.RequestInfo
		state   tenantregistry.State
		missing bool
		is      func(error) bool // nil if admitted
		message string
	}{
		"member":                                {own: "a", info: pods("create")},
		"system user":                           {own: tenant.System, info: pods("create")},
		"system user, unknown tenant":           {own: tenant.System, info: pods("get"), missing: true, is: apierrors.IsNotFound, message: `"a"`},
		"user of a missing tenant":              {own: "a", info: pods("get"), missing: true, is: apierrors.IsForbidden, message: "does not exist"},
		"Tenants inside a space":                {own: "a", info: &request.RequestInfo{IsResourceRequest: true, Verb: "list", Resource: "tenants"}, is: apierrors.IsNotFound},
		"reports inside a space":                {own: "a", info: &request.RequestInfo{IsResourceRequest: true, Verb: "list", APIGroup: "tenantry.io", Resource: "publishedobjects"}, is: apierrors.IsNotFound},
		"KeystoneSyncs inside a space":          {own: "a", info: &request.RequestInfo{IsResourceRequest: true, Verb: "list", APIGroup: "tenantry.io", Resource: "keystonesyncs"}, is: apierrors.IsNotFound},
		"Tenants of the group inside a space":   {own: "a", info: &request.RequestInfo{IsResourceRequest: true, Verb: "list", APIGroup: "tenantry.io", Resource: "tenants"}, is: apierrors.IsNotFound},
		"health of components inside a space":   {own: "system", info: &request.RequestInfo{IsResourceRequest: true, Verb: "list", Resource: "componentstatuses"}, is: apierrors.IsNotFound},
		"nodes inside a space":                  {own: "a", info: &request.RequestInfo{IsResourceRequest: true, Verb: "list", Resource: "nodes"}, is: apierrors.IsForbidden, message: "belong to the system space"},
		"a node's proxy inside a space":         {own: "a", info: &request.RequestInfo{IsResourceRequest: true, Verb: "get", Resource: "nodes", Subresource: "proxy"}, is: apierrors.IsForbidden},
		"a Node is for admission to refuse":     {own: "a", info: &request.RequestInfo{IsResourceRequest: true, Verb: "create", Resource: "nodes"}},
		"nodes of another group":                {own: "a", info: &request.RequestInfo{IsResourceRequest: true, Verb: "list", APIGroup: "example.com", Resource: "nodes"}},
		"a proxy inside a space":                {own: "a", info: &request.RequestInfo{IsResourceRequest: true, Verb: "get", Resource: "services", Subresource: "proxy"}, is: apierrors.IsForbidden, message: "does not connect"},
		"a proxy of a system user":              {own: tenant.System, info: &request.RequestInfo{IsResourceRequest: true, Verb: "create", Resource: "pods", Subresource: "proxy"}, is: apierrors.IsForbidden},
		"a node, to delete it":                  {own: "a", info: deletion("delete", "", "nodes", "none"), is: apierrors.IsNotFound, message: `nodes "none" not found`},
		"a node, to change it":                  {own: "a", info: deletion("patch", "", "nodes", "none"), is: apierrors.IsForbidden},
		"all nodes, to delete them":             {own: "a", info: deletion("deletecollection", "", "nodes", ""), is: apierrors.IsForbidden},
		"an APIService that is shown":           {own: "a", info: deletion("delete", registration, "apiservices", "v1.apps"), is: apierrors.IsForbidden, message: "by the platform only"},
		"one that is not":                       {own: "a", info: deletion("delete", registration, "apiservices", "v1.none"), is: apierrors.IsNotFound, message: `"v1.none" not found`},
		"one that is not, of a system user":     {own: tenant.System, info: deletion("delete", registration, "apiservices", "v1.none"), is: apierrors.IsNotFound},
		"one that is not, to change it":         {own: "a", info: deletion("patch", registration, "apiservices", "v1.none"), is: apierrors.IsForbidden},
		"one that may be shown":                 {own: "a", info: deletion("delete", registration, "apiservices", "unknown"), is: apierrors.IsInternalError},
		"all APIServices, to delete them":       {own: "a", info: deletion("deletecollection", registration, "apiservices", ""), is: apierrors.IsForbidden},
		"terminating, system user creates":      {own: tenant.System, info: pods("create"), state: terminating, is: apierrors.IsForbidden, message: "no new objects"},
		"terminating, system user deletes":      {own: tenant.System, info: pods("deletecollection"), state: terminating},
		"terminating, system user drops a lock": {own: tenant.System, info: pods("patch"), state: terminating},
		"terminating, member reads":             {own: "a", info: pods("list"), state: terminating},
		"terminating, member writes":            {own: "a", info: pods("update"), state: terminating, is: apierrors.IsForbidden, message: "being deleted"},
		"terminating, member deletes":           {own: "a", info: pods("delete"), state: terminating, is: apierrors.IsForbidden, message: "being deleted"},
		"terminating, member asks":              {own: "a", info: review, state: terminating},
		"suspended, member":                     {own: "a", info: pods("get"), state: suspended, is: apierrors.IsForbidden, message: "suspended: unpaid"},
		"suspended, discovery":                  {own: "a", info: &request.RequestInfo{Verb: "get", Path: "/api"}, state: suspended, is: apierrors.IsForbidden},
		"suspended, system user":                {own: tenant.System, info: pods("create"), state: suspended},
	} {
		t.Run(name, func(t *testing.T) {
			err := admit("a", tc.own, tc.info, tc.state, !tc.missing, shows)
			if tc.is == nil {
				if err != nil {
					t.Error(err)
				}
				return
			}
			if err == nil || !tc.is(err) || !strings.Contains(err.Error(), tc.message) {
				t.Errorf("got error %v, want one with %q", err, tc.message)
			}
		})
	}
}

func TestControllersGiveUpOnTerminatingTenants(t *testing.T) {
	if !apierrors.HasStatusCause(Terminating("a"), corev1.NamespaceTerminatingCause) {
		t.Error("the refusal does not look like that of a terminating namespace")
	}
}

// TestRequestsOfAnEarlierTenant checks that a request which has waited while its tenant
// was deleted and created again does not go on in the new one's space.
func TestRequestsOfAnEarlierTenant(t *testing.T) {
	since := time.Now()
	for name, tc := range map[string]struct {
		received time.Time
		since    time.Time
		refused  bool
	}{
		"received before": {received: since.Add(-time.Nanosecond), since: since, refused: true},
		"received then":   {received: since, since: since},
		"received after":  {received: since.Add(time.Second), since: since},
		"no earlier one":  {received: since},
	} {
		t.Run(name, func(t *testing.T) {
			ctx := tenant.WithRequest(t.Context(), checked("", "a", "u"))
			ctx = request.WithRequestInfo(ctx, &request.RequestInfo{IsResourceRequest: true, Verb: "get", Resource: "pods"})
			req := httptest.NewRequestWithContext(request.WithReceivedTimestamp(ctx, tc.received), http.MethodGet, "/api/v1/pods", nil)
			n, uid, err := admitToSpace(req, func(context.Context, tenant.Name) (tenantregistry.State, bool, error) {
				return tenantregistry.State{UID: "u", CredentialsNotBefore: tc.since}, true, nil
			}, nil)
			if !tc.refused {
				if err != nil || n != "a" || uid != "u" {
					t.Errorf("got space %q of %q, %v; want it admitted", n, uid, err)
				}
				return
			}
			if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "younger than this request") {
				t.Errorf("got error %v, want that the tenant is younger", err)
			}
		})
	}
}

// TestRequestsOfAnEarlierTenantElsewhere checks the same where a policy lets users of the
// tenant into another's space.
func TestRequestsOfAnEarlierTenantElsewhere(t *testing.T) {
	since := time.Now()
	for name, tc := range map[string]struct {
		received time.Time
		refused  bool
	}{
		"received before": {received: since.Add(-time.Nanosecond), refused: true},
		"received then":   {received: since},
	} {
		t.Run(name, func(t *testing.T) {
			r := checked("b", "a", "uid-a")
			r.Admit("a")
			ctx := request.WithReceivedTimestamp(tenant.WithRequest(t.Context(), r), tc.received)
			ctx = request.WithRequestInfo(ctx, &request.RequestInfo{IsResourceRequest: true, Verb: "get", Resource: "pods"})
			_, _, err := admitToSpace(httptest.NewRequestWithContext(ctx, http.MethodGet, "/api/v1/pods", nil),
				func(ctx context.Context, n tenant.Name) (tenantregistry.State, bool, error) {
					state, exists, err := known(ctx, n)
					if n == "a" {
						state.CredentialsNotBefore = since
					}
					return state, exists, err
				}, nil)
			if refused := apierrors.IsForbidden(err); refused != tc.refused || err != nil && !refused {
				t.Errorf("got error %v, want it refused: %t", err, tc.refused)
			}
		})
	}
}

// TestCredentialsOfAnEarlierTenant checks that credentials which were checked for one tenant
// are not those of the next one of its name: neither in its space nor in another's.
func TestCredentialsOfAnEarlierTenant(t *testing.T) {
	for name, tc := range map[string]struct {
		request  *tenant.Request
		user     tenant.Name
		admitted bool
	}{
		"of this tenant":                 {request: checked("", "a", "uid-a"), user: "a", admitted: true},
		"of an earlier one":              {request: checked("", "a", "uid-earlier"), user: "a"},
		"of none of that name":           {request: checked("", "a", ""), user: "a"},
		"that nobody checked":            {request: &tenant.Request{Authenticated: "a"}, user: "a"},
		"of this tenant, elsewhere":      {request: checked("b", "a", "uid-a"), user: "a", admitted: true},
		"of an earlier one, elsewhere":   {request: checked("b", "a", "uid-earlier"), user: "a"},
		"of the other space's tenant":    {request: checked("b", "a", "uid-b"), user: "a"},
		"of a system user":               {request: checked("a", tenant.System, ""), user: tenant.System, admitted: true},
		"of a system user as a tenant's": {request: checked("a", tenant.System, ""), user: "a", admitted: true},
	} {
		t.Run(name, func(t *testing.T) {
			tc.request.Admit("a")
			ctx := request.WithUser(tenant.WithRequest(t.Context(), tc.request), &user.DefaultInfo{Name: "u", Extra: map[string][]string{tenant.UserExtraKey: {string(tc.user)}}})
			ctx = request.WithRequestInfo(ctx, &request.RequestInfo{IsResourceRequest: true, Verb: "create", Resource: "pods"})
			_, _, err := admitToSpace(httptest.NewRequestWithContext(ctx, http.MethodPost, "/api/v1/pods", nil), known, nil)
			if tc.admitted && err != nil || !tc.admitted && (!apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "while the credentials were checked")) {
				t.Errorf("got error %v, want it admitted: %t", err, tc.admitted)
			}
		})
	}
	ctx := tenant.WithRequest(t.Context(), checked("b", "broken", "uid-broken"))
	ctx = request.WithRequestInfo(ctx, &request.RequestInfo{IsResourceRequest: true, Verb: "create", Resource: "pods"})
	tenant.RequestFrom(ctx).Admit("broken")
	if _, _, err := admitToSpace(httptest.NewRequestWithContext(ctx, http.MethodPost, "/api/v1/pods", nil), known, nil); !apierrors.IsInternalError(err) {
		t.Errorf("got error %v where the user's tenant cannot be read", err)
	}
}

// TestDiscoveryOfSuspended checks that clients which ask what is served see the reason, as
// those see it that ask for an object.
func TestDiscoveryOfSuspended(t *testing.T) {
	state := func(context.Context, tenant.Name) (tenantregistry.State, bool, error) {
		return tenantregistry.State{Suspended: true, Reason: "unpaid"}, true, nil
	}
	bind := func(ctx context.Context, _ tenant.Name, _ types.UID, _ bool) (context.Context, context.CancelFunc) {
		return ctx, func() {}
	}
	handler := WithSpace(http.NotFoundHandler(), state, nil, bind, scheme.Codecs.WithoutConversion())
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		ctx := tenant.WithRequest(req.Context(), checked("", "a", ""))
		resource := strings.Contains(req.URL.Path, "/pods")
		ctx = request.WithRequestInfo(ctx, &request.RequestInfo{IsResourceRequest: resource, Verb: "get", Resource: "pods"})
		ctx = request.WithUser(ctx, &user.DefaultInfo{Name: "u", Extra: map[string][]string{tenant.UserExtraKey: {"a"}}})
		handler.ServeHTTP(w, req.WithContext(ctx))
	}))
	defer server.Close()
	client, err := kubernetes.NewForConfig(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	_, discovery := client.Discovery().ServerGroups()
	_, object := client.CoreV1().Pods("default").Get(t.Context(), "p", metav1.GetOptions{})
	for _, err := range []error{discovery, object} {
		if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), `tenant "a" is suspended: unpaid`) {
			t.Errorf("got error %v, want that the tenant is suspended, and why", err)
		}
	}
}

// TestGuestsEndWithTheirTenant checks which tenants end a request: that of the space, and that of a user from another
// one.
func TestGuestsEndWithTheirTenant(t *testing.T) {
	for name, tc := range map[string]struct {
		request *tenant.Request
		user    tenant.Name
		want    []string
	}{
		"a user of the space": {request: checked("a", "a", "uid-a"), user: "a", want: []string{"a uid-a system=false"}},
		"a guest":             {request: checked("a", "b", "uid-b"), user: "b", want: []string{"b uid-b system=false", "a uid-a system=false"}},
		"a system user":       {request: checked("a", tenant.System, ""), user: tenant.System, want: []string{"a uid-a system=true"}},
	} {
		t.Run(name, func(t *testing.T) {
			var ended []string
			bind := func(ctx context.Context, n tenant.Name, uid types.UID, system bool) (context.Context, context.CancelFunc) {
				ended = append(ended, fmt.Sprintf("%s %s system=%v", n, uid, system))
				return tenant.WithUID(ctx, n, uid), func() {}
			}
			state := func(_ context.Context, n tenant.Name) (tenantregistry.State, bool, error) {
				return tenantregistry.State{UID: types.UID("uid-" + string(n))}, true, nil
			}
			served := false
			handler := WithSpace(http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) {
				if uid, ok := tenant.UIDFrom(req.Context(), "a"); !ok || uid != "uid-a" {
					t.Errorf("admitted to the tenant with UID %q", uid)
				}
				served = true
			}), state, nil, bind, scheme.Codecs.WithoutConversion())
			tc.request.Admit(tc.user)
			ctx := request.WithUser(tenant.WithRequest(t.Context(), tc.request), &user.DefaultInfo{Name: "u", Extra: map[string][]string{tenant.UserExtraKey: {string(tc.user)}}})
			ctx = request.WithRequestInfo(ctx, &request.RequestInfo{IsResourceRequest: true, Verb: "watch", Resource: "pods"})
			w := httptest.NewRecorder()
			handler.ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodGet, "/api/v1/pods", nil))
			if !served {
				t.Fatalf("refused: %s", w.Body)
			}
			if diff := cmp.Diff(tc.want, ended); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestRejectSpace checks which errors are text, which clients show of what is no Status.
func TestRejectSpace(t *testing.T) {
	forbidden, internal := apierrors.NewForbidden(tenants, "a", errors.New("suspended")), apierrors.NewInternalError(errors.New("broken"))
	for name, tc := range map[string]struct {
		info *request.RequestInfo
		err  error
		code int
		text bool
	}{
		"discovery":                  {&request.RequestInfo{}, forbidden, http.StatusForbidden, true},
		"discovery, another error":   {&request.RequestInfo{}, internal, http.StatusInternalServerError, false},
		"of an object":               {&request.RequestInfo{IsResourceRequest: true}, forbidden, http.StatusForbidden, false},
		"it is not known what it is": {nil, forbidden, http.StatusForbidden, false},
	} {
		t.Run(name, func(t *testing.T) {
			ctx := t.Context()
			if tc.info != nil {
				ctx = request.WithRequestInfo(ctx, tc.info)
			}
			recorder := httptest.NewRecorder()
			rejectSpace(recorder, httptest.NewRequestWithContext(ctx, http.MethodGet, "/apis", nil), scheme.Codecs.WithoutConversion(), tc.err)
			if text := strings.HasPrefix(recorder.Header().Get("Content-Type"), "text/plain"); recorder.Code != tc.code || text != tc.text {
				t.Errorf("got %d of type %q, want %d, text: %v", recorder.Code, recorder.Header().Get("Content-Type"), tc.code, tc.text)
			}
		})
	}
}
