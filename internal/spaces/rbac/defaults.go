package rbac

import (
	"maps"
	"slices"
	"sync"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/kubernetes/plugin/pkg/auth/authorizer/rbac/bootstrappolicy"
	"k8s.io/metrics/pkg/apis/metrics"

	"github.com/tenantry/tenantry/api/v1alpha1"
	"github.com/tenantry/tenantry/internal/tenant"
)

// userBindings are the default ClusterRoleBindings for ordinary users, which hold in
// every space.
var userBindings = []string{
	"system:basic-user",
	"system:discovery",
	"system:public-info-viewer",
	"system:service-account-issuer-discovery",
}

var defaultClusterRoleBindings = sync.OnceValue(func() []*rbacv1.ClusterRoleBinding {
	var bindings []*rbacv1.ClusterRoleBinding
	for _, binding := range bootstrappolicy.ClusterRoleBindings() {
		if slices.Contains(userBindings, binding.Name) {
			bindings = append(bindings, &binding)
		}
	}
	return slices.Clip(bindings)
})

// withDefaultBindings returns the ClusterRoleBindings that hold in a space: its own ones and, in a
// tenant's, the default ones of other names.
func withDefaultBindings(n tenant.Name, own []*rbacv1.ClusterRoleBinding) []*rbacv1.ClusterRoleBinding {
	if n == tenant.System {
		return own
	}
	bindings := own
	for _, binding := range defaultClusterRoleBindings() {
		if !slices.ContainsFunc(own, func(b *rbacv1.ClusterRoleBinding) bool { return b.Name == binding.Name }) {
			bindings = append(bindings, binding)
		}
	}
	return bindings
}

// metricsReader is the ClusterRole by which who may view pods may see what they use. It is called as that of
// metrics-server, which brings it to other clusters.
const metricsReader = "system:aggregated-metrics-reader"

// defaultClusterRoles are the ClusterRoles that hold in every space, with the
// rules of those that aggregate others.
var defaultClusterRoles = sync.OnceValue(func() map[string]*rbacv1.ClusterRole {
	roles := map[string]*rbacv1.ClusterRole{}
	for _, role := range bootstrappolicy.ClusterRoles() {
		roles[role.Name] = &role
	}
	roles[v1alpha1.NamespaceCreator] = &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.NamespaceCreator},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"namespaces"}, Verbs: []string{"create"}}},
	}
	roles[metricsReader] = &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: metricsReader, Labels: map[string]string{
			"rbac.authorization.k8s.io/aggregate-to-view": "true", "rbac.authorization.k8s.io/aggregate-to-edit": "true", "rbac.authorization.k8s.io/aggregate-to-admin": "true",
		}},
		Rules: []rbacv1.PolicyRule{{APIGroups: []string{metrics.GroupName}, Resources: []string{"pods"}, Verbs: []string{"get", "list"}}},
	}
	aggregateAll(roles, slices.Sorted(maps.Keys(aggregating())))
	return roles
})

// DefaultClusterRoles returns the ClusterRoles that hold in every space without
// being stored there, by name. They must not be changed.
func DefaultClusterRoles() map[string]*rbacv1.ClusterRole { return defaultClusterRoles() }

// affectsDefaults reports whether a ClusterRole of a space may change the rules of a
// default one.
func affectsDefaults(role *rbacv1.ClusterRole) bool {
	if _, shadows := defaultClusterRoles()[nameIn(role)]; shadows {
		return true
	}
	for name := range aggregating() {
		if selects(name, role) {
			return true
		}
	}
	return false
}

// aggregating are the selectors of the default ClusterRoles that aggregate others, by name.
var aggregating = sync.OnceValue(func() map[string][]labels.Selector {
	selectors := map[string][]labels.Selector{}
	for _, role := range bootstrappolicy.ClusterRoles() {
		if role.AggregationRule == nil {
			continue
		}
		for i := range role.AggregationRule.ClusterRoleSelectors {
			if selector, err := metav1.LabelSelectorAsSelector(&role.AggregationRule.ClusterRoleSelectors[i]); err == nil {
				selectors[role.Name] = append(selectors[role.Name], selector)
			}
		}
	}
	return selectors
})

// maxAggregatedWeight is how many ClusterRoles a space may have that change default ones, and strings in
// their rules, as Weight counts them. To aggregate these takes a tenth of a second, for which the
// requests of the space wait after each change.
const maxAggregatedWeight = 20_000

// aggregatedDefaults returns the default ClusterRoles whose rules differ in a space with these
// ClusterRoles. If they are too many, there are none.
func aggregatedDefaults(own []*rbacv1.ClusterRole) map[string]*rbacv1.ClusterRole {
	weight := float64(len(own))
	roles := maps.Clone(defaultClusterRoles())
	recomputed := slices.Sorted(maps.Keys(aggregating()))
	for _, role := range own {
		for i := range role.Rules {
			weight += Weight(&role.Rules[i])
		}
		if weight > maxAggregatedWeight {
			return nil
		}
		roles[nameIn(role)] = role
		recomputed = slices.DeleteFunc(recomputed, func(name string) bool { return name == nameIn(role) })
	}
	for _, name := range recomputed {
		roles[name] = new(*roles[name])
	}
	aggregateAll(roles, recomputed)
	changed := map[string]*rbacv1.ClusterRole{}
	for _, name := range recomputed {
		if !equality.Semantic.DeepEqual(roles[name].Rules, defaultClusterRoles()[name].Rules) {
			changed[name] = roles[name]
		}
	}
	return changed
}

// nameIn returns the name of a role in its own space.
func nameIn(role *rbacv1.ClusterRole) string { return tenant.Flat(role.Name).Plain() }

// aggregateAll sets the rules of the named roles, which aggregate others. They may
// aggregate each other (admin has edit, edit has view), so it repeats until nothing
// changes.
func aggregateAll(roles map[string]*rbacv1.ClusterRole, recomputed []string) {
	names := slices.Sorted(maps.Keys(roles))
	for range recomputed {
		changed := false
		for _, name := range recomputed {
			role := roles[name]
			rules := aggregatedRules(name, names, roles)
			if !equality.Semantic.DeepEqual(rules, role.Rules) {
				role.Rules, changed = rules, true
			}
		}
		if !changed {
			return
		}
	}
}

func aggregatedRules(aggregating string, names []string, roles map[string]*rbacv1.ClusterRole) []rbacv1.PolicyRule {
	var rules []rbacv1.PolicyRule
	known := map[string]bool{} // by encoding, because there may be very many rules
	for _, name := range names {
		other := roles[name]
		if name == aggregating || !selects(aggregating, other) {
			continue
		}
		for i := range other.Rules {
			encoded, err := other.Rules[i].Marshal()
			if err != nil || !known[string(encoded)] {
				rules = append(rules, other.Rules[i])
			}
			known[string(encoded)] = true
		}
	}
	return rules
}

// selects reports whether a default role that aggregates others selects one.
func selects(name string, other *rbacv1.ClusterRole) bool {
	return slices.ContainsFunc(aggregating()[name], func(selector labels.Selector) bool {
		return selector.Matches(labels.Set(other.Labels))
	})
}
