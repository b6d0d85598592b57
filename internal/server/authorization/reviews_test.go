package authorization

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/request"

	"github.com/tenantry/tenantry/internal/tenant"
)

// TestReviews checks whom a review asks about, if it asks at all. Whoever is asked about may
// do everything.
func TestReviews(t *testing.T) {
	of := func(n tenant.Name) map[string][]string {
		return map[string][]string{tenant.UserExtraKey: {string(n)}}
	}
	for name, tc := range map[string]struct {
		space    tenant.Name
		reviewer tenant.Name
		about    user.DefaultInfo
		decision authorizer.Decision
		// asked is whose user and groups are asked about.
		asked  tenant.Name
		groups []string
	}{
		"a user without a tenant":              {space: "a", reviewer: "a", about: user.DefaultInfo{Name: "u"}, decision: authorizer.DecisionAllow, asked: "a"},
		"an own user":                          {space: "a", reviewer: "a", about: user.DefaultInfo{Name: "u", Extra: of("a")}, decision: authorizer.DecisionAllow, asked: "a"},
		"another tenant's user":                {space: "a", reviewer: "a", about: user.DefaultInfo{Name: "u", Extra: of("b")}},
		"another tenant's groups":              {space: "a", reviewer: "a", about: user.DefaultInfo{Groups: []string{"devs"}, Extra: of("b")}},
		"a system user":                        {space: "a", reviewer: "a", about: user.DefaultInfo{Name: "u", Extra: of(tenant.System)}},
		"another tenant's user, by the system": {space: "a", reviewer: tenant.System, about: user.DefaultInfo{Name: "u", Extra: of("b")}, decision: authorizer.DecisionAllow, asked: "b"},
		"groups": {
			space: "a", reviewer: "a", about: user.DefaultInfo{Groups: []string{"devs", user.AllAuthenticated}},
			decision: authorizer.DecisionAllow, asked: "a", groups: []string{"devs", user.AllAuthenticated},
		},
		"groups that no user of the space is in": {
			space: "a", reviewer: "a", about: user.DefaultInfo{Groups: []string{user.SystemPrivilegedGroup, "devs", user.NodesGroup, user.AllUnauthenticated}},
			decision: authorizer.DecisionAllow, asked: "a", groups: []string{"devs"},
		},
		"the same by the system": {
			space: "a", reviewer: tenant.System, about: user.DefaultInfo{Groups: []string{user.SystemPrivilegedGroup, "devs"}},
			decision: authorizer.DecisionAllow, asked: "a", groups: []string{"devs"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			ctx := tenant.WithRequest(request.WithUser(t.Context(), &user.DefaultInfo{Name: "reviewer"}),
				&tenant.Request{Requested: tc.space.Scope(), Authenticated: tc.reviewer})
			next := &reviewed{}
			decision, reason, err := ForReviews(next).Authorize(ctx, authorizer.AttributesRecord{User: &tc.about, Verb: "list", Resource: "pods", ResourceRequest: true})
			if err != nil || decision != tc.decision {
				t.Errorf("decision %v (%s), %v; want %v", decision, reason, err, tc.decision)
			}
			if diff := cmp.Diff(tc.asked, next.tenant); diff != "" {
				t.Errorf("tenant of the user (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.groups, next.groups); tc.groups != nil && diff != "" {
				t.Errorf("groups (-want +got):\n%s", diff)
			}
		})
	}
}

// reviewed allows everything, and remembers about whom it was asked.
type reviewed struct {
	tenant tenant.Name
	groups []string
}

func (r *reviewed) Authorize(ctx context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	n, err := tenant.UserTenant(ctx)
	r.tenant, r.groups = n, a.GetUser().GetGroups()
	return authorizer.DecisionAllow, "", err
}
