package flattened

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tenantry/tenantry/internal/controller/spaceclient"
	"github.com/tenantry/tenantry/internal/tenant"
)

// Selected are kinds of objects, each with what selects those that are kept.
type Selected map[client.Object]cache.ByObject

// NewCache returns a cache of what is selected in all spaces, of kinds that spaceclient.Mapper knows. config names the
// system space.
func NewCache(config *rest.Config, scheme *runtime.Scheme, keep Keep, selected Selected) (cache.Cache, error) {
	all := rest.CopyConfig(config)
	all.Host += tenant.All.Root()
	return cache.New(all, cache.Options{Scheme: scheme, Mapper: spaceclient.Mapper, NewInformer: keep.NewInformer, ByObject: selected})
}

// Get reads an object from a cache, and reports whether there is one.
func Get(ctx context.Context, from client.Reader, name types.NamespacedName, to client.Object) (bool, error) {
	err := from.Get(ctx, name, to)
	if client.IgnoreNotFound(err) != nil {
		return false, fmt.Errorf("reading %s from the cache: %w", name, err)
	}
	return err == nil, nil
}

// Slim is a Keep: of roles and bindings it keeps what they give and to whom, of quotas all but the metadata, and of
// others nothing but slim.
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
