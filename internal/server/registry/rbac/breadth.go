package rbac

import (
	"context"
	"fmt"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	kapihelper "k8s.io/kubernetes/pkg/apis/core/helper"
	upstream "k8s.io/kubernetes/pkg/apis/rbac"
	rbacv1helpers "k8s.io/kubernetes/pkg/apis/rbac/v1"
	rbacregistry "k8s.io/kubernetes/pkg/registry/rbac"
	rolepolicy "k8s.io/kubernetes/pkg/registry/rbac/role/policybased"
	"k8s.io/kubernetes/pkg/registry/rbac/validation"

	"github.com/tenantry/tenantry/internal/spaces/rbac"
)

const (
	// maxRights is how many single rights, each a verb on a resource of a group, are
	// compared with a user's: upstream makes a rule of each.
	maxRights = 100_000
	// maxComparisons is how many comparisons of a single right with a string of a rule are made,
	// which takes two or three seconds.
	maxComparisons = 25_000_000
)

// checkBreadth returns an error if it would take too long to find out whether the user
// of ctx has all rights in rules.
func checkBreadth(ctx context.Context, resolver validation.AuthorizationRuleResolver, rules []rbacv1.PolicyRule, namespace string) error {
	rights := rbac.CountRights(rules...)
	if rights <= maxRights {
		u, ok := request.UserFrom(ctx)
		if !ok {
			return fmt.Errorf("no user on context")
		}
		comparisons := 0.0
		resolver.VisitRulesFor(ctx, u, namespace, func(_ fmt.Stringer, rule *rbacv1.PolicyRule, _ error) bool {
			if rule != nil { // the check itself reports errors
				comparisons += rights * rbac.Weight(rule)
			}
			return comparisons <= maxComparisons && ctx.Err() == nil
		})
		if err := ctx.Err(); err != nil || comparisons <= maxComparisons {
			return err
		}
	}
	return fmt.Errorf("its rules have %.0f combinations of verb, group, resource and name, which are too many to compare with yours; "+
		"use \"*\" or several roles, or ask somebody with the verb escalate (for a binding: bind) on it", rights)
}

// Roles serves Roles. It refuses those that take too long to check for escalation.
type Roles struct {
	*rolepolicy.Storage
	broad broad
}

// broad refuses roles with too many rights, unless the user may escalate.
type broad struct {
	authorizer authorizer.UnconditionalAuthorizer
	rules      validation.AuthorizationRuleResolver
	resource   string
}

func (b broad) check(ctx context.Context, role metav1.Object, internal []upstream.PolicyRule) error {
	if rbacregistry.EscalationAllowed(ctx) || rbacregistry.RoleEscalationAuthorized(ctx, b.authorizer) {
		return nil // upstream compares no rights
	}
	rules := make([]rbacv1.PolicyRule, len(internal))
	for i := range internal {
		if err := rbacv1helpers.Convert_rbac_PolicyRule_To_v1_PolicyRule(&internal[i], &rules[i], nil); err != nil {
			return apierrors.NewInternalError(err)
		}
	}
	namespace, _ := request.NamespaceFrom(ctx)
	if err := checkBreadth(ctx, b.rules, rules, namespace); err != nil {
		return apierrors.NewForbidden(upstream.Resource(b.resource), role.GetName(), err)
	}
	return nil
}

// Create implements rest.Creater.
func (s *Roles) Create(ctx context.Context, obj runtime.Object, validate rest.ValidateObjectFunc, options *metav1.CreateOptions) (runtime.Object, error) {
	role := obj.(*upstream.Role)
	if err := s.broad.check(ctx, role, role.Rules); err != nil {
		return nil, err
	}
	return s.Storage.Create(ctx, obj, validate, options)
}

// Update implements rest.Updater. It serves patches and server-side apply too.
func (s *Roles) Update(ctx context.Context, name string, info rest.UpdatedObjectInfo, create rest.ValidateObjectFunc,
	update rest.ValidateObjectUpdateFunc, forceAllowCreate bool, options *metav1.UpdateOptions) (runtime.Object, bool, error) {
	checked := checkedUpdate(info, func(ctx context.Context, role, _ *upstream.Role) error {
		return s.broad.check(ctx, role, role.Rules)
	})
	return s.Storage.Update(ctx, name, checked, create, update, forceAllowCreate, options)
}

// checkedUpdate returns an update that is checked, unless it only changes what the garbage
// collector changes.
func checkedUpdate[T runtime.Object](info rest.UpdatedObjectInfo, check func(ctx context.Context, role, old T) error) rest.UpdatedObjectInfo {
	return rest.WrapUpdatedObjectInfo(info, func(ctx context.Context, obj, old runtime.Object) (runtime.Object, error) {
		if rbacregistry.IsOnlyMutatingGCFields(obj, old, kapihelper.Semantic) {
			return obj, nil
		}
		return obj, check(ctx, obj.(T), old.(T))
	})
}

var _ rest.StandardStorage = &Roles{}
