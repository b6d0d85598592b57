package rbac

import (
	"context"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/request"

	"github.com/tenantry/tenantry/internal/tenant"
)

func TestScopeOf(t *testing.T) {
	for name, tc := range map[string]struct {
		scope, selector string
		set             bool // whether there is a selector
		want            string
		system, tenants bool
	}{
		"without":             {system: true},
		"system":              {scope: "System", system: true},
		"tenants":             {scope: "Tenants", tenants: true},
		"all":                 {scope: "All", system: true, tenants: true},
		"selected":            {scope: "Tenants", selector: "region in (eu, us),!legacy", set: true, tenants: true},
		"lower case":          {scope: "tenants", want: "must be System, Tenants or All"},
		"selector alone":      {selector: "region=eu", set: true, want: "needs tenantry.io/scope"},
		"selector for system": {scope: "System", selector: "region=eu", set: true, want: "needs tenantry.io/scope"},
		"no selector":         {scope: "Tenants", selector: "region in", set: true, want: "annotation tenantry.io/tenant-selector"},
	} {
		t.Run(name, func(t *testing.T) {
			annotations := map[string]string{}
			if tc.scope != "" {
				annotations[tenant.ScopeAnnotation] = tc.scope
			}
			if tc.set {
				annotations[tenant.SelectorAnnotation] = tc.selector
			}
			scope, err := ScopeOf(annotations)
			if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
				t.Fatalf("got error %v, want one with %q", err, tc.want)
			}
			if scope.System != tc.system || scope.Tenanted() != tc.tenants {
				t.Errorf("got %+v", scope)
			}
		})
	}
}

func TestValidateAnnotations(t *testing.T) {
	for name, tc := range map[string]struct {
		annotations, old map[string]string
		want             string
	}{
		"none":            {},
		"others'":         {annotations: map[string]string{"example.com/tenants-selector": "x", "tenantry.iox/a": ""}},
		"scope":           {annotations: map[string]string{"tenantry.io/scope": "Tenants", "tenantry.io/tenant-selector": "region=eu"}},
		"former":          {annotations: map[string]string{"multi-tenancy.k8s.io/scope": "Tenants", "multi-tenancy.k8s.io/tenant-selector": "a"}},
		"published":       {annotations: map[string]string{tenant.PublishedAnnotation: "true", tenant.PublishedFromAnnotation: "x", tenant.Annotation: "system"}},
		"of a host":       {annotations: map[string]string{"tenantry.io/host-object": "ns/x", "tenantry.io/host-content": "x"}},
		"misspelt":        {annotations: map[string]string{"tenantry.io/scope": "Tenants", "tenantry.io/tenants-selector": "region=eu"}, want: "tenantry.io/tenants-selector means nothing"},
		"misspelt former": {annotations: map[string]string{"multi-tenancy.k8s.io/selector": "region=eu"}, want: "multi-tenancy.k8s.io/selector means nothing"},
		"wrong published": {annotations: map[string]string{"tenantry.io/publish": "true"}, want: tenant.PublishedAnnotation},
		"empty selector":  {annotations: map[string]string{"tenantry.io/scope": "Tenants", "tenantry.io/tenant-selector": ""}, want: "would select all tenants"},
		"blank selector":  {annotations: map[string]string{"tenantry.io/scope": "Tenants", "tenantry.io/tenant-selector": " "}, want: "would select all tenants"},
		"as before": {
			annotations: map[string]string{"tenantry.io/tenants-selector": "a", "other": "new"},
			old:         map[string]string{"tenantry.io/tenants-selector": "a"},
		},
		"another scope": {
			annotations: map[string]string{"tenantry.io/tenants-selector": "a", "tenantry.io/scope": "All"},
			old:         map[string]string{"tenantry.io/tenants-selector": "a"},
			want:        "means nothing",
		},
	} {
		t.Run(name, func(t *testing.T) {
			err := ValidateAnnotations(tc.annotations, tc.old)
			if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
				t.Errorf("got %v, want an error with %q", err, tc.want)
			}
		})
	}
}

func scoped(role *rbacv1.ClusterRole, scope, selector string) *rbacv1.ClusterRole {
	role.Annotations = map[string]string{tenant.ScopeAnnotation: scope}
	if selector != "" {
		role.Annotations[tenant.SelectorAnnotation] = selector
	}
	return role
}

