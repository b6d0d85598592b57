package kubecontrollers

import (
	"context"
	"fmt"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	rbacinformers "k8s.io/client-go/informers/rbac/v1"
	rbaclisters "k8s.io/client-go/listers/rbac/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/kubernetes/pkg/controller/clusterroleaggregation"

	"github.com/tenantry/tenantry/internal/spaces/rbac"
	"github.com/tenantry/tenantry/internal/tenant"
)

// Upstream's aggregation controller selects ClusterRoles by label in the whole
// cluster. Offered the flattened view as it is, it would add the rules of one
// tenant's roles to another's, and to the platform's. So it is offered an
// informer that keeps spaces apart:
//
//   - an aggregating role is shown with selectors that also require a label with
//     the name of its space;
//   - a list by such a selector is answered from the roles of that space, and the
//     default roles that hold in it; a list by any other selector is of the
//     aggregating roles of the space whose role has just changed.

// spaceLabel is required by the selectors of aggregating roles. Whether a stored
// object has it plays no part.
const spaceLabel = "tenantry.io/space-of-aggregation"

// bySpace is the index of ClusterRoles by their space.
const bySpace = "space"

func newClusterRoleAggregation(_ context.Context, e *environment) (runner, error) {
	shared := e.informers.Rbac().V1().ClusterRoles()
	if err := shared.Informer().AddIndexers(cache.Indexers{bySpace: indexBySpace}); err != nil {
		return nil, fmt.Errorf("indexing ClusterRoles: %w", err)
	}
	return clusterroleaggregation.NewClusterRoleAggregation(newSpacedClusterRoles(shared), knownClusterRoles{e.client.RbacV1(), shared.Lister()}), nil
}

func indexBySpace(obj any) ([]string, error) {
	role, ok := obj.(*rbacv1.ClusterRole)
	if !ok {
		return nil, fmt.Errorf("indexing a %T as a ClusterRole", obj)
	}
	space := tenant.Flat(role.Name).Space()
	return []string{string(space)}, nil
}

// spacedClusterRoles is the informer offered to the aggregation controller.
type spacedClusterRoles struct {
	informer spacedInformer
	lister   *spacedLister
}

func newSpacedClusterRoles(shared rbacinformers.ClusterRoleInformer) rbacinformers.ClusterRoleInformer {
	lister := &spacedLister{ClusterRoleLister: shared.Lister(), indexer: shared.Informer().GetIndexer()}
	return spacedClusterRoles{spacedInformer{shared.Informer(), lister}, lister}
}

func (s spacedClusterRoles) Informer() cache.SharedIndexInformer   { return s.informer }
func (s spacedClusterRoles) Lister() rbaclisters.ClusterRoleLister { return s.lister }

// spacedInformer tells the lister which space's role a handler is called for.
type spacedInformer struct {
	cache.SharedIndexInformer
	lister *spacedLister
}

func (s spacedInformer) AddEventHandler(handler cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	return s.SharedIndexInformer.AddEventHandler(cache.ResourceEventHandlerDetailedFuncs{
		AddFunc: func(obj any, initial bool) {
			s.lister.changed(obj)
			handler.OnAdd(obj, initial)
		},
		UpdateFunc: func(old, obj any) {
			s.lister.changed(obj)
			handler.OnUpdate(old, obj)
		},
		DeleteFunc: func(obj any) {
			s.lister.changed(obj)
			handler.OnDelete(obj)
		},
	})
}

// spacedLister lists the ClusterRoles of one space.
type spacedLister struct {
	rbaclisters.ClusterRoleLister
	indexer cache.Indexer
	// current is the space of the role that the handler is called for. Handlers
	// are called one after another, and only they list without a space.
	current tenant.Name
}

func (l *spacedLister) changed(obj any) {
	if role, ok := lastKnown(obj).(*rbacv1.ClusterRole); ok {
		l.current = tenant.Flat(role.Name).Space()
	}
}

// Get returns an aggregating role with selectors bound to its space.
func (l *spacedLister) Get(name string) (*rbacv1.ClusterRole, error) {
	role, err := l.ClusterRoleLister.Get(name)
	if err != nil || role.AggregationRule == nil {
		return role, err
	}
	space := tenant.Flat(name).Space()
	role = role.DeepCopy()
	role.AggregationRule.ClusterRoleSelectors = boundTo(space, role.AggregationRule.ClusterRoleSelectors)
	return role, nil
}

// boundTo returns selectors that require a space. One that mentions the space's
// label itself selects nothing.
func boundTo(space tenant.Name, selectors []metav1.LabelSelector) []metav1.LabelSelector {
	var bound []metav1.LabelSelector
	for _, selector := range selectors {
		mentions := func(r metav1.LabelSelectorRequirement) bool { return r.Key == spaceLabel }
		if _, ok := selector.MatchLabels[spaceLabel]; ok || slices.ContainsFunc(selector.MatchExpressions, mentions) {
			continue
		}
		if selector.MatchLabels == nil {
			selector.MatchLabels = map[string]string{}
		}
		selector.MatchLabels[spaceLabel] = string(space)
		bound = append(bound, selector)
	}
	return bound
}

// List answers a selector of an aggregating role from the roles of its space,
// and any other with the aggregating roles of the current space.
func (l *spacedLister) List(selector labels.Selector) ([]*rbacv1.ClusterRole, error) {
	space, bound := selector.RequiresExactMatch(spaceLabel)
	if !bound {
		return l.filtered(l.current, func(role *rbacv1.ClusterRole) bool { return role.AggregationRule != nil })
	}
	own := map[string]bool{}
	roles, err := l.filtered(tenant.Name(space), func(role *rbacv1.ClusterRole) bool {
		name := tenant.Flat(role.Name).Plain()
		own[name] = true
		return selects(selector, space, role)
	})
	if err != nil || tenant.Name(space) == tenant.System {
		return roles, err
	}
	for name, role := range rbac.DefaultClusterRoles() {
		if !own[name] && selects(selector, space, role) {
			roles = append(roles, role)
		}
	}
	return roles, nil
}

func selects(selector labels.Selector, space string, role *rbacv1.ClusterRole) bool {
	return selector.Matches(labels.Merge(role.Labels, labels.Set{spaceLabel: space}))
}

func (l *spacedLister) filtered(space tenant.Name, keep func(*rbacv1.ClusterRole) bool) ([]*rbacv1.ClusterRole, error) {
	objects, err := l.indexer.ByIndex(bySpace, string(space))
	if err != nil {
		return nil, fmt.Errorf("listing the ClusterRoles of space %q: %w", space, err)
	}
	var roles []*rbacv1.ClusterRole
	for _, obj := range objects {
		if role := obj.(*rbacv1.ClusterRole); keep(role) {
			roles = append(roles, role)
		}
	}
	return roles, nil
}
