package authorization

import (
	"context"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/request"

	"github.com/tenantry/tenantry/api/v1alpha1"
	"github.com/tenantry/tenantry/internal/tenant"
)

// digestB is the digest of the UID "b-1", as the storage writes it.
const digestB = "AAAAAAAAAAAAAAAAAAAAALyxSTjWDeX+9/qEOQ7nn2U+/PzrRj/Z6nK086J8cDkK"

func accessPolicy(space tenant.Name, name string, rules ...v1alpha1.AccessRule) *v1alpha1.TenantAccessPolicy {
	return &v1alpha1.TenantAccessPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{tenant.Annotation: string(space)}},
		Spec: v1alpha1.TenantAccessPolicySpec{
			Subjects: []v1alpha1.ForeignSubject{
				{Tenant: "b", Kind: v1alpha1.SubjectUser, Name: "jane"}, {Tenant: "b", Kind: v1alpha1.SubjectGroup, Name: "devs"},
				{Tenant: "c", Kind: v1alpha1.SubjectUser, Name: "jane"},
			},
			Rules: rules,
		},
		Status: v1alpha1.TenantAccessPolicyStatus{Grantees: []v1alpha1.Grantee{{Tenant: "b", UIDDigest: digestB}}},
	}
}

func TestGrants(t *testing.T) {
	readPods := v1alpha1.AccessRule{Verbs: []string{"get", "list"}, APIGroups: []string{""}, Resources: []string{"pods"}, Namespaces: []string{"x"}}
	oneSecret := v1alpha1.AccessRule{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"secrets"}, ResourceNames: []string{"shared"}, Namespaces: []string{"x"}}
	writeAll := v1alpha1.AccessRule{Verbs: []string{"get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"},
		APIGroups: []string{"*"}, Resources: []string{"*"}, Namespaces: []string{"*"}}
	in := func(verb, group, resource, namespace, name string) authorizer.AttributesRecord {
		return authorizer.AttributesRecord{Verb: verb, APIGroup: group, Resource: resource, Namespace: namespace, Name: name, ResourceRequest: true}
	}
	sub := func(a authorizer.AttributesRecord, subresource string) authorizer.AttributesRecord {
		a.Subresource = subresource
		return a
	}
	path := func(path string) authorizer.AttributesRecord {
		return authorizer.AttributesRecord{Verb: "get", Path: path}
	}
	for name, tc := range map[string]struct {
		rules      []v1alpha1.AccessRule
		userTenant tenant.Name // b by default
		space      tenant.Name // a by default
		user       string      // jane by default
		groups     []string
		uid        types.UID // of b, b-1 by default
		away       bool      // b is suspended or being deleted
		request    authorizer.AttributesRecord
		allowed    bool
	}{
		"granted":                    {rules: []v1alpha1.AccessRule{readPods}, request: in("list", "", "pods", "x", ""), allowed: true},
		"granted to the group":       {rules: []v1alpha1.AccessRule{readPods}, user: "joe", groups: []string{"devs"}, request: in("list", "", "pods", "x", ""), allowed: true},
		"another user":               {rules: []v1alpha1.AccessRule{readPods}, user: "joe", request: in("list", "", "pods", "x", "")},
		"the same name elsewhere":    {rules: []v1alpha1.AccessRule{readPods}, userTenant: "d", request: in("list", "", "pods", "x", "")},
		"without digest":             {rules: []v1alpha1.AccessRule{readPods}, userTenant: "c", request: in("list", "", "pods", "x", "")},
		"a tenant created anew":      {rules: []v1alpha1.AccessRule{readPods}, uid: "b-2", request: in("list", "", "pods", "x", "")},
		"a tenant out of service":    {rules: []v1alpha1.AccessRule{readPods}, away: true, request: in("list", "", "pods", "x", "")},
		"another space":              {rules: []v1alpha1.AccessRule{readPods}, space: "e", request: in("list", "", "pods", "x", "")},
		"another namespace":          {rules: []v1alpha1.AccessRule{readPods}, request: in("list", "", "pods", "y", "")},
		"all namespaces":             {rules: []v1alpha1.AccessRule{readPods}, request: in("list", "", "pods", "", "")},
		"another verb":               {rules: []v1alpha1.AccessRule{readPods}, request: in("watch", "", "pods", "x", "")},
		"a write":                    {rules: []v1alpha1.AccessRule{readPods}, request: in("create", "", "pods", "x", "")},
		"a subresource":              {rules: []v1alpha1.AccessRule{readPods}, request: sub(in("get", "", "pods", "x", "p"), "log")},
		"another group":              {rules: []v1alpha1.AccessRule{readPods}, request: in("list", "metrics.k8s.io", "pods", "x", "")},
		"a named object":             {rules: []v1alpha1.AccessRule{oneSecret}, request: in("get", "", "secrets", "x", "shared"), allowed: true},
		"an object not named":        {rules: []v1alpha1.AccessRule{oneSecret}, request: in("get", "", "secrets", "x", "other")},
		"all objects, one named":     {rules: []v1alpha1.AccessRule{oneSecret}, request: in("list", "", "secrets", "x", "")},
		"everything":                 {rules: []v1alpha1.AccessRule{writeAll}, request: in("delete", "apps", "deployments", "y", "d"), allowed: true},
		"everything, cluster-scoped": {rules: []v1alpha1.AccessRule{writeAll}, request: in("create", "", "namespaces", "", ""), allowed: true},
		"everything but impersonate": {rules: []v1alpha1.AccessRule{writeAll}, request: in("impersonate", "", "users", "", "admin")},
		"everything but escalate":    {rules: []v1alpha1.AccessRule{writeAll}, request: in("escalate", "rbac.authorization.k8s.io", "clusterroles", "", "admin")},
		"everything but bindings":    {rules: []v1alpha1.AccessRule{writeAll}, request: in("create", "rbac.authorization.k8s.io", "rolebindings", "x", "")},
		"everything but policies":    {rules: []v1alpha1.AccessRule{writeAll}, request: in("create", "tenantry.io", "tenantaccesspolicies", "", "")},
		"everything but tokens":      {rules: []v1alpha1.AccessRule{writeAll}, request: sub(in("create", "", "serviceaccounts", "x", "default"), "token")},
		"everything but reviews":     {rules: []v1alpha1.AccessRule{writeAll}, request: in("create", "authorization.k8s.io", "subjectaccessreviews", "", "")},
		"own rights":                 {rules: []v1alpha1.AccessRule{readPods}, request: in("create", "authorization.k8s.io", "selfsubjectaccessreviews", "", ""), allowed: true},
		"discovery":                  {rules: []v1alpha1.AccessRule{readPods}, request: path("/apis/apps/v1"), allowed: true},
		"discovery for others":       {rules: []v1alpha1.AccessRule{readPods}, user: "joe", request: path("/apis/apps/v1")},
		"discovery for a later b":    {rules: []v1alpha1.AccessRule{readPods}, uid: "b-2", request: path("/api")},
		"metrics":                    {rules: []v1alpha1.AccessRule{writeAll}, request: path("/metrics")},
		"a path that begins alike":   {rules: []v1alpha1.AccessRule{writeAll}, request: path("/apiserver")},
		"nothing granted, discovery": {request: path("/api"), space: "e"},
	} {
		t.Run(name, func(t *testing.T) {
			userTenant, space, uid, userName := tc.userTenant, tc.space, tc.uid, tc.user
			if userTenant == "" {
				userTenant = "b"
			}
			if space == "" {
				space = "a"
			}
			if uid == "" {
				uid = "b-1"
			}
			if userName == "" {
				userName = "jane"
			}
			grants := NewGrants(func(context.Context, tenant.Name) (types.UID, bool) { return uid, !tc.away })
			grants.Replace([]*v1alpha1.TenantAccessPolicy{accessPolicy("a", "p", tc.rules...)})
			u := &user.DefaultInfo{Name: userName, Groups: tc.groups, Extra: map[string][]string{tenant.UserExtraKey: {string(userTenant)}}}
			tc.request.User = u
			ctx := tenant.WithRequest(request.WithUser(context.Background(), u), &tenant.Request{Requested: space.Scope(), Authenticated: userTenant})
			var asked tenant.Scope
			a := New(recorder{&asked}, grants, nil)
			for range 2 { // the second time the request is admitted, if at all
				decision, reason, err := a.Authorize(ctx, tc.request)
				if allowed := decision == authorizer.DecisionAllow; err != nil || allowed != tc.allowed {
					t.Fatalf("got %v, %q, %v; want allowed %t", decision, reason, err, tc.allowed)
				}
				if !tc.allowed && (decision != authorizer.DecisionDeny || reason != tenant.ErrForeign.Error()) {
					t.Errorf("got %v, %q; a denial must look like that of a tenant that does not exist", decision, reason)
				}
			}
			if asked != "" {
				t.Errorf("asked %q, whose users have the same names", asked)
			}
			if n, err := tenant.SpaceFrom(ctx); (err == nil) != tc.allowed || tc.allowed && n != space {
				t.Errorf("acts in %q, %v", n, err)
			}
		})
	}
}

