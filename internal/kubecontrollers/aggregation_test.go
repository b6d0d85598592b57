package kubecontrollers

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	rbaclisters "k8s.io/client-go/listers/rbac/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/tenantry/tenantry/internal/spaces/rbac"
)

func newLister(t *testing.T, roles ...*rbacv1.ClusterRole) *spacedLister {
	t.Helper()
	indexer := cache.NewIndexer(cache.MetaNamespaceKeyFunc, clusterRoleIndexers)
	for _, role := range roles {
		if err := indexer.Add(role); err != nil {
			t.Fatal(err)
		}
	}
	return &spacedLister{ClusterRoleLister: rbaclisters.NewClusterRoleLister(indexer), indexer: indexer, debts: newDebts(1)}
}

func role(name string, labels map[string]string) *rbacv1.ClusterRole {
	return &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-of-" + strings.ReplaceAll(name, "|", "-")), Labels: labels}}
}

func aggregating(name string, selectors ...metav1.LabelSelector) *rbacv1.ClusterRole {
	r := role(name, nil)
	r.AggregationRule = &rbacv1.AggregationRule{ClusterRoleSelectors: selectors}
	return r
}

// withRules gives a role rules, which those of its name have.
func withRules(r *rbacv1.ClusterRole, name string, count int) *rbacv1.ClusterRole {
	for i := range count {
		r.Rules = append(r.Rules, rbacv1.PolicyRule{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{fmt.Sprintf("%s-%d", name, i)}})
	}
	return r
}

// aRuleOf returns a role with many rules that have nothing to compare.
func aRuleOf(name string, labels map[string]string, count int) *rbacv1.ClusterRole {
	r := role(name, labels)
	for i := range count {
		r.Rules = append(r.Rules, rbacv1.PolicyRule{Verbs: []string{fmt.Sprint(i)}})
	}
	return r
}

// controllerSees returns the roles that the aggregation controller would take rules from,
// and how many selectors it is shown.
func controllerSees(t *testing.T, l *spacedLister, name string) (seen []*rbacv1.ClusterRole, selectors int) {
	t.Helper()
	r, err := l.Get(name)
	if err != nil {
		t.Fatal(err)
	}
	if r.AggregationRule == nil {
		return nil, 0
	}
	for i := range r.AggregationRule.ClusterRoleSelectors {
		selector, err := metav1.LabelSelectorAsSelector(&r.AggregationRule.ClusterRoleSelectors[i])
		if err != nil {
			t.Fatal(err)
		}
		roles, err := l.List(selector)
		if err != nil {
			t.Fatal(err)
		}
		seen = append(seen, roles...)
	}
	return seen, len(r.AggregationRule.ClusterRoleSelectors)
}

func TestAggregationStaysInItsSpace(t *testing.T) {
	part := map[string]string{"part": "yes"}
	byPart := metav1.LabelSelector{MatchLabels: part}
	l := newLister(t,
		aggregating("all", byPart), role("x", part),
		aggregating("a|all", byPart), role("a|x", part),
		aggregating("b|all", byPart), role("b|x", part), role("b|y", part),
		// attempts to name another space
		aggregating("b|label", metav1.LabelSelector{MatchLabels: map[string]string{"part": "yes", spaceLabel: "a"}}),
		aggregating("b|expression", metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
			{Key: spaceLabel, Operator: metav1.LabelSelectorOpIn, Values: []string{"a"}},
		}}),
		role("b|labelled", map[string]string{spaceLabel: "a", "part": "yes"}),
		aggregating("b|defaults", metav1.LabelSelector{MatchLabels: map[string]string{"rbac.authorization.k8s.io/aggregate-to-view": "true"}}),
	)
	for _, r := range l.indexer.List() {
		if r := r.(*rbacv1.ClusterRole); r.AggregationRule == nil {
			withRules(r, r.Name, 1)
		}
	}
	for name, want := range map[string][]string{
		"all":          {"x-0"},
		"a|all":        {"a|x-0"},
		"b|all":        {"b|labelled-0", "b|x-0", "b|y-0"},
		"b|label":      {"b|labelled-0"}, // an ordinary label of its own space
		"b|expression": {"b|labelled-0"},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			roles, _ := controllerSees(t, l, name)
			for _, role := range roles {
				for _, rule := range role.Rules {
					got = append(got, rule.Resources...)
				}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("aggregated rules (-want +got):\n%s", diff)
			}
		})
	}
	t.Run("default roles", func(t *testing.T) {
		roles, _ := controllerSees(t, l, "b|defaults")
		want := rbac.DefaultClusterRoles()["view"].Rules
		if len(roles) != 1 || cmp.Diff(want, roles[0].Rules) != "" {
			t.Errorf("%v, want the rules of view", roles)
		}
	})
}

