package rbac

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/registry/rest"
	upstream "k8s.io/kubernetes/pkg/apis/rbac"
	rbacregistry "k8s.io/kubernetes/pkg/registry/rbac"
	clusterrolepolicy "k8s.io/kubernetes/pkg/registry/rbac/clusterrole/policybased"

	"github.com/tenantry/tenantry/internal/spaces/rbac"
	"github.com/tenantry/tenantry/internal/tenant"
)

// ClusterRoles serves ClusterRoles. In the system space, the author of one that
// holds in tenants' spaces needs the verb escalate on it, because rights in the system
// space are not rights in those.
type ClusterRoles struct {
	*clusterrolepolicy.Storage
	authorizer authorizer.UnconditionalAuthorizer
	broad      broad
}

// Create implements rest.Creater.
func (s *ClusterRoles) Create(ctx context.Context, obj runtime.Object, validate rest.ValidateObjectFunc, options *metav1.CreateOptions) (runtime.Object, error) {
	if err := s.guard(ctx, obj.(*upstream.ClusterRole), &upstream.ClusterRole{}); err != nil {
		return nil, err
	}
	return s.Storage.Create(ctx, obj, validate, options)
}

// Update implements rest.Updater. It serves patches and server-side apply too.
func (s *ClusterRoles) Update(ctx context.Context, name string, info rest.UpdatedObjectInfo, create rest.ValidateObjectFunc,
	update rest.ValidateObjectUpdateFunc, forceAllowCreate bool, options *metav1.UpdateOptions) (runtime.Object, bool, error) {
	return s.Storage.Update(ctx, name, checkedUpdate(info, s.guard), create, update, forceAllowCreate, options)
}

func (s *ClusterRoles) guard(ctx context.Context, role, old *upstream.ClusterRole) error {
	if err := s.broad.check(ctx, role, role.Rules); err != nil {
		return err
	}
	n, err := tenant.SpaceFrom(ctx)
	if err != nil {
		return err
	}
	if n != tenant.System {
		return nil // the annotations have no effect there
	}
	annotations := field.NewPath("metadata", "annotations")
	scope, err := rbac.ScopeOf(role.Annotations)
	if err == nil {
		err = rbac.ValidateAnnotations(role.Annotations, old.Annotations)
	}
	if err != nil {
		return apierrors.NewInvalid(upstream.Kind("ClusterRole"), role.Name,
			field.ErrorList{field.Invalid(annotations, role.Annotations[tenant.ScopeAnnotation], err.Error())})
	}
	if before, err := rbac.ScopeOf(old.Annotations); err == nil && !before.Tenanted() && !scope.Tenanted() {
		return nil
	}
	if scope.Tenanted() && role.AggregationRule != nil {
		return apierrors.NewInvalid(upstream.Kind("ClusterRole"), role.Name, field.ErrorList{field.Forbidden(annotations,
			"a ClusterRole that aggregates others cannot hold in tenants' spaces, because whoever writes one of those would give rights there; list its rules")})
	}
	if rbacregistry.EscalationAllowed(ctx) || rbacregistry.RoleEscalationAuthorized(ctx, s.authorizer) {
		return nil
	}
	return apierrors.NewForbidden(upstream.Resource("clusterroles"), role.Name, fmt.Errorf(
		"it holds in tenants' spaces (annotation %s); writing it needs the verb escalate on it", tenant.ScopeAnnotation))
}

var _ rest.StandardStorage = &ClusterRoles{}
