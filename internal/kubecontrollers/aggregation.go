package kubecontrollers

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/sets"
	rbacinformers "k8s.io/client-go/informers/rbac/v1"
	rbaclisters "k8s.io/client-go/listers/rbac/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/kubernetes/pkg/controller/clusterroleaggregation"

	"github.com/tenantry/tenantry/internal/objects"
	"github.com/tenantry/tenantry/internal/spaces/rbac"
	"github.com/tenantry/tenantry/internal/tenant"
)

// Upstream's aggregation controller selects ClusterRoles by label in the whole
// cluster. Offered the flattened view as it is, it would add the rules of one
// tenant's roles to another's, and to the platform's. So it is offered an
// informer that keeps spaces apart:
//
//   - an aggregating role is shown with one selector, of its space and UID, or
//     without any if there is nothing to change;
//   - a list by such a selector is one role with all rules that the role aggregates,
//     each once, from the roles of that space, and the default roles that hold in it;
//     a list by any other selector is of the aggregating roles of the space whose role
//     has just changed.
//
// The controller compares each rule with all others, for all aggregating roles of a
// space when one of its roles changes. So it is shown nothing that has it work for long.

// spaceLabel and roleLabel are required by the selector that an aggregating role is shown
// with. Whether a stored object has them plays no part.
const (
	spaceLabel = "tenantry.io/space-of-aggregation"
	roleLabel  = "tenantry.io/role-of-aggregation"
)

// The indexes of ClusterRoles by their space: of all, and of those alone that aggregate others, which
// the handler of all spaces looks for whenever any role changes.
const (
	bySpace            = "space"
	aggregatingBySpace = "aggregating-by-space"
)

var clusterRoleIndexers = cache.Indexers{
	bySpace:            indexBySpace(func(*rbacv1.ClusterRole) bool { return true }),
	aggregatingBySpace: indexBySpace(func(role *rbacv1.ClusterRole) bool { return role.AggregationRule != nil }),
}

func newClusterRoleAggregation(_ context.Context, e *environment) (runner, error) {
	shared := e.informers.Rbac().V1().ClusterRoles()
	if err := shared.Informer().AddIndexers(clusterRoleIndexers); err != nil {
		return nil, fmt.Errorf("indexing ClusterRoles: %w", err)
	}
	return clusterroleaggregation.NewClusterRoleAggregation(newSpacedClusterRoles(shared), knownClusterRoles{e.client.RbacV1(), shared.Lister()}), nil
}

func indexBySpace(indexed func(*rbacv1.ClusterRole) bool) cache.IndexFunc {
	return func(obj any) ([]string, error) {
		role, ok := obj.(*rbacv1.ClusterRole)
		if !ok {
			return nil, fmt.Errorf("indexing a %T as a ClusterRole", obj)
		}
		if !indexed(role) {
			return nil, nil
		}
		return []string{string(tenant.Flat(role.Name).Space())}, nil
	}
}

// newSpacedClusterRoles returns the informer offered to the aggregation controller.
func newSpacedClusterRoles(shared rbacinformers.ClusterRoleInformer) rbacinformers.ClusterRoleInformer {
	lister := &spacedLister{ClusterRoleLister: shared.Lister(), indexer: shared.Informer().GetIndexer(), debts: newDebts(1)}
	return offered[rbaclisters.ClusterRoleLister]{noting(shared.Informer(), lister.changed), lister}
}

// spacedLister lists the ClusterRoles of one space.
type spacedLister struct {
	rbaclisters.ClusterRoleLister
	indexer cache.Indexer
	// current is the space of the role that the handler is called for. Handlers
	// are called one after another, and only they list without a space.
	current tenant.Name
	debts   *debts
}

func (l *spacedLister) changed(obj any) {
	if role, ok := objects.LastKnown[*rbacv1.ClusterRole](obj); ok {
		l.current = tenant.Flat(role.Name).Space()
	}
}

// Get returns an aggregating role with one selector, or without if it has all rules that it
// can have. It is tried again later when it is not the turn of its tenant.
func (l *spacedLister) Get(name string) (*rbacv1.ClusterRole, error) {
	role, err := l.ClusterRoleLister.Get(name)
	if err != nil || role.AggregationRule == nil {
		return role, err
	}
	space := tenant.Flat(name).Space()
	if err := l.take(space, 0); err != nil {
		return nil, err
	}
	began := time.Now()
	rules, err := l.aggregated(role)
	if err != nil && !errors.Is(err, errAggregation) {
		return nil, err
	}
	shown := *role
	shown.AggregationRule = nil
	looked := time.Since(began) // also for what does not change, or is too much
	if err != nil || equality.Semantic.DeepEqual(rules, role.Rules) {
		return &shown, l.take(space, looked)
	}
	shown.AggregationRule = &rbacv1.AggregationRule{ClusterRoleSelectors: []metav1.LabelSelector{{MatchLabels: map[string]string{
		spaceLabel: string(space), roleLabel: string(role.UID),
	}}}}
	return &shown, l.take(space, looked+applyTime+time.Duration(comparisons(rules))*comparisonTime)
}

