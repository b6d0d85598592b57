package authorization

import (
	"context"
	"slices"
	"strings"
	"testing"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/request"

	"github.com/tenantry/tenantry/internal/tenant"
)

func TestBoundary(t *testing.T) {
	masters := []string{user.SystemPrivilegedGroup}
	pods := authorizer.AttributesRecord{Verb: "list", Resource: "pods", ResourceRequest: true}
	loggedIn, search := []string{user.AllAuthenticated}, authorizer.AttributesRecord{Verb: "get", Path: "/search"}
	for name, tc := range map[string]struct {
		requested     tenant.Scope
		authenticated tenant.Name
		extra         string
		headers       []string // of impersonation, the tenants that they name
		groups        []string
		attributes    authorizer.AttributesRecord
		decision      authorizer.Decision
		asked         tenant.Scope // in which space the other authorizers are asked
	}{
		"own space":                {authenticated: "a", attributes: pods, decision: authorizer.DecisionAllow, asked: "a"},
		"foreign space":            {requested: "b", authenticated: "a", attributes: pods},
		"foreign space as master":  {requested: "b", authenticated: "a", groups: masters, attributes: pods},
		"system space by name":     {requested: tenant.System.Scope(), authenticated: "a", groups: masters, attributes: pods},
		"all":                      {requested: tenant.All, authenticated: "a", groups: masters, attributes: pods},
		"everything":               {requested: tenant.Everything, authenticated: "a", groups: masters, attributes: pods},
		"master of a tenant":       {authenticated: "a", groups: masters, attributes: pods, decision: authorizer.DecisionAllow, asked: "a"},
		"system user":              {authenticated: tenant.System, attributes: pods, decision: authorizer.DecisionAllow, asked: tenant.System.Scope()},
		"system user in a space":   {requested: "a", authenticated: tenant.System, attributes: pods, decision: authorizer.DecisionAllow, asked: "a"},
		"system master in a space": {requested: "a", authenticated: tenant.System, groups: masters, attributes: pods, decision: authorizer.DecisionAllow},
		"system user everywhere":   {requested: tenant.Everything, authenticated: tenant.System, attributes: pods},
		"system master everywhere": {requested: tenant.Everything, authenticated: tenant.System, groups: masters, attributes: pods, decision: authorizer.DecisionAllow},
		"system user in all":       {requested: tenant.All, authenticated: tenant.System, attributes: pods, decision: authorizer.DecisionAllow, asked: tenant.All},
		"discovery in all": {requested: tenant.All, authenticated: tenant.System, attributes: authorizer.AttributesRecord{Verb: "get", Path: "/apis"},
			decision: authorizer.DecisionAllow, asked: tenant.System.Scope()},
		"system master in all":        {requested: tenant.All, authenticated: tenant.System, groups: masters, attributes: pods, decision: authorizer.DecisionAllow},
		"nobody":                      {attributes: pods},
		"nobody with a claimed space": {extra: "a", attributes: pods},
		"nobody's health check": {attributes: authorizer.AttributesRecord{Verb: "get", Path: "/readyz"},
			decision: authorizer.DecisionAllow, asked: tenant.System.Scope()},
		"nobody's metrics":                          {attributes: authorizer.AttributesRecord{Verb: "get", Path: "/metrics"}},
		"metrics in a space":                        {authenticated: "a", attributes: authorizer.AttributesRecord{Verb: "get", Path: "/metrics"}},
		"debug in a space":                          {authenticated: "a", attributes: authorizer.AttributesRecord{Verb: "get", Path: "/debug/pprof"}},
		"discovery in a space":                      {authenticated: "a", attributes: authorizer.AttributesRecord{Verb: "get", Path: "/apis/apps"}, decision: authorizer.DecisionAllow, asked: "a"},
		"search in a space":                         {authenticated: "a", groups: loggedIn, attributes: search, decision: authorizer.DecisionAllow},
		"search in a space, and not logged in":      {requested: "a", authenticated: tenant.System, groups: []string{user.AllUnauthenticated}, attributes: search},
		"search in a foreign space":                 {requested: "b", authenticated: "a", groups: loggedIn, attributes: search},
		"search in the system space by name":        {requested: tenant.System.Scope(), authenticated: "a", groups: loggedIn, attributes: search},
		"search without a tenant":                   {groups: loggedIn, attributes: search},
		"search as a system user":                   {authenticated: tenant.System, groups: loggedIn, attributes: search, decision: authorizer.DecisionAllow},
		"search in a space as a system user":        {requested: "a", authenticated: tenant.System, groups: loggedIn, attributes: search, decision: authorizer.DecisionAllow, asked: "a"},
		"GraphQL in a space":                        {authenticated: "a", groups: loggedIn, attributes: authorizer.AttributesRecord{Verb: "post", Path: "/searchapi/graphql"}, decision: authorizer.DecisionAllow},
		"a subscription in a space":                 {authenticated: "a", groups: loggedIn, attributes: authorizer.AttributesRecord{Verb: "get", Path: "/searchapi/graphql"}, decision: authorizer.DecisionAllow},
		"GraphQL in a foreign space":                {requested: "b", authenticated: "a", groups: loggedIn, attributes: authorizer.AttributesRecord{Verb: "post", Path: "/searchapi/graphql"}},
		"GraphQL in a space as a system user":       {requested: "a", authenticated: tenant.System, groups: loggedIn, attributes: authorizer.AttributesRecord{Verb: "post", Path: "/searchapi/graphql"}, decision: authorizer.DecisionAllow, asked: "a"},
		"GraphQL and not logged in":                 {requested: "a", authenticated: tenant.System, groups: []string{user.AllUnauthenticated}, attributes: authorizer.AttributesRecord{Verb: "post", Path: "/searchapi/graphql"}},
		"searches that are posted":                  {authenticated: "a", groups: loggedIn, attributes: authorizer.AttributesRecord{Verb: "post", Path: "/search"}},
		"below searches":                            {authenticated: "a", groups: loggedIn, attributes: authorizer.AttributesRecord{Verb: "get", Path: "/search/x"}},
		"impersonate a master":                      {authenticated: "a", attributes: impersonate("groups", "", user.SystemPrivilegedGroup)},
		"impersonate who is not logged in":          {authenticated: "a", attributes: impersonate("groups", "", user.AllUnauthenticated)},
		"impersonate a group":                       {authenticated: "a", attributes: impersonate("groups", "", "devs"), decision: authorizer.DecisionAllow, asked: "a"},
		"impersonate a tenant":                      {authenticated: "a", attributes: impersonate("userextras", tenant.UserExtraKey, "b")},
		"impersonate a tenant, written otherwise":   {authenticated: "a", attributes: impersonate("userextras", strings.ToUpper(tenant.UserExtraKey), "b")},
		"impersonate a tenant by the former key":    {authenticated: "a", attributes: impersonate("userextras", tenant.Former(tenant.UserExtraKey), "b")},
		"impersonate the same":                      {authenticated: "a", attributes: impersonate("userextras", tenant.UserExtraKey, "a"), decision: authorizer.DecisionAllow, asked: "a"},
		"impersonate to system":                     {authenticated: "a", attributes: impersonate("userextras", tenant.UserExtraKey, "system")},
		"impersonate a user":                        {authenticated: "a", attributes: impersonate("users", "", "jane"), decision: authorizer.DecisionAllow, asked: "a"},
		"impersonate a user of Keystone":            {authenticated: "a", attributes: impersonate("users", "", "keystone:1")},
		"impersonate a group of Keystone":           {authenticated: "a", attributes: impersonate("groups", "", "keystone:project:p:r")},
		"impersonate an extra of Keystone":          {authenticated: "a", attributes: impersonate("userextras", "Keystone.tenantry.io/user-name", "jane")},
		"impersonate a user of Keystone, system":    {authenticated: tenant.System, attributes: impersonate("users", "", "keystone:1"), decision: authorizer.DecisionAllow, asked: tenant.System.Scope()},
		"become a tenant's user":                    {authenticated: tenant.System, attributes: impersonate("userextras", tenant.UserExtraKey, "a"), decision: authorizer.DecisionAllow, asked: "a"},
		"become a tenant's user, written otherwise": {authenticated: tenant.System, attributes: impersonate("userextras", strings.ToUpper(tenant.UserExtraKey), "a")},
		"become a tenant's user, by the former key": {authenticated: tenant.System, attributes: impersonate("userextras", tenant.Former(tenant.UserExtraKey), "a")},
		"become a tenant's user, as a master":       {authenticated: tenant.System, groups: masters, attributes: impersonate("userextras", tenant.UserExtraKey, "a"), decision: authorizer.DecisionAllow, asked: tenant.System.Scope()},
		"become a user of all":                      {authenticated: tenant.System, attributes: impersonate("userextras", tenant.UserExtraKey, tenant.All.String())},
		"become a system user":                      {authenticated: tenant.System, attributes: impersonate("userextras", tenant.UserExtraKey, "system"), decision: authorizer.DecisionAllow, asked: tenant.System.Scope()},
		"become a tenant's user in a space":         {requested: "a", authenticated: tenant.System, attributes: impersonate("userextras", tenant.UserExtraKey, "b"), decision: authorizer.DecisionAllow, asked: "a"},
		"the user who becomes a tenant's":           {authenticated: tenant.System, headers: []string{"a"}, attributes: impersonate("users", "", "jane"), decision: authorizer.DecisionAllow, asked: "a"},
		"the group that becomes a tenant's":         {authenticated: tenant.System, headers: []string{"a"}, attributes: impersonate("groups", "", "devs"), decision: authorizer.DecisionAllow, asked: "a"},
		"the account that becomes a tenant's":       {authenticated: tenant.System, headers: []string{"a"}, attributes: impersonate("serviceaccounts", "", "robot"), decision: authorizer.DecisionAllow, asked: "a"},
		"another extra that becomes a tenant's":     {authenticated: tenant.System, headers: []string{"a"}, attributes: impersonate("userextras", "scopes", "view"), decision: authorizer.DecisionAllow, asked: "a"},
		"the UID that becomes a tenant's":           {authenticated: tenant.System, headers: []string{"a"}, attributes: impersonate("uids", "", "1"), decision: authorizer.DecisionAllow, asked: "a"},
		"the user who becomes a system user":        {authenticated: tenant.System, headers: []string{"system"}, attributes: impersonate("users", "", "jane"), decision: authorizer.DecisionAllow, asked: tenant.System.Scope()},
		"the user who becomes two tenants'":         {authenticated: tenant.System, headers: []string{"a", "system"}, attributes: impersonate("users", "", "jane")},
		"the user who becomes one of all":           {authenticated: tenant.System, headers: []string{"all"}, attributes: impersonate("users", "", "jane")},
		"the user who becomes a tenant's in b":      {requested: "b", authenticated: tenant.System, headers: []string{"a"}, attributes: impersonate("users", "", "jane"), decision: authorizer.DecisionAllow, asked: "b"},
		"a tenant's user becomes another":           {authenticated: "a", headers: []string{"b"}, attributes: impersonate("users", "", "jane"), decision: authorizer.DecisionAllow, asked: "a"},
		"became a tenant's user":                    {authenticated: tenant.System, extra: "a", headers: []string{"a"}, attributes: pods, decision: authorizer.DecisionAllow, asked: "a"},
		"became a tenant's user, authorized for b":  {authenticated: tenant.System, extra: "a", headers: []string{"b"}, attributes: pods},
		"became a tenant's user, not authorized":    {authenticated: tenant.System, extra: "a", attributes: pods},
		"became a system user, authorized for a":    {authenticated: tenant.System, headers: []string{"a"}, attributes: pods},
		"impersonated tenant":                       {authenticated: "a", extra: "b", attributes: pods},
	} {
		t.Run(name, func(t *testing.T) {
			u := &user.DefaultInfo{Name: "u", Groups: tc.groups}
			if tc.extra != "" {
				u.Extra = map[string][]string{tenant.UserExtraKey: {tc.extra}}
			}
			tc.attributes.User = u
			ctx := tenant.WithRequest(request.WithUser(context.Background(), u),
				&tenant.Request{Requested: tc.requested, Authenticated: tc.authenticated, Impersonated: map[string][]string{tenant.UserExtraKey: tc.headers}})
			var asked tenant.Scope
			decision, reason, err := New(recorder{&asked}, NewGrants(nil), nil).Authorize(ctx, tc.attributes)
			if err != nil || decision != tc.decision {
				t.Errorf("decision %v (%s), %v; want %v", decision, reason, err, tc.decision)
			}
			if asked != tc.asked {
				t.Errorf("asked in %q, want %q", asked, tc.asked)
			}
		})
	}
}

