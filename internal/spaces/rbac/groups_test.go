package rbac

import (
	"fmt"
	"slices"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/request"

	"github.com/tenantry/tenantry/internal/tenant"
)

func groups(prefix string, count int) (names []string) {
	for i := range count {
		names = append(names, fmt.Sprintf("%s-%d", prefix, i))
	}
	return names
}

func groupSubjects(names ...string) (subjects []rbacv1.Subject) {
	for _, name := range names {
		subjects = append(subjects, rbacv1.Subject{Kind: rbacv1.GroupKind, APIGroup: rbacv1.GroupName, Name: name})
	}
	return subjects
}

// bound returns an index with a role in the space a, bound in the namespace ns and in all,
// to subjects.
func bound(subjects []rbacv1.Subject) *Index {
	i := newIndex(nil)
	i.setClusterRole(clusterRole("a|reader", nil, rule("get", "", "pods")), false)
	ref := rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "reader"}
	i.setRoleBinding(&rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: "a|ns", Name: "b"}, Subjects: subjects, RoleRef: ref}, false)
	i.setClusterRoleBinding(&rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "a|b"}, Subjects: subjects, RoleRef: ref}, false)
	return i
}

// TestManyGroups checks that a user with many groups may do what one of them may.
func TestManyGroups(t *testing.T) {
	for name, tc := range map[string]struct {
		subjects []rbacv1.Subject
		want     bool
	}{
		"one of the groups": {groupSubjects("other", "g-7"), true},
		"none of them":      {groupSubjects("other", "jane"), false},
		"the user":          {append(groupSubjects("other"), rbacv1.Subject{Kind: rbacv1.UserKind, Name: "jane"}), true},
		"a user called so":  {[]rbacv1.Subject{{Kind: rbacv1.UserKind, Name: "g-7"}}, false},
		"nobody":            {nil, false},
	} {
		for _, count := range []int{manyGroups - 1, manyGroups, 10 * manyGroups} {
			u := &user.DefaultInfo{Name: "jane", Groups: groups("g", count), Extra: map[string][]string{tenant.UserExtraKey: {"a"}}}
			ctx := request.WithUser(in("a"), u)
			for _, namespace := range []string{"ns", ""} {
				decision, _, err := NewAuthorizer(bound(tc.subjects)).Authorize(ctx, authorizer.AttributesRecord{
					User: u, Verb: "get", Resource: "pods", Namespace: namespace, ResourceRequest: true,
				})
				if got := decision == authorizer.DecisionAllow; got != tc.want || err != nil {
					t.Errorf("%s, %d groups, namespace %q: allowed is %v, %v", name, count, namespace, got, err)
				}
			}
		}
	}
}

// TestGroupsAreNotComparedOneByOne checks that upstream, which compares each group of a
// user with each one that a binding names, has none to compare.
func TestGroupsAreNotComparedOneByOne(t *testing.T) {
	const many = 5000
	u := &user.DefaultInfo{Name: "jane", Groups: groups("g", many)}
	i := bound(groupSubjects(append(groups("other", many), "g-9")...))
	ctx := withMember(in("a"), u)
	cluster, err := ClusterRoleBindings{i}.ListClusterRoleBindings(ctx)
	if err != nil {
		t.Fatal(err)
	}
	inNamespace, err := RoleBindings{i}.ListRoleBindings(ctx, "ns")
	if err != nil || len(inNamespace) != 1 {
		t.Fatalf("%d bindings, %v", len(inNamespace), err)
	}
	subjects := inNamespace[0].Subjects
	for _, binding := range cluster {
		subjects = slices.Concat(subjects, binding.Subjects)
	}
	for _, subject := range subjects {
		if subject.Kind == rbacv1.GroupKind {
			t.Errorf("group %q is to be compared with %d", subject.Name, many)
		}
	}
}

// TestAggregationGrowsWithTheRules checks that four times as many rules take about four
// times the work, by what is allocated.
func TestAggregationGrowsWithTheRules(t *testing.T) {
	work := func(count int) uint64 {
		var rules []rbacv1.PolicyRule
		for k := range count {
			rules = append(rules, rule("get", "g", fmt.Sprint("r", k)))
		}
		var aggregated map[string]*rbacv1.ClusterRole
		bytes := allocated(func() { aggregated = aggregatedDefaults([]*rbacv1.ClusterRole{clusterRole("own", toView, rules...)}) })
		if got := len(aggregated["view"].Rules); got < count {
			t.Fatalf("%d rules, want at least %d", got, count)
		}
		return bytes
	}
	work(1)
	if small, large := work(500), work(2000); large > 6*small {
		t.Errorf("500 rules: %d bytes are allocated, 2000 rules: %d", small, large)
	}
}

// TestManyRulesAreNotAggregated checks that a space with very many rules for default ClusterRoles
// has these as they are elsewhere, until it has fewer.
func TestManyRulesAreNotAggregated(t *testing.T) {
	i := newIndex(nil)
	role := func(name string, rules int) *rbacv1.ClusterRole {
		return clusterRole("a|"+name, toView, slices.Repeat([]rbacv1.PolicyRule{rule("get", "g", name)}, rules)...)
	}
	i.setClusterRole(role("few", 1), false)
	i.setClusterRole(clusterRole("a|other", nil, slices.Repeat([]rbacv1.PolicyRule{rule("get", "g", "other")}, maxAggregatedWeight)...), false)
	aggregated := func(when string, want bool) {
		t.Helper()
		if got := hasRule(t, i, "a", "view", rule("get", "g", "few")); got != want {
			t.Errorf("%s: the rule is aggregated: %v", when, got)
		}
		if !hasRule(t, i, "a", "view", defaultClusterRoles()["view"].Rules[0]) {
			t.Errorf("%s: a default rule is missing", when)
		}
	}
	aggregated("few rules", true)
	i.setClusterRole(role("many", maxAggregatedWeight/4), false)
	aggregated("many rules", false)
	i.setClusterRole(role("many", maxAggregatedWeight/4), true)
	aggregated("few again", true)
	for n := range maxAggregatedWeight {
		i.setClusterRole(role(fmt.Sprint("without", n), 0), false)
	}
	aggregated("many roles", false)
}
