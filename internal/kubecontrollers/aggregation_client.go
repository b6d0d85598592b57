package kubecontrollers

import (
	"context"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	rbacapply "k8s.io/client-go/applyconfigurations/rbac/v1"
	rbacclient "k8s.io/client-go/kubernetes/typed/rbac/v1"
	rbaclisters "k8s.io/client-go/listers/rbac/v1"
)

// knownClusterRoles is a client for the aggregation controller. The controller applies
// rules by a role's name alone, and so would create a role again, with nothing but these
// rules, that was deleted since it was listed. With the role's UID the server does not.
type knownClusterRoles struct {
	rbacclient.ClusterRolesGetter
	lister rbaclisters.ClusterRoleLister
}

// ClusterRoles implements rbacclient.ClusterRolesGetter.
func (c knownClusterRoles) ClusterRoles() rbacclient.ClusterRoleInterface {
	return knownClusterRole{c.ClusterRolesGetter.ClusterRoles(), c.lister}
}

type knownClusterRole struct {
	rbacclient.ClusterRoleInterface
	lister rbaclisters.ClusterRoleLister
}

// Apply changes the role that is listed, and no other. If that is gone, there is nothing
// to do: the controller gets an event for a later one of its name.
func (c knownClusterRole) Apply(ctx context.Context, change *rbacapply.ClusterRoleApplyConfiguration, opts metav1.ApplyOptions) (*rbacv1.ClusterRole, error) {
	known, err := c.lister.Get(*change.GetName())
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	applied, err := c.ClusterRoleInterface.Apply(ctx, change.WithUID(known.UID), opts)
	if err != nil && c.isGone(ctx, known) {
		return known, nil
	}
	return applied, err
}

func (c knownClusterRole) isGone(ctx context.Context, known *rbacv1.ClusterRole) bool {
	stored, err := c.Get(ctx, known.Name, metav1.GetOptions{})
	return apierrors.IsNotFound(err) || err == nil && stored.UID != known.UID
}
