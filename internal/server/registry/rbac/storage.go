package rbac

import (
	"context"
	"fmt"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/kubernetes/pkg/registry/rbac/clusterrole"
	clusterrolepolicy "k8s.io/kubernetes/pkg/registry/rbac/clusterrole/policybased"
	clusterrolestorage "k8s.io/kubernetes/pkg/registry/rbac/clusterrole/storage"
	"k8s.io/kubernetes/pkg/registry/rbac/clusterrolebinding"
	clusterrolebindingpolicy "k8s.io/kubernetes/pkg/registry/rbac/clusterrolebinding/policybased"
	clusterrolebindingstorage "k8s.io/kubernetes/pkg/registry/rbac/clusterrolebinding/storage"
	"k8s.io/kubernetes/pkg/registry/rbac/role"
	rolepolicy "k8s.io/kubernetes/pkg/registry/rbac/role/policybased"
	rolestorage "k8s.io/kubernetes/pkg/registry/rbac/role/storage"
	"k8s.io/kubernetes/pkg/registry/rbac/rolebinding"
	rolebindingpolicy "k8s.io/kubernetes/pkg/registry/rbac/rolebinding/policybased"
	rolebindingstorage "k8s.io/kubernetes/pkg/registry/rbac/rolebinding/storage"
	"k8s.io/kubernetes/pkg/registry/rbac/validation"

	"github.com/tenantry/tenantry/internal/follow"
	"github.com/tenantry/tenantry/internal/progress"
	"github.com/tenantry/tenantry/internal/spaces/rbac"
	"github.com/tenantry/tenantry/internal/tenant"
)

// Wrap replaces upstream's storages of RBAC objects, by resource, with those of
// this package. rights are the rights of users in their spaces.
func Wrap(storages map[string]rest.Storage, a authorizer.UnconditionalAuthorizer, rights *rbac.Authorizer) error {
	roles, isRoles := storages["roles"].(*rolepolicy.Storage)
	roleBindings, isRoleBindings := storages["rolebindings"].(*rolebindingpolicy.Storage)
	clusterRoles, isClusterRoles := storages["clusterroles"].(*clusterrolepolicy.Storage)
	clusterRoleBindings, isClusterRoleBindings := storages["clusterrolebindings"].(*clusterrolebindingpolicy.Storage)
	if !isRoles || !isRoleBindings || !isClusterRoles || !isClusterRoleBindings {
		return fmt.Errorf("unexpected storage of RBAC objects: %T, %T, %T, %T",
			storages["roles"], storages["rolebindings"], storages["clusterroles"], storages["clusterrolebindings"])
	}
	seen := &rights.Index.Seen
	for storage, seen := range map[rest.StandardStorage]*progress.Progress{
		roles.StandardStorage: &seen.Roles, roleBindings.StandardStorage: &seen.RoleBindings,
		clusterRoles.StandardStorage: &seen.ClusterRoles, clusterRoleBindings.StandardStorage: &seen.ClusterRoleBindings,
	} {
		if err := await(storage, seen); err != nil {
			return err
		}
	}
	// Like upstream's, the checks read stored objects, which may be newer than
	// those of the authorizer.
	getRole := role.AuthorizerAdapter{Registry: role.NewRegistry(roles.StandardStorage)}
	listRoleBindings := rolebinding.AuthorizerAdapter{Registry: rolebinding.NewRegistry(roleBindings.StandardStorage)}
	getClusterRole := clusterrole.AuthorizerAdapter{Registry: clusterrole.NewRegistry(clusterRoles.StandardStorage)}
	listClusterRoleBindings := clusterrolebinding.AuthorizerAdapter{Registry: clusterrolebinding.NewRegistry(clusterRoleBindings.StandardStorage)}
	rules := resolver{
		Rules: rbac.NewRules(rights.Index, validation.NewDefaultRuleResolver(
			getRole, rbac.RoleBindings{RoleBindingLister: listRoleBindings}, holding{getClusterRole},
			rbac.ClusterRoleBindings{ClusterRoleBindingLister: listClusterRoleBindings})),
		references:   validation.NewDefaultRuleResolver(getRole, listRoleBindings, getClusterRole, listClusterRoleBindings),
		clusterRoles: getClusterRole,
	}
	storages["roles"] = &Roles{rolepolicy.NewStorage(roles.StandardStorage, a, rules), broad{a, rules, "roles"}}
	storages["rolebindings"] = rolebindingpolicy.NewStorage(roleBindings.StandardStorage, a, rules)
	storages["clusterroles"] = &ClusterRoles{clusterrolepolicy.NewStorage(clusterRoles.StandardStorage, a, rules), a, broad{a, rules, "clusterroles"}}
	storages["clusterrolebindings"] = clusterrolebindingpolicy.NewStorage(clusterRoleBindings.StandardStorage, a, rules)
	return nil
}

// await makes writers wait until the authorizer has what they have written.
func await(storage rest.StandardStorage, seen *progress.Progress) error {
	switch storage := storage.(type) {
	case *rolestorage.REST:
		follow.Await(storage.Store, seen)
	case *rolebindingstorage.REST:
		follow.Await(storage.Store, seen)
	case *clusterrolestorage.REST:
		follow.Await(storage.Store, seen)
	case *clusterrolebindingstorage.REST:
		follow.Await(storage.Store, seen)
	default:
		return fmt.Errorf("unexpected storage %T", storage)
	}
	return nil
}

// resolver resolves rules for upstream's checks of escalation.
type resolver struct {
	rbac.Rules
	references   validation.AuthorizationRuleResolver
	clusterRoles validation.ClusterRoleGetter
}

// GetRoleReferenceRules returns the rules of the role of a binding. It is called for
// users without the verb bind, whose bindings must not grant rights in tenants'
// spaces: rights in the system space are not rights there.
func (r resolver) GetRoleReferenceRules(ctx context.Context, ref rbacv1.RoleRef, namespace string) ([]rbacv1.PolicyRule, error) {
	n, err := tenant.SpaceFrom(ctx)
	if err != nil {
		return nil, err
	}
	if n == tenant.System && namespace == "" && ref.Kind == "ClusterRole" {
		role, err := r.clusterRoles.GetClusterRole(ctx, ref.Name)
		if err != nil {
			return nil, err
		}
		if scope, err := rbac.ScopeOf(role.Annotations); err != nil || scope.Tenanted() {
			return nil, apierrors.NewForbidden(rbacv1.Resource("clusterrolebindings"), "", fmt.Errorf(
				"ClusterRole %q holds in tenants' spaces (annotation %s); binding it needs the verb bind on it", ref.Name, tenant.ScopeAnnotation))
		}
	}
	rules, err := r.references.GetRoleReferenceRules(ctx, ref, namespace)
	if err != nil {
		return nil, err
	}
	return rules, checkBreadth(ctx, r.Rules, rules, namespace)
}

// holding returns ClusterRoles as they hold in the space of the context.
type holding struct{ validation.ClusterRoleGetter }

// GetClusterRole implements validation.ClusterRoleGetter.
func (h holding) GetClusterRole(ctx context.Context, name string) (*rbacv1.ClusterRole, error) {
	role, err := h.ClusterRoleGetter.GetClusterRole(ctx, name)
	if err != nil {
		return nil, err
	}
	n, err := tenant.SpaceFrom(ctx)
	if err != nil {
		return nil, err
	}
	if n == tenant.System {
		if scope, err := rbac.ScopeOf(role.Annotations); err != nil || !scope.System {
			return &rbacv1.ClusterRole{}, nil
		}
	}
	return role, nil
}
