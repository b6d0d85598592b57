package spacepolicy

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/kubernetes/pkg/apis/rbac"

	"github.com/tenantry/tenantry/internal/tenant"
)

func TestCheckClusterRole(t *testing.T) {
	of := func(rules int, selectors ...metav1.LabelSelector) *rbac.ClusterRole {
		return &rbac.ClusterRole{Rules: make([]rbac.PolicyRule, rules), AggregationRule: &rbac.AggregationRule{ClusterRoleSelectors: selectors}}
	}
	selectors := func(count int) []metav1.LabelSelector { return make([]metav1.LabelSelector, count) }
	values := func(count int) metav1.LabelSelector {
		return metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}, MatchExpressions: []metav1.LabelSelectorRequirement{{Values: make([]string, count)}}}
	}
	const tooManyRules, tooManySelectors = "rules, and a ClusterRole in a space at most", "selectors, labels and values, and that of a ClusterRole in a space at most"
	for name, tc := range map[string]struct {
		object, old runtime.Object
		space       tenant.Name
		refused     string
	}{
		"most rules":         {object: of(maxRoleRules), space: "a"},
		"too many rules":     {object: of(maxRoleRules + 1), space: "a", refused: tooManyRules},
		"as many before":     {object: of(maxRoleRules + 1), old: of(maxRoleRules + 1), space: "a"},
		"most selectors":     {object: of(0, selectors(maxSelection)...), space: "a"},
		"too many selectors": {object: of(0, selectors(maxSelection+1)...), space: "a", refused: tooManySelectors},
		"most values":        {object: of(0, values(maxSelection-3)), space: "a"},
		"too many values":    {object: of(0, values(maxSelection-2)), space: "a", refused: tooManySelectors},
		"none before":        {object: of(0, values(maxSelection)), old: &rbac.ClusterRole{}, space: "a", refused: tooManySelectors},
		"the system space":   {object: of(maxRoleRules+1, selectors(maxSelection+1)...), space: tenant.System},
	} {
		t.Run(name, func(t *testing.T) {
			err := validated(t, tc.space, rbac.SchemeGroupVersion.WithKind("ClusterRole"), "clusterroles", tc.object, tc.old)
			switch {
			case tc.refused == "" && err != nil, tc.refused != "" && (err == nil || !strings.Contains(err.Error(), tc.refused)):
				t.Errorf("%v, want %q", err, tc.refused)
			}
		})
	}
}
