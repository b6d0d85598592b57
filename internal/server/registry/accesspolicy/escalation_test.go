package accesspolicy

import (
	"context"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/request"

	"github.com/tenantry/tenantry/api/v1alpha1"
)

func TestEscalation(t *testing.T) {
	pods := rbacv1.PolicyRule{Verbs: []string{"get", "list", "watch"}, APIGroups: []string{""}, Resources: []string{"pods"}}
	everywhere := func(spec *v1alpha1.TenantAccessPolicySpec) { spec.Rules[0].Namespaces = []string{"*"} }
	both := func(spec *v1alpha1.TenantAccessPolicySpec) { spec.Rules[0].Namespaces = []string{"x", "y"} }
	writing := func(spec *v1alpha1.TenantAccessPolicySpec) { spec.Rules[0].Verbs = []string{"get", "delete"} }
	broad := func(spec *v1alpha1.TenantAccessPolicySpec) {
		spec.Rules[0].ResourceNames, spec.Rules[0].Resources = make([]string, 256), make([]string, 64)
	}
	for name, tc := range map[string]struct {
		groups []string
		held   map[string][]rbacv1.PolicyRule // by namespace
		exempt string                         // verb on policies that the user has
		policy *v1alpha1.TenantAccessPolicy
		want   string
	}{
		"held":                        {held: map[string][]rbacv1.PolicyRule{"x": {pods}}, policy: newPolicy()},
		"held in another namespace":   {held: map[string][]rbacv1.PolicyRule{"y": {pods}}, policy: newPolicy(), want: "in namespace x"},
		"held in one of two":          {held: map[string][]rbacv1.PolicyRule{"x": {pods}}, policy: newPolicy(both), want: "in namespace y"},
		"held in one, granted in all": {held: map[string][]rbacv1.PolicyRule{"x": {pods}}, policy: newPolicy(everywhere), want: "not currently held"},
		"held in all":                 {held: map[string][]rbacv1.PolicyRule{"": {pods}, "x": {pods}}, policy: newPolicy(everywhere)},
		"read, granted to write":      {held: map[string][]rbacv1.PolicyRule{"x": {pods}}, policy: newPolicy(writing), want: `Verbs:["delete"]`},
		"too many to compare":         {policy: newPolicy(broad), want: "combinations"},
		"too many held to compare":    {held: map[string][]rbacv1.PolicyRule{"x": slices.Repeat([]rbacv1.PolicyRule{{Verbs: make([]string, 10_000)}}, 1000)}, policy: newPolicy(), want: "your own rules"},
		"one large to compare":        {held: map[string][]rbacv1.PolicyRule{"x": {{Verbs: make([]string, maxComparisons/2)}}}, policy: newPolicy(), want: "your own rules"},
		"too many, by who may bind":   {exempt: "bind", policy: newPolicy(broad)},
		"nothing":                     {policy: newPolicy(), want: "not currently held"},
		"bind":                        {exempt: "bind", policy: newPolicy()},
		"escalate":                    {exempt: "escalate", policy: newPolicy()},
		"create is no exemption":      {exempt: "create", policy: newPolicy(), want: "not currently held"},
		"the server's administrator":  {groups: []string{user.SystemPrivilegedGroup}, policy: newPolicy()},
	} {
		t.Run(name, func(t *testing.T) {
			e := Escalation{
				Authorizer: authorizer.AuthorizerFunc(func(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
					if a.GetVerb() == tc.exempt && a.GetResource() == Resource.Resource && a.GetAPIGroup() == Resource.Group {
						return authorizer.DecisionAllow, "", nil
					}
					return authorizer.DecisionNoOpinion, "", nil
				}),
				RulesFor: func(_ context.Context, _ user.Info, namespace string) ([]rbacv1.PolicyRule, error) {
					return tc.held[namespace], nil
				},
			}
			ctx := request.WithUser(context.Background(), &user.DefaultInfo{Name: "admin", Groups: tc.groups})
			err := e.Confirm(ctx, tc.policy)
			switch {
			case tc.want == "" && err != nil:
				t.Errorf("unexpected error: %v", err)
			case tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)):
				t.Errorf("got error %v, want one with %q", err, tc.want)
			}
		})
	}
}
