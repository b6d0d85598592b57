package spacepolicy

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/kubernetes/pkg/apis/rbac"
)

// The most rules of a ClusterRole in a space, and the most that selects those it aggregates.
// Upstream's aggregation controller compares each rule with all others.
const (
	maxRoleRules = 1_000
	maxSelection = 100
)

// checkClusterRole refuses ClusterRoles with very many rules or selectors. One that had as
// many before can be changed.
func checkClusterRole(a admission.Attributes) error {
	rules, selection := sizesOfRole(a.GetObject())
	rulesBefore, selectionBefore := sizesOfRole(a.GetOldObject())
	switch {
	case rules > max(maxRoleRules, rulesBefore):
		return forbidden(a, fmt.Sprintf("it has %d rules, and a ClusterRole in a space at most %d; make several ClusterRoles of it", rules, maxRoleRules))
	case selection > max(maxSelection, selectionBefore):
		return forbidden(a, fmt.Sprintf("its aggregationRule has %d selectors, labels and values, and that of a ClusterRole in a space at most %d; "+
			"give the ClusterRoles that it selects a label of their own", selection, maxSelection))
	default:
		return nil
	}
}

func sizesOfRole(obj runtime.Object) (rules, selection int) {
	role, ok := obj.(*rbac.ClusterRole)
	if !ok {
		return 0, 0
	}
	if role.AggregationRule != nil {
		for _, selector := range role.AggregationRule.ClusterRoleSelectors {
			selection += 1 + len(selector.MatchLabels) + len(selector.MatchExpressions)
			for _, expression := range selector.MatchExpressions {
				selection += len(expression.Values)
			}
		}
	}
	return len(role.Rules), selection
}
