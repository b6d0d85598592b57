package flattened

import (
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/tenantry/tenantry/internal/tenant"
)

// Selected are kinds of objects, each with what selects those that are kept.
type Selected map[client.Object]cache.ByObject

// NewCache returns a cache of what is selected in all spaces. config names the system space. Nothing is discovered.
func NewCache(config *rest.Config, scheme *runtime.Scheme, keep Keep, clusterScoped, namespaced Selected) (cache.Cache, error) {
	all := rest.CopyConfig(config)
	all.Host += tenant.All.Root()
	mapper := meta.NewDefaultRESTMapper(nil)
	for scope, objects := range map[meta.RESTScope]Selected{meta.RESTScopeRoot: clusterScoped, meta.RESTScopeNamespace: namespaced} {
		for object := range objects {
			kind, err := apiutil.GVKForObject(object, scheme)
			if err != nil {
				return nil, err
			}
			mapper.Add(kind, scope)
		}
	}
	selected := maps.Clone(clusterScoped)
	maps.Copy(selected, namespaced)
	return cache.New(all, cache.Options{Scheme: scheme, Mapper: mapper, NewInformer: keep.NewInformer, ByObject: selected})
}

// Slim is a Keep: of roles and bindings it keeps what they give and to whom, of quotas all but the metadata, and of others nothing
// but slim.
func Slim(obj runtime.Object, slim metav1.ObjectMeta) error {
	switch o := obj.(type) {
	case *corev1.Namespace:
		*o = corev1.Namespace{ObjectMeta: slim}
	case *corev1.ServiceAccount:
		*o = corev1.ServiceAccount{ObjectMeta: slim}
	case *corev1.ResourceQuota:
		*o = corev1.ResourceQuota{ObjectMeta: slim, Spec: o.Spec, Status: o.Status}
	case *rbacv1.ClusterRoleBinding:
		*o = rbacv1.ClusterRoleBinding{ObjectMeta: slim, RoleRef: o.RoleRef, Subjects: o.Subjects}
	case *rbacv1.RoleBinding:
		*o = rbacv1.RoleBinding{ObjectMeta: slim, RoleRef: o.RoleRef, Subjects: o.Subjects}
	case *rbacv1.Role:
		*o = rbacv1.Role{ObjectMeta: slim, Rules: o.Rules}
	default:
		return fmt.Errorf("unexpected object %T", obj)
	}
	return nil
}
