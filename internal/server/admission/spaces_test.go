package admission

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/client-go/rest"

	"github.com/tenantry/tenantry/internal/spaces/view"
	"github.com/tenantry/tenantry/internal/tenant"
)

// TestServices checks that a service of a webhook is that of its own space.
func TestServices(t *testing.T) {
	service := func(n tenant.Name, host string) *corev1.Service {
		return &corev1.Service{
			ObjectMeta: flatMeta(n, "default", "hook"),
			Spec: corev1.ServiceSpec{
				Type: corev1.ServiceTypeExternalName, ExternalName: host, Ports: []corev1.ServicePort{{Port: 443}},
			},
		}
	}
	s := newServer(t, serverConfig{objects: spaces(service("a", "a.example.com"), service("b", "b.example.com"))})
	resolver := s.plugins["ValidatingAdmissionWebhook"].shared.services
	for n, want := range map[tenant.Name]string{"a": "a.example.com:443", "b": "b.example.com:443", "c": ""} {
		got := ""
		if endpoint, err := (view.ServicesIn{Flat: resolver, Tenant: n}).ResolveEndpoint("default", "hook", 443); err == nil {
			got = endpoint.Host
		}
		if got != want {
			t.Errorf("in space %q: got %q, want %q", n, got, want)
		}
	}
}

// TestSpaceAuthorizer checks in which space, and as a user of which tenant, an
// expression's question is answered.
func TestSpaceAuthorizer(t *testing.T) {
	of := func(n string) user.Info {
		return &user.DefaultInfo{Name: "u", Extra: map[string][]string{tenant.UserExtraKey: {n}}}
	}
	for name, tc := range map[string]struct {
		user user.Info
		want string
	}{
		"user of the tenant":      {of("a"), "a in a"},
		"system user":             {of("system"), "system in a"},
		"named service account":   {&user.DefaultInfo{Name: "system:serviceaccount:ns:sa"}, "a in a"},
		"user of another tenant":  {of("b"), "error"},
		"user with a broken name": {of("B"), "deny"},
	} {
		t.Run(name, func(t *testing.T) {
			got := "deny"
			answer := authorizer.AuthorizerFunc(func(ctx context.Context, _ authorizer.Attributes) (authorizer.Decision, string, error) {
				n, err := tenant.SpaceFrom(ctx)
				if err != nil {
					got = "error"
					return authorizer.DecisionDeny, "", nil
				}
				own, err := tenant.UserTenant(ctx)
				got = own.String() + " in " + n.String()
				return authorizer.DecisionAllow, "", err
			})
			attributes := authorizer.AttributesRecord{User: tc.user}
			if _, _, err := (spaceAuthorizer{answer, "a"}).Authorize(context.TODO(), attributes); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// discoveryServer serves the discovery of a group that space a gets later.
type discoveryServer struct {
	t     *testing.T
	mu    sync.Mutex
	known bool
	asked map[string]int
}

func (s *discoveryServer) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked[req.URL.Path]++
	version := metav1.GroupVersionForDiscovery{GroupVersion: "example.com/v1", Version: "v1"}
	var answer any
	switch req.URL.Path {
	case "/tenants/a/api":
		answer = metav1.APIVersions{}
	case "/tenants/a/apis":
		groups := metav1.APIGroupList{}
		if s.known {
			groups.Groups = []metav1.APIGroup{{
				Name: "example.com", Versions: []metav1.GroupVersionForDiscovery{version}, PreferredVersion: version,
			}}
		}
		answer = groups
	case "/tenants/a/apis/example.com/v1":
		answer = metav1.APIResourceList{
			GroupVersion: version.GroupVersion,
			APIResources: []metav1.APIResource{{Name: "widgets", Kind: "Widget", Namespaced: true}},
		}
	default:
		http.NotFound(w, req)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(answer); err != nil {
		s.t.Errorf("answering %s: %v", req.URL.Path, err)
	}
}

// TestRESTMapper checks that a mapper asks its own space, late, and again for a
// kind that is new.
func TestRESTMapper(t *testing.T) {
	discovery := &discoveryServer{t: t, asked: map[string]int{}}
	server := httptest.NewServer(discovery)
	defer server.Close()
	mapper := newSpaceClients(&rest.Config{Host: server.URL}).restMapper("a")
	if len(discovery.asked) > 0 {
		t.Errorf("discovery was asked before anybody needed it: %v", discovery.asked)
	}
	kind := schema.GroupKind{Group: "example.com", Kind: "Widget"}
	if _, err := mapper.RESTMapping(kind, "v1"); !meta.IsNoMatchError(err) {
		t.Errorf("got %v, want no match", err)
	}
	asked := discovery.asked["/tenants/a/apis"]
	if _, err := mapper.RESTMappings(kind, "v1"); !meta.IsNoMatchError(err) || discovery.asked["/tenants/a/apis"] != asked {
		t.Errorf("got %v after %d further questions, want no match without any", err, discovery.asked["/tenants/a/apis"]-asked)
	}

	discovery.mu.Lock()
	discovery.known = true
	discovery.mu.Unlock()
	mapper = newSpaceClients(&rest.Config{Host: server.URL}).restMapper("a")
	mapping, err := mapper.RESTMapping(kind, "v1")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff("widgets", mapping.Resource.Resource); diff != "" {
		t.Error(diff)
	}
	for path := range discovery.asked {
		if path[:len("/tenants/a/")] != "/tenants/a/" {
			t.Errorf("a question left the space: %s", path)
		}
	}
}
