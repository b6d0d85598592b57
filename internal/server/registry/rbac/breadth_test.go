package rbac

import (
	"context"
	"strconv"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/kubernetes/pkg/registry/rbac/validation"

	"github.com/tenantry/tenantry/internal/spaces/rbac"
)

// owner has a number of rules.
type owner struct {
	validation.AuthorizationRuleResolver
	rules int
	asked bool
}

func (o *owner) RulesFor(context.Context, user.Info, string) ([]rbacv1.PolicyRule, error) {
	o.asked = true
	return make([]rbacv1.PolicyRule, o.rules), nil
}

func TestCheckBreadth(t *testing.T) {
	names := func(count int) (names []string) {
		for i := range count {
			names = append(names, strconv.Itoa(i))
		}
		return names
	}
	one := []string{"x"}
	for name, tc := range map[string]struct {
		rule    rbacv1.PolicyRule
		owned   int
		refused bool
	}{
		"usual":                       {rbacv1.PolicyRule{Verbs: names(8), APIGroups: names(3), Resources: names(20)}, 1_000_000, false},
		"many, of somebody with few":  {rbacv1.PolicyRule{Verbs: names(10), APIGroups: one, Resources: names(5000)}, 100, false},
		"many, of somebody with many": {rbacv1.PolicyRule{Verbs: names(10), APIGroups: one, Resources: names(5000)}, 101, true},
		"a product":                   {rbacv1.PolicyRule{Verbs: names(1000), APIGroups: names(1000), Resources: names(1000)}, 0, true},
		"beyond numbers": {rbacv1.PolicyRule{Verbs: names(1 << 17), APIGroups: names(1 << 17), Resources: names(1 << 17),
			ResourceNames: names(1 << 17)}, 0, true},
		"paths":       {rbacv1.PolicyRule{Verbs: names(1000), NonResourceURLs: names(1000)}, 0, true},
		"names alone": {rbacv1.PolicyRule{Verbs: one, APIGroups: one, Resources: one, ResourceNames: names(90_000)}, 50, false},
	} {
		t.Run(name, func(t *testing.T) {
			o := &owner{rules: tc.owned}
			ctx := request.WithUser(t.Context(), &user.DefaultInfo{Name: "jane"})
			err := checkBreadth(ctx, o, []rbacv1.PolicyRule{tc.rule}, "ns")
			if refused := err != nil; refused != tc.refused {
				t.Errorf("error %v, refused should be %v", err, tc.refused)
			}
			if few := rbac.CountRights(tc.rule) <= fewRights; few && o.asked {
				t.Error("the rights of the user are looked up for a usual role")
			}
		})
	}
}
