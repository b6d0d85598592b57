package authorization

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/request"

	"github.com/tenantry/tenantry/api/v1alpha1"
	"github.com/tenantry/tenantry/internal/spaces/rbac"
	"github.com/tenantry/tenantry/internal/tenant"
)

// rulesOf answers reviews with the same rules for everybody.
type rulesOf []authorizer.ResourceRuleInfo

func (r rulesOf) RulesFor(context.Context, user.Info, string) ([]authorizer.ResourceRuleInfo, []authorizer.NonResourceRuleInfo, bool, error) {
	return r, nil, false, nil
}

// inSpace returns the context of a user of a tenant in the space of a.
func inSpace(ctx context.Context, userTenant tenant.Name, u user.Info) context.Context {
	return tenant.WithRequest(request.WithUser(ctx, u), &tenant.Request{Requested: "a", Authenticated: userTenant})
}

func userOf(userTenant tenant.Name) user.Info {
	return &user.DefaultInfo{Name: "jane", Extra: map[string][]string{tenant.UserExtraKey: {string(userTenant)}}}
}

// TestLargeReviews checks that a review answers with so many rules and no more, whichever
// authorizer has them, and says so.
func TestLargeReviews(t *testing.T) {
	of := func(count, size int) rulesOf {
		return slices.Repeat(rulesOf{&authorizer.DefaultResourceRuleInfo{
			Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{strings.Repeat("x", size)},
		}}, count)
	}
	granted := v1alpha1.AccessRule{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"pods"}, Namespaces: []string{"x"}}
	for name, tc := range map[string]struct {
		inside     rulesOf
		userTenant tenant.Name
		policies   int
		incomplete bool
	}{
		"some rules":    {inside: of(100, 10), userTenant: "a"},
		"many rules":    {inside: of(rbac.MaxReviewedRules+1, 10), userTenant: "a", incomplete: true},
		"large rules":   {inside: of(100, rbac.MaxReviewedBytes/50), userTenant: "a", incomplete: true},
		"one rule":      {inside: of(1, rbac.MaxReviewedBytes+1), userTenant: "a", incomplete: true},
		"some policies": {userTenant: "b", policies: 10},
		"many policies": {userTenant: "b", policies: rbac.MaxReviewedRules / 32, incomplete: true},
	} {
		t.Run(name, func(t *testing.T) {
			grants := NewGrants(func(context.Context, tenant.Name) (types.UID, bool) { return "b-1", true })
			for i := range tc.policies {
				grants.Set(accessPolicy("a", fmt.Sprint(i), slices.Repeat([]v1alpha1.AccessRule{granted}, 64)...))
			}
			u := userOf(tc.userTenant)
			resources, _, incomplete, err := NewRuleResolver(tc.inside, grants, nil).RulesFor(inSpace(t.Context(), tc.userTenant, u), u, "x")
			if incomplete != tc.incomplete || incomplete != (err != nil) {
				t.Errorf("incomplete is %v, %v", incomplete, err)
			}
			if incomplete && !strings.Contains(err.Error(), "SelfSubjectAccessReview") {
				t.Errorf("%v does not say what to do", err)
			}
			size := 0
			for _, rule := range resources {
				size += len(rule.GetResources()[0])
			}
			if len(resources) > rbac.MaxReviewedRules || size > rbac.MaxReviewedBytes || len(resources) == 0 && name != "one rule" {
				t.Errorf("%d rules of %d bytes", len(resources), size)
			}
		})
	}
}

// TestReviewsEnd checks that a review collects nothing for a request that has ended.
func TestReviewsEnd(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	u := userOf("a")
	inside := rulesOf{&authorizer.DefaultResourceRuleInfo{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"pods"}}}
	resources, _, incomplete, err := NewRuleResolver(inside, NewGrants(nil), nil).RulesFor(inSpace(ctx, "a", u), u, "x")
	if len(resources) > 0 || !incomplete || !errors.Is(err, context.Canceled) {
		t.Errorf("%d rules, incomplete %v, %v", len(resources), incomplete, err)
	}
}

// TestUsableRules checks what a review shows of a rule, however often it names the same.
func TestUsableRules(t *testing.T) {
	for name, tc := range map[string]struct{ verbs, groups, resources, want []string }{
		"usable":         {[]string{"get"}, []string{""}, []string{"pods", "pods/log"}, []string{"pods", "pods/log"}},
		"nodes":          {[]string{"create", "get", "*"}, []string{""}, []string{"nodes", "pods", "nodes/status"}, []string{"pods"}},
		"of any group":   {[]string{"get"}, []string{"*"}, []string{"nodes"}, []string{"nodes"}},
		"of two groups":  {[]string{"get"}, []string{"", "example.com"}, []string{"nodes"}, []string{"nodes"}},
		"to be read":     {[]string{"delete", "list"}, []string{"storage.k8s.io"}, []string{"csinodes"}, []string{"csinodes"}},
		"to be written":  {[]string{"delete", "create", "x"}, []string{"storage.k8s.io"}, []string{"csinodes"}, nil},
		"of the server":  {[]string{"*"}, []string{"tenantry.io", ""}, []string{"tenants"}, nil},
		"without a verb": {nil, []string{""}, []string{"pods"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, rule := range usableRules(rulesOf{&authorizer.DefaultResourceRuleInfo{Verbs: tc.verbs, APIGroups: tc.groups, Resources: tc.resources}}) {
				got = append(got, rule.GetResources()...)
			}
			if !slices.Equal(got, tc.want) {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
	// Three loops in each other would not end.
	const many = 10_000
	usableRules(rulesOf{&authorizer.DefaultResourceRuleInfo{
		Verbs: slices.Repeat([]string{"create"}, many), APIGroups: slices.Repeat([]string{""}, many), Resources: slices.Repeat([]string{"nodes"}, many),
	}})
}
