package rbac

import (
	"context"
	"fmt"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/kubernetes/pkg/registry/rbac/validation"

	"github.com/tenantry/tenantry/internal/tenant"
)

// NewFollowed returns an index that its caller tells of objects by Set, and not informers. It is for
// those who must know at which revision an answer is one. labelsOf returns the labels of a Tenant.
func NewFollowed(labelsOf func(n tenant.Name) labels.Set) *Index { return newIndex(labelsOf) }

// Set tells the index of a new version of an object of the flattened view, or that the object has
// gone. It is called by one goroutine, with objects that nobody changes.
func (i *Index) Set(obj runtime.Object, deleted bool) error {
	switch obj := obj.(type) {
	case *rbacv1.Role:
		i.setRole(obj, deleted)
	case *rbacv1.RoleBinding:
		i.setRoleBinding(obj, deleted)
	case *rbacv1.ClusterRole:
		i.setClusterRole(obj, deleted)
	case *rbacv1.ClusterRoleBinding:
		i.setClusterRoleBinding(obj, deleted)
	default:
		return fmt.Errorf("unexpected object %T", obj)
	}
	return nil
}

// Parts resolve the rules of a user by where they hold, for who asks about all namespaces of a
// space: those of the whole space are not visited again for each.
type Parts struct {
	whole, namespace Rules
}

// NewParts returns the rules of an index.
func NewParts(i *Index) Parts {
	return Parts{
		whole:     NewRules(i, nil),
		namespace: Rules{space: validation.NewDefaultRuleResolver(i, RoleBindings{i}, i, noBindings{}), platform: noRulesAtAll{}},
	}
}

// VisitWhole calls visitor with the rules of a user that hold in the whole space of ctx.
func (p Parts) VisitWhole(ctx context.Context, u user.Info, visitor func(source fmt.Stringer, rule *rbacv1.PolicyRule, err error) bool) {
	p.whole.VisitRulesFor(ctx, u, "", visitor)
}

// VisitNamespace calls visitor with the rules of a user that hold in a namespace of the space of ctx
// alone.
func (p Parts) VisitNamespace(ctx context.Context, u user.Info, namespace string, visitor func(source fmt.Stringer, rule *rbacv1.PolicyRule, err error) bool) {
	p.namespace.VisitRulesFor(ctx, u, namespace, visitor)
}

// noBindings are none.
type noBindings struct{}

// ListClusterRoleBindings implements validation.ClusterRoleBindingLister.
func (noBindings) ListClusterRoleBindings(context.Context) ([]*rbacv1.ClusterRoleBinding, error) {
	return nil, nil
}

// noRulesAtAll are those of system users in the namespaces of tenants' spaces.
type noRulesAtAll struct {
	validation.AuthorizationRuleResolver
}

// VisitRulesFor implements validation.AuthorizationRuleResolver.
func (noRulesAtAll) VisitRulesFor(context.Context, user.Info, string, func(fmt.Stringer, *rbacv1.PolicyRule, error) bool) {
}
