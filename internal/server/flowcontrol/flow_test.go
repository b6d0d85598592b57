package flowcontrol

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"

	"github.com/tenantry/tenantry/internal/tenant"
)

// contextOf is the context of a request after impersonation.
func contextOf(r *tenant.Request, u user.Info) context.Context {
	return request.WithUser(tenant.WithRequest(context.Background(), r), u)
}

func userOf(n tenant.Name, name string, groups ...string) *user.DefaultInfo {
	u := &user.DefaultInfo{Name: name, Groups: groups}
	if n != "" {
		u.Extra = map[string][]string{tenant.UserExtraKey: {string(n)}}
	}
	return u
}

func TestFlowUser(t *testing.T) {
	tenantFlow := func(name string) *user.DefaultInfo {
		return &user.DefaultInfo{Name: name, Groups: []string{tenantsGroup, user.AllAuthenticated}}
	}
	controller := userOf(tenant.System, user.KubeControllerManager, user.AllAuthenticated)
	twoTenants := &user.DefaultInfo{Name: "jane", Extra: map[string][]string{tenant.UserExtraKey: {"acme", "globex"}}}
	tests := map[string]struct {
		request *tenant.Request
		user    *user.DefaultInfo
		want    *user.DefaultInfo
	}{
		"user of the system": {
			&tenant.Request{Authenticated: tenant.System}, controller, controller,
		},
		"user of the system in a space": {
			&tenant.Request{Requested: "acme", Authenticated: tenant.System}, controller, controller,
		},
		"user of a tenant": {
			&tenant.Request{Authenticated: "acme"}, userOf("acme", "jane", "developers"), tenantFlow("tenant:acme"),
		},
		"same name in another tenant": {
			&tenant.Request{Authenticated: "globex"}, userOf("globex", "jane", "developers"), tenantFlow("tenant:globex"),
		},
		"privileged group of a tenant": {
			&tenant.Request{Authenticated: "acme"}, userOf("acme", "jane", user.SystemPrivilegedGroup, user.NodesGroup), tenantFlow("tenant:acme"),
		},
		"service account of a tenant's kube-system": {
			&tenant.Request{Authenticated: "acme"}, userOf("acme", "system:serviceaccount:kube-system:default"), tenantFlow("tenant:acme"),
		},
		"tenant's user in a foreign space": {
			&tenant.Request{Requested: "globex", Authenticated: "acme"}, userOf("acme", "jane"), tenantFlow("tenant:acme"),
		},
		"tenant's user impersonates a user of the system": {
			&tenant.Request{Authenticated: "acme"}, userOf(tenant.System, "root", user.SystemPrivilegedGroup), tenantFlow("tenant:acme"),
		},
		"user of the system impersonates a tenant's user": {
			&tenant.Request{Authenticated: tenant.System}, userOf("acme", "jane"), tenantFlow("tenant:acme"),
		},
		"user of the system impersonates another": {
			&tenant.Request{Authenticated: tenant.System}, userOf("", "joe"), userOf("", "joe"),
		},
		"user without a tenant": {
			&tenant.Request{}, userOf("", "jane", user.SystemPrivilegedGroup), anonymous,
		},
		"claimed tenant without authentication": {
			&tenant.Request{}, userOf(tenant.System, "jane", user.SystemPrivilegedGroup), anonymous,
		},
		"impersonated user of two tenants": {
			&tenant.Request{Authenticated: tenant.System}, twoTenants, anonymous,
		},
		"no request": {
			nil, userOf(tenant.System, "jane", user.SystemPrivilegedGroup), anonymous,
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got := flowUser(chargedTenant(contextOf(tc.request, tc.user)), read, tc.user)
			if diff := cmp.Diff(user.Info(tc.want), got); diff != "" {
				t.Errorf("flow user (-want +got):\n%s", diff)
			}
		})
	}
}