// take charges a tenant for work, and returns an error if it is not its turn.
func (l *spacedLister) take(space tenant.Name, took time.Duration) error {
	if !space.IsSpace() {
		return nil
	}
	return l.debts.take(space, took)
}

// List answers the selector of an aggregating role with all that it aggregates, and any
// other with the aggregating roles of the current space.
func (l *spacedLister) List(selector labels.Selector) ([]*rbacv1.ClusterRole, error) {
	space, bound := selector.RequiresExactMatch(spaceLabel)
	if !bound {
		return objects.Indexed[*rbacv1.ClusterRole](l.indexer, aggregatingBySpace, l.current.String())
	}
	uid, _ := selector.RequiresExactMatch(roleLabel)
	roles, err := objects.Indexed[*rbacv1.ClusterRole](l.indexer, aggregatingBySpace, space)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(roles, func(role *rbacv1.ClusterRole) bool { return string(role.UID) == uid })
	if i < 0 {
		return nil, fmt.Errorf("the ClusterRole with UID %q has just changed in space %q", uid, space)
	}
	rules, err := l.aggregated(roles[i])
	return []*rbacv1.ClusterRole{{Rules: rules}}, err
}

// errAggregation is of a role that adds up too much.
var errAggregation = errors.New("too much is aggregated")

// aggregated returns the rules that a role aggregates, each once.
func (l *spacedLister) aggregated(role *rbacv1.ClusterRole) ([]rbacv1.PolicyRule, error) {
	space := tenant.Flat(role.Name).Space()
	roles, err := objects.Indexed[*rbacv1.ClusterRole](l.indexer, bySpace, space.String())
	if err != nil {
		return nil, err
	}
	if space.IsSpace() {
		roles = withDefaults(roles)
		if isTooMuch(roles) {
			return nil, errAggregation
		}
	}
	selected, err := selectedBy(role, roles)
	if err != nil {
		return nil, err
	}
	rules, looked := []rbacv1.PolicyRule{}, 0
	known := sets.New[string]()
	for _, from := range selected {
		if looked += len(from.Rules); space.IsSpace() && looked > maxSelectedRules {
			return nil, errAggregation
		}
		for _, rule := range from.Rules {
			key, err := rule.Marshal()
			if err != nil {
				return nil, fmt.Errorf("comparing the rules of ClusterRole %q: %w", from.Name, err)
			}
			if !known.Has(string(key)) {
				known.Insert(string(key))
				rules = append(rules, rule)
			}
		}
	}
	if space.IsSpace() && (len(rules) > maxAggregatedRules || comparisons(rules) > maxRoleWork) {
		return nil, errAggregation
	}
	return rules, nil
}

// withDefaults adds the default roles that hold in a space with these roles.
func withDefaults(roles []*rbacv1.ClusterRole) []*rbacv1.ClusterRole {
	own := sets.New[string]()
	for _, role := range roles {
		own.Insert(tenant.Flat(role.Name).Plain())
	}
	for name, role := range rbac.DefaultClusterRoles() {
		if !own.Has(name) {
			roles = append(roles, role)
		}
	}
	return roles
}

// isTooMuch reports whether the aggregating roles of a space have together more to select
// and to compare than the controller gets to see.
func isTooMuch(roles []*rbacv1.ClusterRole) bool {
	work := 0
	for _, role := range roles {
		if role.AggregationRule != nil {
			work += len(role.AggregationRule.ClusterRoleSelectors)*len(roles) + comparisons(role.Rules)
		}
		if work > maxSpaceWork {
			return true
		}
	}
	return false
}

// comparisons is how many strings are compared when each rule is compared with all others.
func comparisons(rules []rbacv1.PolicyRule) int {
	elements := 0
	for i := range rules {
		r := &rules[i]
		elements += 1 + len(r.Verbs) + len(r.APIGroups) + len(r.Resources) + len(r.ResourceNames) + len(r.NonResourceURLs)
	}
	return len(rules) * elements
}

// selectedBy returns the roles that an aggregating role selects, each once, in the order in
// which the controller takes rules from them.
func selectedBy(role *rbacv1.ClusterRole, roles []*rbacv1.ClusterRole) (selected []*rbacv1.ClusterRole, _ error) {
	known := sets.New[string]()
	for i := range role.AggregationRule.ClusterRoleSelectors {
		selector, err := metav1.LabelSelectorAsSelector(&role.AggregationRule.ClusterRoleSelectors[i])
		if err != nil {
			return nil, fmt.Errorf("reading the selectors of ClusterRole %q: %w", role.Name, err)
		}
		if known.Has(selector.String()) {
			continue
		}
		known.Insert(selector.String())
		var by, others []*rbacv1.ClusterRole
		for _, other := range roles {
			switch {
			case other.Name == role.Name:
			case selector.Matches(labels.Set(other.Labels)):
				by = append(by, other)
			default:
				others = append(others, other)
			}
		}
		slices.SortFunc(by, func(a, b *rbacv1.ClusterRole) int { return strings.Compare(a.Name, b.Name) })
		selected, roles = append(selected, by...), others
	}
	return selected, nil
}