// TestAggregationIsShort checks how many rules the controller compares with each other.
func TestAggregationIsShort(t *testing.T) {
	part := map[string]string{"part": "yes"}
	byPart, byOther := metav1.LabelSelector{MatchLabels: part}, metav1.LabelSelector{MatchLabels: map[string]string{"part": "other"}}
	existing := metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "part", Operator: metav1.LabelSelectorOpExists}}}
	long := withRules(role("a|x", part), "x", 200)
	long.Rules[0].ResourceNames = make([]string, 50_000)
	full := withRules(aggregating("a|all", byPart), "x", 10)
	var many, equal []*rbacv1.ClusterRole
	for i := range 80 {
		many = append(many, withRules(aggregating(fmt.Sprintf("a|other-%d", i), byOther), "y", 700))
		equal = append(equal, withRules(role(fmt.Sprintf("a|equal-%d", i), part), "x", 300))
	}
	for name, tc := range map[string]struct {
		role   *rbacv1.ClusterRole
		others []*rbacv1.ClusterRole
		// rules is how many the controller sees.
		rules int
	}{
		"equal selectors":          {role: aggregating("a|all", slices.Repeat([]metav1.LabelSelector{byPart}, 10_000)...), others: []*rbacv1.ClusterRole{withRules(role("a|x", part), "x", 10)}, rules: 10},
		"selectors of equal roles": {role: aggregating("a|all", byPart, existing), others: []*rbacv1.ClusterRole{withRules(role("a|x", part), "x", 10)}, rules: 10},
		"equal rules":              {role: aggregating("a|all", existing), others: []*rbacv1.ClusterRole{withRules(role("a|x", part), "x", 10), withRules(role("a|y", part), "x", 11)}, rules: 11},
		"nothing new":              {role: full, others: []*rbacv1.ClusterRole{withRules(role("a|x", part), "x", 10)}},
		"most rules":               {role: aggregating("a|all", byPart), others: []*rbacv1.ClusterRole{withRules(role("a|x", part), "x", 700)}, rules: 700},
		"too many rules":           {role: aggregating("a|all", byPart), others: []*rbacv1.ClusterRole{role("a|x", part), aRuleOf("a|y", part, maxAggregatedRules+1)}},
		"too many equal rules":     {role: aggregating("a|all", byPart), others: equal},
		"rules that are too long":  {role: aggregating("a|all", byPart), others: []*rbacv1.ClusterRole{long}},
		"too many such roles":      {role: aggregating("a|all", byPart), others: slices.Concat(many, []*rbacv1.ClusterRole{withRules(role("a|x", part), "x", 10)})},
		"those of another space":   {role: aggregating("b|all", byPart), others: slices.Concat(many, []*rbacv1.ClusterRole{withRules(role("b|x", part), "x", 10)}), rules: 10},
		"the system space":         {role: aggregating("all", byPart), others: []*rbacv1.ClusterRole{withRules(role("x", part), "x", 2*maxAggregatedRules)}, rules: 2 * maxAggregatedRules},
	} {
		t.Run(name, func(t *testing.T) {
			roles, selectors := controllerSees(t, newLister(t, slices.Concat(tc.others, []*rbacv1.ClusterRole{tc.role})...), tc.role.Name)
			rules := 0
			for _, role := range roles {
				rules += len(role.Rules)
			}
			if rules != tc.rules || selectors > 1 {
				t.Errorf("%d rules by %d selectors, want %d by at most one", rules, selectors, tc.rules)
			}
		})
	}
}

// TestAggregationWakesItsSpace checks which roles a change makes the controller
// look at.
func TestAggregationWakesItsSpace(t *testing.T) {
	l := newLister(t, aggregating("all"), aggregating("a|all"), role("a|x", nil), aggregating("b|all"))
	for _, tc := range []struct {
		changed any
		want    string
	}{
		{role("a|x", nil), "a|all"},
		{role("x", nil), "all"},
		{cache.DeletedFinalStateUnknown{Key: "b|x", Obj: role("b|x", nil)}, "b|all"},
	} {
		l.changed(tc.changed)
		roles, err := l.List(labels.Everything())
		if err != nil {
			t.Fatal(err)
		}
		if len(roles) != 1 || roles[0].Name != tc.want {
			t.Errorf("change of %v: got %v, want %s", tc.changed, roles, tc.want)
		}
	}
}

// TestAggregationWakesWithoutLookingAtAll checks that the handler of all spaces looks at the
// aggregating roles of a space alone when one of its roles changes, by the number of roles.
func TestAggregationWakesWithoutLookingAtAll(t *testing.T) {
	roles := []*rbacv1.ClusterRole{aggregating("a|all")}
	for n := range 100 {
		roles = append(roles, role(fmt.Sprintf("a|%d", n), nil))
	}
	l := newLister(t, roles...)
	counted := &countingIndexer{Indexer: l.indexer}
	l.indexer = counted
	for _, role := range roles {
		l.changed(role)
		if woken, err := l.List(labels.Everything()); err != nil || len(woken) != 1 {
			t.Fatalf("%d roles are woken, %v", len(woken), err)
		}
	}
	if counted.objects > len(roles) {
		t.Errorf("%d changes looked at %d roles", len(roles), counted.objects)
	}
}

// countingIndexer counts what it answers.
type countingIndexer struct {
	cache.Indexer
	objects int
}

func (i *countingIndexer) ByIndex(name, value string) ([]any, error) {
	objects, err := i.Indexer.ByIndex(name, value)
	i.objects += len(objects)
	return objects, err
}

// TestAggregationTakesTurns checks that a role is not compared when it is not its tenant's turn.
func TestAggregationTakesTurns(t *testing.T) {
	part := map[string]string{"part": "yes"}
	l := newLister(t, aggregating("a|all", metav1.LabelSelector{MatchLabels: part}), withRules(role("a|x", part), "x", 1))
	if err := l.debts.take("a", time.Hour); err != nil {
		t.Fatal(err)
	}
	if shown, err := l.Get("a|all"); err == nil {
		t.Errorf("%v is shown", shown)
	}
}

// TestAggregationCountsWhatItLooksAt checks that a tenant is charged for roles in which nothing
// changes, too.
func TestAggregationCountsWhatItLooksAt(t *testing.T) {
	l := newLister(t, aggregating("a|all", metav1.LabelSelector{MatchLabels: map[string]string{"part": "yes"}}), aggregating("all"))
	for _, name := range []string{"a|all", "all"} {
		if _, err := l.Get(name); err != nil {
			t.Fatal(err)
		}
	}
	if _, charged := l.debts.until["a"]; !charged || len(l.debts.until) != 1 {
		t.Errorf("charged: %v", l.debts.until)
	}
}