func TestScopedClusterRoles(t *testing.T) {
	labelled := map[tenant.Name]labels.Set{"a": {"region": "eu"}, "b": {"region": "us"}}
	i := newIndex(func(n tenant.Name) labels.Set { return labelled[n] })
	a := NewAuthorizer(i)
	get := func(resource string) rbacv1.PolicyRule { return rule("get", "", resource) }
	for resource, role := range map[string]*rbacv1.ClusterRole{
		"pods":       clusterRole("here", nil, get("pods")),
		"secrets":    scoped(clusterRole("there", nil, get("secrets")), ScopeTenants, ""),
		"configmaps": scoped(clusterRole("everywhere", nil, get("configmaps")), ScopeAll, ""),
		"services":   scoped(clusterRole("europe", nil, get("services")), ScopeTenants, "region=eu"),
		"events":     scoped(clusterRole("nowhere", nil, get("events")), "Nonsense", ""),
	} {
		// In one order and the other.
		if resource < "m" {
			i.setClusterRole(role, false)
			i.setClusterRoleBinding(clusterBinding(role.Name, "ops", role.Name), false)
		} else {
			i.setClusterRoleBinding(clusterBinding(role.Name, "ops", role.Name), false)
			i.setClusterRole(role, false)
		}
	}
	// A space's own role of the name means nothing to the platform's binding, and
	// what a space gives its own user is not the system user's.
	i.setClusterRole(clusterRole("a|there", nil, get("nodes")), false)
	i.setClusterRoleBinding(clusterBinding("a|admins", "operator", "cluster-admin"), false)

	allowed := func(own tenant.Name, in tenant.Scope, name string) string {
		t.Helper()
		var result []string
		for _, resource := range []string{"pods", "secrets", "configmaps", "services", "events", "nodes"} {
			u := &user.DefaultInfo{Name: name, Extra: map[string][]string{tenant.UserExtraKey: {string(own)}}}
			ctx := tenant.WithRequest(request.WithUser(context.Background(), u), &tenant.Request{Requested: in, Authenticated: own})
			decision, reason, err := a.Authorize(ctx, authorizer.AttributesRecord{User: u, Verb: "get", Resource: resource, ResourceRequest: true})
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(reason, "not found") {
				t.Errorf("reason %q tells of roles that do not hold", reason)
			}
			if decision == authorizer.DecisionAllow {
				result = append(result, resource)
			}
		}
		return strings.Join(result, " ")
	}
	check := func(when string, own tenant.Name, in tenant.Scope, name, want string) {
		t.Helper()
		if got := allowed(own, in, name); got != want {
			t.Errorf("%s: %s of %s may get %q in %s, want %q", when, name, own, got, in, want)
		}
	}
	check("bound", tenant.System, tenant.System.Scope(), "ops", "pods configmaps")
	check("bound", tenant.System, "a", "ops", "secrets configmaps services")
	check("bound", tenant.System, "b", "ops", "secrets configmaps")
	check("bound", tenant.System, tenant.All, "ops", "secrets configmaps")
	check("not bound", tenant.System, "a", "joe", "")
	check("a tenant's user of that name", "a", "a", "ops", "")
	check("a tenant's administrator", "a", "a", "operator", "pods secrets configmaps services events nodes")
	check("a system user of its name", tenant.System, "a", "operator", "")

	labelled["b"] = labels.Set{"region": "eu"}
	check("labelled", tenant.System, "b", "ops", "secrets configmaps services")
	delete(labelled, "a")
	check("no longer labelled", tenant.System, "a", "ops", "secrets configmaps")

	i.setClusterRole(clusterRole("there", nil, get("secrets")), false)
	check("back to system", tenant.System, tenant.System.Scope(), "ops", "pods secrets configmaps")
	check("back to system", tenant.System, "a", "ops", "configmaps")
	i.setClusterRoleBinding(clusterBinding("everywhere", "ops", "everywhere"), true)
	check("no longer bound", tenant.System, "a", "ops", "")
	i.setClusterRole(scoped(clusterRole("europe", nil), ScopeTenants, ""), true)
	check("deleted", tenant.System, "b", "ops", "")
}

// A user that a policy has let in is not the space's own user of that name.
func TestForeignUsersHaveNoRoles(t *testing.T) {
	i := newIndex(nil)
	i.setClusterRoleBinding(clusterBinding("a|admins", "alice", "cluster-admin"), false)
	a := NewAuthorizer(i)
	u := &user.DefaultInfo{Name: "alice", Extra: map[string][]string{tenant.UserExtraKey: {"b"}}}
	r := &tenant.Request{Requested: "a", Authenticated: "b"}
	r.Admit("b")
	ctx := tenant.WithRequest(request.WithUser(context.Background(), u), r)
	if n, err := tenant.SpaceFrom(ctx); err != nil || n != "a" {
		t.Fatalf("acts in %q, %v", n, err)
	}
	decision, _, err := a.Authorize(ctx, authorizer.AttributesRecord{User: u, Verb: "get", Resource: "pods", ResourceRequest: true})
	if decision == authorizer.DecisionAllow || err == nil {
		t.Errorf("authorizer: %v, %v", decision, err)
	}
	if rules, err := NewRules(i, nil).RulesFor(ctx, u, ""); len(rules) > 0 || err == nil {
		t.Errorf("rules: %v, %v", rules, err)
	}
	if rules, _, _, err := a.RulesFor(ctx, u, ""); len(rules) > 0 || err == nil {
		t.Errorf("rule resolver: %v, %v", rules, err)
	}
}
