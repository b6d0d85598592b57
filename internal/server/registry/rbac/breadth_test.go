package rbac

import (
	"context"
	"fmt"
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
	rules   int
	strings int // in each of them
	visited int
}

func (o *owner) VisitRulesFor(_ context.Context, _ user.Info, _ string, visitor func(fmt.Stringer, *rbacv1.PolicyRule, error) bool) {
	for range o.rules {
		o.visited++
		if !visitor(nil, &rbacv1.PolicyRule{Resources: make([]string, o.strings)}, nil) {
			return
		}
	}
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
		strings int
		refused bool
	}{
		"usual":                              {rbacv1.PolicyRule{Verbs: names(8), APIGroups: names(3), Resources: names(20)}, 50_000, 0, false},
		"usual, of somebody with a million":  {rbacv1.PolicyRule{Verbs: names(8), APIGroups: names(3), Resources: names(20)}, 1_000_000, 0, true},
		"usual, of somebody with large ones": {rbacv1.PolicyRule{Verbs: names(8), APIGroups: names(3), Resources: names(20)}, 100, 1000, true},
		"many, of somebody with few":         {rbacv1.PolicyRule{Verbs: names(10), APIGroups: one, Resources: names(5000)}, 500, 0, false},
		"many, of somebody with many":        {rbacv1.PolicyRule{Verbs: names(10), APIGroups: one, Resources: names(5000)}, 501, 0, true},
		"a product":                          {rbacv1.PolicyRule{Verbs: names(1000), APIGroups: names(1000), Resources: names(1000)}, 0, 0, true},
		"beyond numbers": {rbacv1.PolicyRule{Verbs: names(1 << 17), APIGroups: names(1 << 17), Resources: names(1 << 17),
			ResourceNames: names(1 << 17)}, 0, 0, true},
		"paths":       {rbacv1.PolicyRule{Verbs: names(1000), NonResourceURLs: names(1000)}, 0, 0, true},
		"names alone": {rbacv1.PolicyRule{Verbs: one, APIGroups: one, Resources: one, ResourceNames: names(90_000)}, 50, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			o := &owner{rules: tc.owned, strings: tc.strings}
			ctx := request.WithUser(t.Context(), &user.DefaultInfo{Name: "jane"})
			err := checkBreadth(ctx, o, []rbacv1.PolicyRule{tc.rule}, "ns")
			if refused := err != nil; refused != tc.refused {
				t.Errorf("error %v, refused should be %v", err, tc.refused)
			}
			if most := int(maxComparisons/max(rbac.CountRights(tc.rule), 1)) + 1; o.visited > most {
				t.Errorf("%d rules of the user are read, want at most %d", o.visited, most)
			}
		})
	}
}
