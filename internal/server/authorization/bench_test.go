package authorization

import (
	"context"
	"fmt"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	kubeoptions "k8s.io/kubernetes/pkg/kubeapiserver/options"

	"github.com/tenantry/tenantry/api/v1alpha1"
	"github.com/tenantry/tenantry/internal/spaces/rbac"
	"github.com/tenantry/tenantry/internal/tenant"
)

// newServer returns what authorizes on a server with tenant a and as many others,
// each with an administrator, a role, a binding in its namespace and a policy.
func newServer(tb testing.TB, others int) authorizer.Authorizer {
	tb.Helper()
	names := []tenant.Name{"a"}
	for i := range others {
		names = append(names, tenant.Name(fmt.Sprintf("t%05d", i)))
	}
	var objects []runtime.Object
	grants := NewGrants(func(context.Context, tenant.Name) (types.UID, bool) { return "b-1", true })
	for _, n := range names {
		objects = append(objects,
			&rbacv1.ClusterRoleBinding{
				ObjectMeta: metav1.ObjectMeta{Name: tenant.Flatten(n, "tenantry:admins").String()},
				RoleRef:    rbacv1.RoleRef{Kind: "ClusterRole", Name: "cluster-admin"},
				Subjects:   []rbacv1.Subject{{Kind: "User", Name: "admin"}},
			},
			&rbacv1.Role{
				ObjectMeta: metav1.ObjectMeta{Namespace: tenant.Flatten(n, "default").String(), Name: "readers"},
				Rules:      []rbacv1.PolicyRule{{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"pods"}}},
			},
			&rbacv1.RoleBinding{
				ObjectMeta: metav1.ObjectMeta{Namespace: tenant.Flatten(n, "default").String(), Name: "readers"},
				RoleRef:    rbacv1.RoleRef{Kind: "Role", Name: "readers"},
				Subjects:   []rbacv1.Subject{{Kind: "User", Name: "jane"}},
			})
		grants.Set(accessPolicy(n, "p", v1alpha1.AccessRule{
			Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"pods"}, Namespaces: []string{"default"},
		}))
	}
	views := informers.NewSharedInformerFactory(fake.NewClientset(objects...), 0)
	index, err := rbac.NewIndex(views, func(tenant.Name) labels.Set { return nil })
	if err != nil {
		tb.Fatal(err)
	}
	upstream, err := (&kubeoptions.BuiltInAuthorizationOptions{Modes: []string{"Node", "RBAC"}}).ToAuthorizationConfig(views)
	if err != nil {
		tb.Fatal(err)
	}
	modes, err := NewModes(tb.Context(), ModesConfig{Upstream: upstream, RBAC: rbac.NewAuthorizer(index), Views: views, ServerID: "bench"})
	if err != nil {
		tb.Fatal(err)
	}
	views.Start(tb.Context().Done())
	for !index.HasSynced() {
		views.WaitForCacheSync(tb.Context().Done())
	}
	return New(modes, grants, nil)
}

// decisions are requests that are decided in different ways.
var decisions = map[string]struct {
	userTenant tenant.Name
	requested  tenant.Scope
	name       string
	groups     []string
	want       authorizer.Decision
}{
	"administrator": {userTenant: "a", name: "admin", want: authorizer.DecisionAllow},
	"role":          {userTenant: "a", requested: "a", name: "jane", want: authorizer.DecisionAllow},
	"nobody":        {userTenant: "a", name: "joe", want: authorizer.DecisionNoOpinion},
	"granted":       {userTenant: "b", requested: "a", name: "jane", want: authorizer.DecisionAllow},
	"foreign":       {userTenant: "c", requested: "a", name: "jane", want: authorizer.DecisionDeny},
	"system user":   {userTenant: tenant.System, requested: "a", name: "ops", want: authorizer.DecisionNoOpinion},
	"system master": {userTenant: tenant.System, requested: "a", name: "root", groups: []string{user.SystemPrivilegedGroup}, want: authorizer.DecisionAllow},
}

// asking returns a function that asks for one of the decisions.
func asking(tb testing.TB, a authorizer.Authorizer, name string) func() {
	tb.Helper()
	tc := decisions[name]
	u := &user.DefaultInfo{Name: tc.name, Groups: append([]string{user.AllAuthenticated}, tc.groups...), Extra: map[string][]string{tenant.UserExtraKey: {string(tc.userTenant)}}}
	ctx := tenant.WithRequest(request.WithUser(context.Background(), u), &tenant.Request{Requested: tc.requested, Authenticated: tc.userTenant})
	attributes := &authorizer.AttributesRecord{User: u, Verb: "get", APIVersion: "v1", Resource: "pods", Namespace: "default", Name: "p", ResourceRequest: true}
	return func() {
		if decision, reason, err := a.Authorize(ctx, attributes); decision != tc.want || err != nil {
			tb.Fatalf("%s: %v, %q, %v", name, decision, reason, err)
		}
	}
}

// What a decision allocates does not depend on who else has rights elsewhere.
func TestDecisionsCostTheSameBesideOthers(t *testing.T) {
	const few = 10 // the race detector has pools forget a part of what they are given
	alone, beside := newServer(t, 0), newServer(t, 300)
	for name := range decisions {
		t.Run(name, func(t *testing.T) {
			want, got := testing.AllocsPerRun(100, asking(t, alone, name)), testing.AllocsPerRun(100, asking(t, beside, name))
			if got > want+few { // what looks at 300 tenants allocates more
				t.Errorf("%v allocations beside 300 tenants, %v alone", got, want)
			}
		})
	}
}

// The decision of a request, alone and beside 10,000 tenants. What depends on the
// order of the two is the machine's.
func BenchmarkAuthorize(b *testing.B) {
	servers := []struct {
		name string
		authorizer.Authorizer
	}{{"alone", newServer(b, 0)}, {"beside 10,000", newServer(b, 10_000)}}
	for name := range decisions {
		for _, server := range servers {
			b.Run(name+"/"+server.name, func(b *testing.B) {
				ask := asking(b, server.Authorizer, name)
				b.ReportAllocs()
				for b.Loop() {
					ask()
				}
			})
		}
	}
}
