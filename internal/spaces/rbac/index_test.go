package rbac

import (
	"context"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/kubernetes/plugin/pkg/auth/authorizer/rbac"

	"github.com/tenantry/tenantry/internal/tenant"
)

func clusterRole(name string, labels map[string]string, rules ...rbacv1.PolicyRule) *rbacv1.ClusterRole {
	return &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}, Rules: rules}
}

func clusterBinding(name, userName, role string) *rbacv1.ClusterRoleBinding {
	return &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Subjects:   []rbacv1.Subject{{Kind: "User", APIGroup: rbacv1.GroupName, Name: userName}},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
	}
}

func rule(verb, group, resource string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{Verbs: []string{verb}, APIGroups: []string{group}, Resources: []string{resource}}
}

func in(space tenant.Name) context.Context {
	return tenant.WithSpace(context.Background(), space)
}

func bindingNames(t *testing.T, i *Index, space tenant.Name) []string {
	t.Helper()
	bindings, err := i.ListClusterRoleBindings(in(space))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, b := range bindings {
		names = append(names, b.Name)
	}
	slices.Sort(names)
	return names
}

func TestClusterRoleBindings(t *testing.T) {
	i := newIndex(nil)
	i.setClusterRoleBinding(clusterBinding("platform", "root", "cluster-admin"), false)
	i.setClusterRoleBinding(clusterBinding("a|admins", "alice", "cluster-admin"), false)
	i.setClusterRoleBinding(clusterBinding("a|system:discovery", "alice", "system:discovery"), false)

	if diff := cmp.Diff([]string{"platform"}, bindingNames(t, i, tenant.System)); diff != "" {
		t.Errorf("system space (-want +got):\n%s", diff)
	}
	want := append([]string{"admins"}, userBindings...)
	if diff := cmp.Diff(want, bindingNames(t, i, "a")); diff != "" {
		t.Errorf("space a (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(userBindings, bindingNames(t, i, "b")); diff != "" {
		t.Errorf("space b (-want +got):\n%s", diff)
	}

	i.setClusterRoleBinding(clusterBinding("a|system:discovery", "alice", "system:discovery"), true)
	i.setClusterRoleBinding(clusterBinding("a|admins", "alice", "cluster-admin"), true)
	if diff := cmp.Diff(userBindings, bindingNames(t, i, "a")); diff != "" {
		t.Errorf("space a after deletion (-want +got):\n%s", diff)
	}
	if len(i.clusterRoleBindings.of) != 1 {
		t.Errorf("%d spaces have bindings of their own, want the system space only", len(i.clusterRoleBindings.of))
	}
}

func TestClusterRoles(t *testing.T) {
	i := newIndex(nil)
	own := clusterRole("a|edit", nil, rule("get", "", "pods"))
	i.setClusterRole(own, false)
	for name, tc := range map[string]struct {
		space tenant.Name
		role  string
		found bool
	}{
		"default in a space":                     {"b", "edit", true},
		"default not stored in the system space": {tenant.System, "edit", false},
		"the space's own":                        {"a", "edit", true},
		"unknown":                                {"a", "nothing", false},
		"by flattened name":                      {tenant.System, "a|edit", false},
	} {
		t.Run(name, func(t *testing.T) {
			role, err := i.GetClusterRole(in(tc.space), tc.role)
			if tc.found && err != nil || !tc.found && !apierrors.IsNotFound(err) {
				t.Fatalf("got %v, %v", role, err)
			}
			if isOwn := role == own; isOwn != (name == "the space's own") {
				t.Errorf("got %v", role)
			}
		})
	}
	if _, err := i.GetClusterRole(context.Background(), "edit"); err == nil {
		t.Error("a context without tenant finds a role")
	}
}

func hasRule(t *testing.T, i *Index, space tenant.Name, role string, want rbacv1.PolicyRule) bool {
	t.Helper()
	r, err := i.GetClusterRole(in(space), role)
	if err != nil {
		t.Fatal(err)
	}
	return slices.ContainsFunc(r.Rules, func(r rbacv1.PolicyRule) bool { return cmp.Equal(r, want) })
}

// TestAggregation checks that the default roles aggregate the roles of their own
// space and those alone.
func TestAggregation(t *testing.T) {
	i := newIndex(nil)
	extra := rule("get", "example.org", "widgets")
	labels := map[string]string{"rbac.authorization.k8s.io/aggregate-to-view": "true"}
	i.setClusterRole(clusterRole("a|widgets", labels, extra), false)
	for _, role := range []string{"view", "edit", "admin"} {
		if !hasRule(t, i, "a", role, extra) {
			t.Errorf("%s in a lacks the rule of its own role", role)
		}
		if hasRule(t, i, "b", role, extra) {
			t.Errorf("%s in b has the rule of a role of a", role)
		}
		if len(defaultClusterRoles()[role].Rules) == 0 {
			t.Errorf("%s has no rules by default", role)
		}
	}
	i.setClusterRole(clusterRole("a|widgets", nil, extra), false)
	if hasRule(t, i, "a", "view", extra) {
		t.Error("view keeps the rule of a role that lost its label")
	}
	if len(i.aggregated.of) != 0 {
		t.Error("a space without aggregated rules of its own keeps memory")
	}
}

// TestSharedRolesStayAsTheyAre checks that aggregation changes no cached object.
func TestSharedRolesStayAsTheyAre(t *testing.T) {
	i := newIndex(nil)
	own := clusterRole("a|view", nil, rule("get", "", "pods"))
	own.AggregationRule = &rbacv1.AggregationRule{ClusterRoleSelectors: []metav1.LabelSelector{{MatchLabels: map[string]string{"x": "y"}}}}
	before := own.DeepCopy()
	i.setClusterRole(own, false)
	i.setClusterRole(clusterRole("a|x", map[string]string{"x": "y"}, rule("get", "", "secrets")), false)
	if diff := cmp.Diff(before, own); diff != "" {
		t.Errorf("the cached role changed (-before +after):\n%s", diff)
	}
}

func TestRoles(t *testing.T) {
	i := newIndex(nil)
	role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: "a|ns", Name: "r"}}
	binding := &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: "a|ns", Name: "b"}}
	i.setRole(role, false)
	i.setRoleBinding(binding, false)
	for _, space := range []tenant.Name{"a", "b", tenant.System} {
		_, err := i.GetRole(in(space), "ns", "r")
		bindings, _ := i.ListRoleBindings(in(space), "ns")
		if found := err == nil; found != (space == "a") || len(bindings) == 1 != found {
			t.Errorf("%s: role: %v, bindings: %v", space, err, bindings)
		}
		for _, b := range bindings {
			if b.Namespace != "ns" {
				t.Errorf("binding has namespace %q", b.Namespace)
			}
		}
	}
	i.setRole(role, true)
	i.setRoleBinding(binding, true)
	if len(i.roles) != 0 || len(i.roleBindings.of) != 0 {
		t.Error("deleted objects stay in the index")
	}
}

