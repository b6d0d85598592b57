package discovery

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/tenantry/tenantry/internal/tenant"
)

// serverOf is a server of resources, such as "v1/widgets.example.com".
func serverOf(t *testing.T, isShared bool, excluded string, names ...string) Server {
	t.Helper()
	list := apidiscoveryv2.APIGroupDiscoveryList{Items: groupsOf(names...)}
	body, err := json.Marshal(list)
	if err != nil {
		t.Fatal(err)
	}
	tag := strconv.Quote(strings.Join(names, ","))
	answer := http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if req.Header.Get("If-None-Match") == tag {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		w.Header().Set("Etag", tag)
		_, _ = w.Write(body)
	})
	return Server{
		Shared: isShared, Excluded: excluded, Groups: answer, Handler: answer,
		Serves: func(resource schema.GroupResource, hidden bool) bool {
			return slices.ContainsFunc(names, func(name string) bool { return strings.HasSuffix(name, "/"+resource.String()) }) &&
				(hidden || !strings.Contains(excluded, resource.String()))
		},
	}
}

func groupsOf(names ...string) (groups []apidiscoveryv2.APIGroupDiscovery) {
	for _, name := range names {
		version, resource, _ := strings.Cut(name, "/")
		parsed := schema.ParseGroupResource(resource)
		groups = addVersion(groups, apidiscoveryv2.APIGroupDiscovery{ObjectMeta: metav1.ObjectMeta{Name: parsed.Group}}, apidiscoveryv2.APIVersionDiscovery{
			Version: version, Resources: []apidiscoveryv2.APIResourceDiscovery{{Resource: parsed.Resource, ResponseKind: &metav1.GroupVersionKind{Kind: "K"}}},
		})
	}
	return groups
}

// namesOf is the inverse of groupsOf.
func namesOf(groups []apidiscoveryv2.APIGroupDiscovery) (names []string) {
	for _, group := range groups {
		for _, version := range group.Versions {
			for _, resource := range version.Resources {
				names = append(names, version.Version+"/"+resource.Resource+"."+group.Name)
			}
		}
	}
	return names
}

func newRouter() *Router {
	return NewRouter(Config{
		SharedGroups: &SharedGroups{All: http.NotFoundHandler(), IsBuiltin: func(string) bool { return false }},
		Builtin:      http.NotFoundHandler(), NotFound: http.NotFoundHandler(), OpenAPIv2: func() []*spec.Swagger { return nil },
	})
}

func TestMerge(t *testing.T) {
	router := newRouter()
	for name, tc := range map[string]struct {
		servers []Server
		want    []string
	}{
		"both in one version": {
			[]Server{serverOf(t, false, "", "v1/gadgets.example.com"), serverOf(t, true, "", "v1/widgets.example.com")},
			[]string{"v1/gadgets.example.com", "v1/widgets.example.com"},
		},
		"versions in their order": {
			[]Server{serverOf(t, false, "", "v1beta1/gadgets.example.com"), serverOf(t, true, "", "v1/widgets.example.com")},
			[]string{"v1/widgets.example.com", "v1beta1/gadgets.example.com"},
		},
		"the space's own of the same name": {
			[]Server{serverOf(t, false, "", "v2/widgets.example.com"), serverOf(t, true, "widgets.example.com", "v1/widgets.example.com", "v1/gears.example.com")},
			[]string{"v2/widgets.example.com", "v1/gears.example.com"},
		},
		"hidden": {
			[]Server{serverOf(t, true, "gears.example.com", "v1/widgets.example.com", "v1/gears.example.com")},
			[]string{"v1/widgets.example.com"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			for range 2 { // once more, as it is kept
				found, err := router.merge(tenant.Name(strings.ReplaceAll(name, " ", "-")), tc.servers)
				if err != nil {
					t.Fatal(err)
				}
				groups, err := readGroups(found.groups, "/apis")
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(tc.want, namesOf(groups)); diff != "" {
					t.Error(diff)
				}
				for _, name := range tc.want {
					version, resource, _ := strings.Cut(name, "/")
					path := "/apis/" + schema.ParseGroupResource(resource).Group
					if found.documents[path] == nil || found.documents[path+"/"+version] == nil {
						t.Errorf("no document at %s, or of %s", path, version)
					}
				}
			}
		})
	}
}

// What is kept for one space must not be shown in another, save for what all share.
func TestKeys(t *testing.T) {
	own, shared, hiding := Server{}, Server{Shared: true}, Server{Shared: true, Excluded: "widgets.example.com"}
	for name, tc := range map[string]struct {
		servers []Server
		same    bool
	}{
		"own":            {[]Server{own}, false},
		"own and shared": {[]Server{own, shared}, false},
		"shared":         {[]Server{shared}, true},
		"hiding":         {[]Server{hiding}, true},
	} {
		t.Run(name, func(t *testing.T) {
			if same := keyOf("acme", tc.servers) == keyOf("globex", tc.servers); same != tc.same {
				t.Errorf("two spaces have the same: %v, want %v", same, tc.same)
			}
		})
	}
	if keyOf("acme", []Server{shared}) == keyOf("acme", []Server{hiding}) {
		t.Error("what is hidden is shown")
	}
}

func TestServerOf(t *testing.T) {
	router := newRouter()
	handler := func(name string) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(name)) })
	}
	own, shared := serverOf(t, false, "", "v2/widgets.example.com"), serverOf(t, true, "gears.example.com", "v1/widgets.example.com", "v1/gears.example.com", "v1/parts.example.com")
	own.Handler, shared.Handler, router.NotFound = handler("own"), handler("shared"), handler("nobody")
	for _, tc := range []struct{ tenant, resource, want string }{
		{"acme", "widgets", "own"},
		{"acme", "parts", "shared"},
		{"acme", "gears", "nobody"},
		{"system", "gears", "shared"},
		{"system", "springs", "nobody"},
		{"", "gears", "nobody"},
	} {
		t.Run(tc.tenant+" "+tc.resource, func(t *testing.T) {
			req := httptest.NewRequest(http.MethodGet, "/", nil)
			if tc.tenant != "" {
				u := &user.DefaultInfo{Name: "jane", Extra: map[string][]string{tenant.UserExtraKey: {tc.tenant}}}
				req = req.WithContext(request.WithUser(req.Context(), u))
			}
			response := httptest.NewRecorder()
			router.serverOf(req, schema.GroupResource{Group: "example.com", Resource: tc.resource}, []Server{own, shared}).ServeHTTP(response, req)
			if got := response.Body.String(); got != tc.want {
				t.Errorf("served by %s, want %s", got, tc.want)
			}
		})
	}
}
