package authorization

import (
	"context"
	"testing"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/request"

	"github.com/tenantry/tenantry/internal/tenant"
)

func TestBoundary(t *testing.T) {
	masters := []string{user.SystemPrivilegedGroup}
	pods := authorizer.AttributesRecord{Verb: "list", Resource: "pods", ResourceRequest: true}
	for name, tc := range map[string]struct {
		requested, authenticated tenant.Name
		extra                    string
		groups                   []string
		attributes               authorizer.AttributesRecord
		decision                 authorizer.Decision
		system, space            bool // who is asked
	}{
		"own space":                   {authenticated: "a", attributes: pods, decision: authorizer.DecisionAllow, space: true},
		"foreign space":               {requested: "b", authenticated: "a", attributes: pods},
		"foreign space as master":     {requested: "b", authenticated: "a", groups: masters, attributes: pods},
		"system space by name":        {requested: tenant.System, authenticated: "a", groups: masters, attributes: pods},
		"all":                         {requested: tenant.All, authenticated: "a", groups: masters, attributes: pods},
		"everything":                  {requested: tenant.Everything, authenticated: "a", groups: masters, attributes: pods},
		"master of a tenant":          {authenticated: "a", groups: masters, attributes: pods, decision: authorizer.DecisionAllow, space: true},
		"system user":                 {authenticated: tenant.System, attributes: pods, decision: authorizer.DecisionAllow, system: true},
		"system user in a space":      {requested: "a", authenticated: tenant.System, attributes: pods, decision: authorizer.DecisionAllow, space: true},
		"system master in a space":    {requested: "a", authenticated: tenant.System, groups: masters, attributes: pods, decision: authorizer.DecisionAllow},
		"system user everywhere":      {requested: tenant.Everything, authenticated: tenant.System, attributes: pods},
		"system master everywhere":    {requested: tenant.Everything, authenticated: tenant.System, groups: masters, attributes: pods, decision: authorizer.DecisionAllow, system: true},
		"nobody":                      {attributes: pods},
		"nobody with a claimed space": {extra: "a", attributes: pods},
		"nobody's health check": {attributes: authorizer.AttributesRecord{Verb: "get", Path: "/readyz"},
			decision: authorizer.DecisionAllow, system: true},
		"nobody's metrics":      {attributes: authorizer.AttributesRecord{Verb: "get", Path: "/metrics"}},
		"metrics in a space":    {authenticated: "a", attributes: authorizer.AttributesRecord{Verb: "get", Path: "/metrics"}},
		"debug in a space":      {authenticated: "a", attributes: authorizer.AttributesRecord{Verb: "get", Path: "/debug/pprof"}},
		"discovery in a space":  {authenticated: "a", attributes: authorizer.AttributesRecord{Verb: "get", Path: "/apis/apps"}, decision: authorizer.DecisionAllow, space: true},
		"impersonate a master":  {authenticated: "a", attributes: impersonate("groups", "", user.SystemPrivilegedGroup)},
		"impersonate a group":   {authenticated: "a", attributes: impersonate("groups", "", "devs"), decision: authorizer.DecisionAllow, space: true},
		"impersonate a tenant":  {authenticated: "a", attributes: impersonate("userextras", tenant.UserExtraKey, "b")},
		"impersonate the same":  {authenticated: "a", attributes: impersonate("userextras", tenant.UserExtraKey, "a"), decision: authorizer.DecisionAllow, space: true},
		"impersonate to system": {authenticated: "a", attributes: impersonate("userextras", tenant.UserExtraKey, "system")},
		"impersonated tenant":   {authenticated: "a", extra: "b", attributes: pods},
	} {
		t.Run(name, func(t *testing.T) {
			u := &user.DefaultInfo{Name: "u", Groups: tc.groups}
			if tc.extra != "" {
				u.Extra = map[string][]string{tenant.UserExtraKey: {tc.extra}}
			}
			tc.attributes.User = u
			ctx := tenant.WithRequest(request.WithUser(context.Background(), u),
				&tenant.Request{Requested: tc.requested, Authenticated: tc.authenticated})
			asked := "-"
			decision, reason, err := New(recorder{&asked, "system"}, recorder{&asked, "space"}, NewGrants(nil)).Authorize(ctx, tc.attributes)
			if err != nil || decision != tc.decision {
				t.Errorf("decision %v (%s), %v; want %v", decision, reason, err, tc.decision)
			}
			want := "-"
			switch {
			case tc.system:
				want = "system"
			case tc.space:
				want = "space"
			}
			if asked != want {
				t.Errorf("asked %q, want %q", asked, want)
			}
		})
	}
}

// recorder is an authorizer that allows and notes that it was asked.
type recorder struct {
	asked *string
	name  string
}

func (r recorder) Authorize(context.Context, authorizer.Attributes) (authorizer.Decision, string, error) {
	*r.asked = r.name
	return authorizer.DecisionAllow, "", nil
}

func impersonate(resource, subresource, name string) authorizer.AttributesRecord {
	return authorizer.AttributesRecord{
		Verb: "impersonate", Resource: resource, Subresource: subresource, Name: name, ResourceRequest: true,
	}
}