// TestRulesOfGrants checks that nobody is shown the rights of somebody else, such as an earlier
// tenant of the same name.
func TestRulesOfGrants(t *testing.T) {
	rule := v1alpha1.AccessRule{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"pods"}, Namespaces: []string{"x"}}
	for name, tc := range map[string]struct {
		user, namespace string
		uid             types.UID
		active          bool
		want            int
	}{
		"granted":                 {"jane", "x", "b-1", true, 1},
		"to another user":         {"joe", "x", "b-1", true, 0},
		"in another namespace":    {"jane", "y", "b-1", true, 0},
		"to an earlier tenant":    {"jane", "x", "b-2", true, 0},
		"a tenant out of service": {"jane", "x", "b-1", false, 0},
	} {
		t.Run(name, func(t *testing.T) {
			grants := NewGrants(func(context.Context, tenant.Name) (types.UID, bool) { return tc.uid, tc.active })
			grants.Set(accessPolicy("a", "p", rule))
			u := &user.DefaultInfo{Name: tc.user, Extra: map[string][]string{tenant.UserExtraKey: {"b"}}}
			if got := grants.rulesFor(t.Context(), "b", "a", u, tc.namespace); len(got) != tc.want {
				t.Errorf("got %v", got)
			}
		})
	}
}

// What is asked after a request is admitted is still asked about a foreign user.
func TestAdmittedUsersStayForeign(t *testing.T) {
	grants := NewGrants(func(context.Context, tenant.Name) (types.UID, bool) { return "b-1", true })
	p := accessPolicy("a", "p", v1alpha1.AccessRule{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"pods"}, Namespaces: []string{"x"}})
	grants.Set(p)
	u := &user.DefaultInfo{Name: "jane", Extra: map[string][]string{tenant.UserExtraKey: {"b"}}}
	ctx := tenant.WithRequest(request.WithUser(context.Background(), u), &tenant.Request{Requested: "a", Authenticated: "b"})
	var asked tenant.Scope
	a := New(recorder{&asked}, grants, nil)
	pods := authorizer.AttributesRecord{User: u, Verb: "get", Resource: "pods", Namespace: "x", ResourceRequest: true}
	if decision, reason, _ := a.Authorize(ctx, pods); decision != authorizer.DecisionAllow {
		t.Fatalf("not admitted: %s", reason)
	}
	for name, attributes := range map[string]authorizer.AttributesRecord{
		"escalate":     {User: u, Verb: "escalate", APIGroup: "rbac.authorization.k8s.io", Resource: "clusterroles", ResourceRequest: true},
		"a finalizer":  {User: u, Verb: "update", Resource: "pods", Subresource: "finalizers", Namespace: "x", ResourceRequest: true},
		"another user": {User: &user.DefaultInfo{Name: "jane"}, Verb: "get", Resource: "pods", Namespace: "x", ResourceRequest: true},
	} {
		if decision, _, _ := a.Authorize(ctx, attributes); decision == authorizer.DecisionAllow || asked != "" {
			t.Errorf("%s: %v, asked %q", name, decision, asked)
		}
	}
	grants.Delete(p)
	if decision, _, _ := a.Authorize(ctx, pods); decision != authorizer.DecisionDeny {
		t.Errorf("revoked: %v", decision)
	}
}

