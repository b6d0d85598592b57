package server

import (
	"fmt"
	"maps"
	"net/netip"
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
// unless it is being emptied. api is where pods reach the server, if they do.
func defaultObjects(terminating func(tenant.Name) bool, api netip.AddrPort) map[schema.GroupResource]*storage.Defaults {
	// The Service of the API server, which serves all spaces, and its addresses.
	service := &storage.Defaults{
		Keys:     keys(metav1.NamespaceDefault + "/kubernetes"),
		Adapt:    apiService(api),
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

// apiService shows the Service of the API server, or its addresses, if the system space has them, but for what the
// platform may have noted there. The Service has the address by which pods reach the server: the system space's is in
// no range of theirs.
func apiService(api netip.AddrPort) func(string, runtime.Object) (bool, error) {
	return func(_ string, obj runtime.Object) (bool, error) {
		accessor, err := meta.Accessor(obj)
		if err != nil {
			return false, err
		}
		accessor.SetAnnotations(nil)
		if service, ok := obj.(*core.Service); ok && api.IsValid() && len(service.Spec.Ports) > 0 {
			service.Spec.ClusterIP, service.Spec.ClusterIPs = api.Addr().String(), []string{api.Addr().String()}
			service.Spec.IPFamilies = []core.IPFamily{core.IPv4Protocol}
			if api.Addr().Is6() {
				service.Spec.IPFamilies = []core.IPFamily{core.IPv6Protocol}
			}
			service.Spec.Ports = slices.Clone(service.Spec.Ports) // the cache's
			service.Spec.Ports[0].Port = int32(api.Port())
		}
		return accessor.GetResourceVersion() != "", nil
	}
}