// TestAuthorizer asks upstream's authorizer on top of the index.
func TestAuthorizer(t *testing.T) {
	i := newIndex(nil)
	i.setClusterRoleBinding(clusterBinding("a|admins", "alice", "cluster-admin"), false)
	a := rbac.New(i, i, i, i)
	for name, tc := range map[string]struct {
		space   tenant.Name
		user    user.DefaultInfo
		allowed bool
	}{
		"admin in its space":            {"a", user.DefaultInfo{Name: "alice"}, true},
		"same name in another space":    {"b", user.DefaultInfo{Name: "alice"}, false},
		"same name in the system space": {tenant.System, user.DefaultInfo{Name: "alice"}, false},
		"privileged group in a space":   {"a", user.DefaultInfo{Name: "bob", Groups: []string{user.SystemPrivilegedGroup}}, false},
		"nodes in a space":              {"a", user.DefaultInfo{Name: "system:node:n", Groups: []string{user.NodesGroup}}, false},
		"controller manager in a space": {"a", user.DefaultInfo{Name: user.KubeControllerManager}, false},
	} {
		t.Run(name, func(t *testing.T) {
			attributes := authorizer.AttributesRecord{User: &tc.user, Verb: "list", Resource: "secrets", APIVersion: "v1", ResourceRequest: true}
			decision, reason, err := a.Authorize(request.WithUser(in(tc.space), &tc.user), attributes)
			if err != nil || decision == authorizer.DecisionAllow != tc.allowed {
				t.Errorf("got %v, %q, %v", decision, reason, err)
			}
			if tc.allowed && reason != `RBAC: allowed by ClusterRoleBinding "admins" of ClusterRole "cluster-admin" to User "alice"` {
				t.Errorf("reason %q shows more than the user's own names", reason)
			}
		})
	}
}

func BenchmarkListClusterRoleBindings(b *testing.B) {
	i := newIndex(nil)
	i.setClusterRoleBinding(clusterBinding("a|admins", "alice", "cluster-admin"), false)
	ctx := in("a")
	b.ReportAllocs()
	for b.Loop() {
		if _, err := i.ListClusterRoleBindings(ctx); err != nil {
			b.Fatal(err)
		}
	}
}
