package server

import (
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kubernetes/pkg/apis/core"
	"k8s.io/kubernetes/pkg/apis/discovery"
	"k8s.io/kubernetes/pkg/apis/rbac"
	rbacv1helpers "k8s.io/kubernetes/pkg/apis/rbac/v1"

	"github.com/tenantry/tenantry/internal/server/storage"
	spacerbac "github.com/tenantry/tenantry/internal/spaces/rbac"
	"github.com/tenantry/tenantry/internal/tenant"
)

// defaultObjects are the objects that every space has without storing them,
// unless it is being emptied.
func defaultObjects(terminating func(tenant.Name) bool) map[schema.GroupResource]*storage.Defaults {
	// The Service of the API server, which serves all spaces, and its addresses.
	service := &storage.Defaults{
		Keys:     keys(metav1.NamespaceDefault + "/kubernetes"),
		Adapt:    withoutAnnotations,
		Replaced: storage.Never,
		Hidden:   terminating,
	}
	return map[schema.GroupResource]*storage.Defaults{
		rbac.Resource("clusterroles"): {
			Keys:   keys(slices.Sorted(maps.Keys(spacerbac.DefaultClusterRoles()))...),
			Adapt:  defaultClusterRole,
			Hidden: terminating,
		},
		core.Resource("services"):            service,
		core.Resource("endpoints"):           service,
		discovery.Resource("endpointslices"): service,
	}
}

func keys(keys ...string) func() []string { return func() []string { return keys } }

// defaultClusterRole makes a ClusterRole of the system space the default one of
// that name, which holds in spaces whatever the system space has made of its own.
func defaultClusterRole(name string, obj runtime.Object) (bool, error) {
	role, ok := obj.(*rbac.ClusterRole)
	if !ok {
		return false, fmt.Errorf("unexpected object %T", obj)
	}
	external, ok := spacerbac.DefaultClusterRoles()[name]
	if !ok {
		return false, nil
	}
	created, version := role.CreationTimestamp, role.ResourceVersion
	*role = rbac.ClusterRole{}
	if err := rbacv1helpers.Convert_v1_ClusterRole_To_rbac_ClusterRole(external.DeepCopy(), role, nil); err != nil {
		return false, fmt.Errorf("converting ClusterRole %q: %w", name, err)
	}
	role.CreationTimestamp, role.ResourceVersion = created, version
	return true, nil
}

// withoutAnnotations shows an object of the system space, if there is one, but
// for what the platform may have noted on it.
func withoutAnnotations(_ string, obj runtime.Object) (bool, error) {
	accessor, err := meta.Accessor(obj)
	if err != nil {
		return false, err
	}
	accessor.SetAnnotations(nil)
	return accessor.GetResourceVersion() != "", nil
}