func TestGrantsFollowPolicies(t *testing.T) {
	grants := NewGrants(nil)
	policies := func(userTenant tenant.Name) []string {
		return slices.Sorted(maps.Keys(grants.to(userTenant, "a")))
	}
	check := func(when string, userTenant tenant.Name, want ...string) {
		t.Helper()
		if diff := cmp.Diff(want, policies(userTenant)); diff != "" {
			t.Errorf("%s, to %s: %s", when, userTenant, diff)
		}
	}
	to := func(name string, tenants ...string) *v1alpha1.TenantAccessPolicy {
		p := accessPolicy("a", name)
		p.Spec.Subjects, p.Status.Grantees = nil, nil
		for _, n := range tenants {
			p.Spec.Subjects = append(p.Spec.Subjects, v1alpha1.ForeignSubject{Tenant: n, Kind: v1alpha1.SubjectUser, Name: "jane"})
			p.Status.Grantees = append(p.Status.Grantees, v1alpha1.Grantee{Tenant: n, UIDDigest: digestB})
		}
		return p
	}
	grants.Set(to("one", "b", "c"))
	grants.Set(to("two", "c"))
	before := grants.to("c", "a")
	check("added", "b", "one")
	check("added", "c", "one", "two")
	grants.Set(to("one", "d"))
	check("changed", "b")
	check("changed", "c", "two")
	check("changed", "d", "one")
	if len(before) != 2 {
		t.Errorf("a reader's grants have changed: %v", before)
	}
	grants.Delete(to("two"))
	check("deleted", "c")
	grants.Delete(to("unknown"))
	grants.Replace([]*v1alpha1.TenantAccessPolicy{to("three", "b")})
	check("read anew", "d")
	check("read anew", "b", "three")
	grants.Delete(to("three"))
	if n := len(grants.policies.grants) + len(grants.policies.grantees); n > 0 {
		t.Errorf("%d entries are left", n)
	}
}
