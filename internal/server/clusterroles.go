package server

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/runtime"
	apiserverstorage "k8s.io/apiserver/pkg/storage"
	"k8s.io/kubernetes/pkg/apis/rbac"
	rbacv1 "k8s.io/kubernetes/pkg/apis/rbac/v1"

	spacerbac "github.com/tenantry/tenantry/internal/spaces/rbac"
	"github.com/tenantry/tenantry/internal/tenant"
)

// unstoredVersion is the resource version of objects that are not stored.
const unstoredVersion = "1"

// defaultClusterRoles shows the default ClusterRoles in every space that has no
// ClusterRoles of their names. Without UID they can be told from stored ones.
type defaultClusterRoles struct{}

// Get implements storage.Fallback.
func (defaultClusterRoles) Get(_ context.Context, n tenant.Name, key string, out runtime.Object) (bool, error) {
	role, ok := out.(*rbac.ClusterRole)
	if !ok {
		return false, fmt.Errorf("unexpected object %T", out)
	}
	return setDefault(role, n, key)
}

func setDefault(role *rbac.ClusterRole, n tenant.Name, name string) (bool, error) {
	external, ok := spacerbac.DefaultClusterRoles()[name]
	if !ok {
		return false, nil
	}
	*role = rbac.ClusterRole{}
	if err := rbacv1.Convert_v1_ClusterRole_To_rbac_ClusterRole(external.DeepCopy(), role, nil); err != nil {
		return false, fmt.Errorf("converting ClusterRole %q: %w", name, err)
	}
	role.ResourceVersion = unstoredVersion
	role.Annotations = maps.Clone(role.Annotations)
	if role.Annotations == nil {
		role.Annotations = make(map[string]string, 1)
	}
	role.Annotations[tenant.Annotation] = string(n)
	return true, nil
}

// Complete implements storage.Fallback.
func (defaultClusterRoles) Complete(_ context.Context, n tenant.Name, p apiserverstorage.SelectionPredicate, list runtime.Object) error {
	roles, ok := list.(*rbac.ClusterRoleList)
	if !ok {
		return fmt.Errorf("unexpected object %T", list)
	}
	stored := make(map[string]bool, len(roles.Items))
	for i := range roles.Items {
		stored[roles.Items[i].Name] = true
	}
	for _, name := range slices.Sorted(maps.Keys(spacerbac.DefaultClusterRoles())) {
		role := rbac.ClusterRole{}
		if _, err := setDefault(&role, n, name); err != nil {
			return err
		}
		matched, err := p.Matches(&role)
		if err != nil {
			return err
		}
		if matched && !stored[name] {
			roles.Items = append(roles.Items, role)
		}
	}
	return nil
}