// recorder is an authorizer that allows and notes in which space it was asked.
type recorder struct{ asked *tenant.Scope }

func (r recorder) Authorize(ctx context.Context, _ authorizer.Attributes) (authorizer.Decision, string, error) {
	var err error
	*r.asked, err = tenant.ScopeFrom(ctx)
	return authorizer.DecisionAllow, "", err
}

func impersonate(resource, subresource, name string) authorizer.AttributesRecord {
	return authorizer.AttributesRecord{
		Verb: "impersonate", Resource: resource, Subresource: subresource, Name: name, ResourceRequest: true,
	}
}

// TestUsersInTheirTenant checks that authorizers decide about the user that authentication
// would have made: an impersonated service account has its own groups.
func TestUsersInTheirTenant(t *testing.T) {
	u := &user.DefaultInfo{Name: "system:serviceaccount:ns:robot", Groups: []string{user.SystemPrivilegedGroup}}
	ctx := tenant.WithRequest(request.WithUser(t.Context(), u), &tenant.Request{Authenticated: "a"})
	attributes := authorizer.AttributesRecord{User: u, Verb: "list", Resource: "pods", ResourceRequest: true}
	asked := authorizer.AuthorizerFunc(func(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
		if groups := a.GetUser().GetGroups(); slices.Contains(groups, user.SystemPrivilegedGroup) || !slices.Contains(groups, "system:serviceaccounts:ns") {
			t.Errorf("asked about a user with groups %v", groups)
		}
		return authorizer.DecisionAllow, "", nil
	})
	if decision, reason, err := New(asked, NewGrants(nil), nil).Authorize(ctx, attributes); err != nil || decision != authorizer.DecisionAllow {
		t.Errorf("decision %v (%s), %v", decision, reason, err)
	}
}

// TestGroupsInTheirTenant checks that a privileged group is one of the system tenant, also in a review of
// groups, whose user is taken as it is.
func TestGroupsInTheirTenant(t *testing.T) {
	u := &user.DefaultInfo{Groups: []string{user.SystemPrivilegedGroup}}
	ctx := tenant.WithRequest(request.WithUser(t.Context(), u), &tenant.Request{Authenticated: "a"})
	attributes := groupReview{userAttributes{authorizer.AttributesRecord{Verb: "list", Resource: "pods", ResourceRequest: true}, u}}
	var asked tenant.Scope
	if _, _, err := New(recorder{&asked}, NewGrants(nil), nil).Authorize(ctx, attributes); err != nil || asked != "a" {
		t.Errorf("asked in %q, %v", asked, err)
	}
}
