package filters

import (
	"net/http"
	"net/http/httptest"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/cache"

	"github.com/tenantry/tenantry/internal/tenant"
)

func TestWithNamespace(t *testing.T) {
	for name, tc := range map[string]struct {
		method, namespace string
		resource          string
		scope             tenant.Scope
		want              types.UID
		noted             bool
	}{
		"create":              {http.MethodPost, "known", "", "acme", "uid of acme|known", true},
		"update":              {http.MethodPut, "known", "", "acme", "uid of acme|known", true},
		"patch":               {http.MethodPatch, "known", "", tenant.System.Scope(), "uid of known", true},
		"delete":              {http.MethodDelete, "known", "", "acme", "uid of acme|known", true},
		"a new namespace":     {http.MethodPost, "new", "", "acme", "uid of acme|new", true},
		"no such namespace":   {http.MethodPost, "none", "", "acme", "", true},
		"nothing is changed":  {http.MethodGet, "known", "pods", "acme", "", false},
		"itself is read":      {http.MethodGet, "known", "namespaces", "acme", "uid of acme|known", true},
		"a new one is read":   {http.MethodGet, "new", "namespaces", "acme", "", false},
		"no namespace":        {http.MethodPost, "", "", "acme", "", false},
		"all tenants at once": {http.MethodPost, "known", "", tenant.All, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			ctx := tenant.WithScope(t.Context(), tc.scope)
			ctx = request.WithRequestInfo(ctx, &request.RequestInfo{IsResourceRequest: true, Namespace: tc.namespace, Resource: tc.resource})
			handler := WithNamespace(http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) {
				if got, noted := tenant.RequestFrom(req.Context()).Namespace(); got != tc.want || noted != tc.noted {
					t.Errorf("noted %q, %v", got, noted)
				}
			}), &NamespaceWatch{
				Known: func(name tenant.Flat) types.UID {
					if name.Plain() != "known" {
						return ""
					}
					return types.UID("uid of " + name)
				},
				UIDOf: func(name tenant.Flat) types.UID {
					if name.Plain() == "none" {
						return ""
					}
					return types.UID("uid of " + name)
				},
			}, func(*http.Request, *request.RequestInfo) bool { return false }, scheme.Codecs.WithoutConversion())
			handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(ctx, tc.method, "/", nil))
		})
	}
}

// TestFlattenedNamesInURLs checks that nobody asks for a namespace of another space by its flattened name.
func TestFlattenedNamesInURLs(t *testing.T) {
	for _, namespace := range []string{"acme|known", "|known", "acme|", "a%7Cb"} {
		for _, method := range []string{http.MethodGet, http.MethodPost} {
			ctx := request.WithRequestInfo(tenant.WithSpace(t.Context(), tenant.System), &request.RequestInfo{IsResourceRequest: true, Namespace: namespace})
			asked := func(tenant.Flat) types.UID {
				t.Errorf("%s %q: asked for the namespace", method, namespace)
				return ""
			}
			handler := WithNamespace(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Errorf("%s %q: served", method, namespace) }),
				&NamespaceWatch{Known: asked, UIDOf: asked}, func(*http.Request, *request.RequestInfo) bool { return false }, scheme.Codecs.WithoutConversion())
			w := httptest.NewRecorder()
			handler.ServeHTTP(w, httptest.NewRequestWithContext(ctx, method, "/", nil))
			if w.Code != http.StatusBadRequest {
				t.Errorf("%s %q: %d", method, namespace, w.Code)
			}
		}
	}
}

// TestLives checks that watches end with their namespace, and are not of the next one of its name.
func TestLives(t *testing.T) {
	known := map[tenant.Flat]types.UID{"acme|there": "1", "globex|there": "1"}
	uidOf := func(name tenant.Flat) types.UID { return known[name] }
	lives := &NamespaceWatch{Known: uidOf, UIDOf: uidOf}
	namespace := func(name string, uid types.UID) *corev1.Namespace {
		return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, UID: uid}}
	}
	handler := lives.Handler()
	for name, tc := range map[string]struct {
		happens func()
		ends    bool
	}{
		"nothing":                 {func() {}, false},
		"a change":                {func() { handler.OnUpdate(nil, namespace("acme|there", "1")) }, false},
		"another space's is gone": {func() { handler.OnDelete(namespace("globex|there", "1")) }, false},
		"gone":                    {func() { handler.OnDelete(namespace("acme|there", "1")) }, true},
		"gone, not seen": {func() {
			handler.OnDelete(cache.DeletedFinalStateUnknown{Obj: namespace("acme|there", "1")})
		}, true},
		"replaced, not seen": {func() { handler.OnUpdate(nil, namespace("acme|there", "2")) }, true},
		"created again":      {func() { handler.OnAdd(namespace("acme|there", "2"), false) }, true},
	} {
		// Reads may wait for a resource version.
		for verb, method := range map[string]string{"watch": http.MethodGet, "get": http.MethodGet, "create": http.MethodPost} {
			t.Run(name+", "+verb, func(t *testing.T) {
				ctx := request.WithRequestInfo(tenant.WithSpace(t.Context(), "acme"), &request.RequestInfo{IsResourceRequest: true, Namespace: "there", Verb: verb})
				handler := WithNamespace(http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) {
					tc.happens()
					if ended := req.Context().Err() != nil; ended != (tc.ends && verb != "create") {
						t.Errorf("ended: %v", ended)
					}
				}), lives, func(_ *http.Request, info *request.RequestInfo) bool { return info.Verb == "watch" }, scheme.Codecs.WithoutConversion())
				handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(ctx, method, "/", nil))
				if len(lives.ends) > 0 {
					t.Errorf("%v are kept", lives.ends)
				}
			})
		}
	}
}
