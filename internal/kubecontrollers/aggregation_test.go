package kubecontrollers

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	rbaclisters "k8s.io/client-go/listers/rbac/v1"
	"k8s.io/client-go/tools/cache"
)

func newLister(t *testing.T, roles ...*rbacv1.ClusterRole) *spacedLister {
	t.Helper()
	indexer := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{bySpace: indexBySpace})
	for _, role := range roles {
		if err := indexer.Add(role); err != nil {
			t.Fatal(err)
		}
	}
	return &spacedLister{ClusterRoleLister: rbaclisters.NewClusterRoleLister(indexer), indexer: indexer}
}

func role(name string, labels map[string]string) *rbacv1.ClusterRole {
	return &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}
}

func aggregating(name string, selectors ...metav1.LabelSelector) *rbacv1.ClusterRole {
	r := role(name, nil)
	r.AggregationRule = &rbacv1.AggregationRule{ClusterRoleSelectors: selectors}
	return r
}

// selected returns the names of the roles that the aggregation controller would
// take rules from.
func selected(t *testing.T, l *spacedLister, name string) []string {
	t.Helper()
	r, err := l.Get(name)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for i := range r.AggregationRule.ClusterRoleSelectors {
		selector, err := metav1.LabelSelectorAsSelector(&r.AggregationRule.ClusterRoleSelectors[i])
		if err != nil {
			t.Fatal(err)
		}
		roles, err := l.List(selector)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range roles {
			names = append(names, r.Name)
		}
	}
	slices.Sort(names)
	return names
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
	for name, want := range map[string][]string{
		"all":          {"x"},
		"a|all":        {"a|x"},
		"b|all":        {"b|labelled", "b|x", "b|y"},
		"b|label":      nil,
		"b|expression": nil,
		"b|defaults":   {"system:aggregate-to-view"},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(want, selected(t, l, name)); diff != "" {
				t.Errorf("selected roles (-want +got):\n%s", diff)
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
