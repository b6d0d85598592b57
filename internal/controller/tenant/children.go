package tenant

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tenantry/tenantry/api/v1alpha1"
	"github.com/tenantry/tenantry/internal/controller/flattened"
	"github.com/tenantry/tenantry/internal/tenant"
)

const (
	// AdminBinding is the ClusterRoleBinding of the tenant's administrators.
	AdminBinding = "tenantry:admins"

	serviceAccountName = "default"
)

// childrenCache is a cache of what the controller keeps in all spaces.
type childrenCache struct{ cache.Cache }

// newChildrenCache returns a cache of what the controller keeps in all spaces.
// Names are flattened, because the cache of controller-runtime knows no
// tenants; what the controller does not compare is left out.
func newChildrenCache(config *rest.Config) (*childrenCache, error) {
	all := rest.CopyConfig(config)
	all.Host += tenant.All.Root()
	all.ContentType = runtime.ContentTypeProtobuf
	names, err := labels.NewRequirement(corev1.LabelMetadataName, "in", tenant.Namespaces)
	if err != nil {
		return nil, err
	}
	inDefault := func(name string) fields.Selector {
		return fields.Set{"metadata.namespace": metav1.NamespaceDefault, "metadata.name": name}.AsSelector()
	}
	children, err := cache.New(all, cache.Options{
		Scheme:      clientgoscheme.Scheme,
		Mapper:      childMapper(),
		NewInformer: flattened.Keep(keep).NewInformer,
		ByObject: map[client.Object]cache.ByObject{
			&corev1.Namespace{}:          {Label: labels.NewSelector().Add(*names)},
			&corev1.ServiceAccount{}:     {Field: inDefault(serviceAccountName)},
			&corev1.ResourceQuota{}:      {Field: inDefault(v1alpha1.TenantQuota)},
			&rbacv1.ClusterRoleBinding{}: {Field: fields.OneTermEqualSelector("metadata.name", AdminBinding)},
		},
	})
	return &childrenCache{children}, err
}

// childMapper maps the kinds of the cache without asking the server.
func childMapper() meta.RESTMapper {
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(corev1.SchemeGroupVersion.WithKind("Namespace"), meta.RESTScopeRoot)
	mapper.Add(corev1.SchemeGroupVersion.WithKind("ServiceAccount"), meta.RESTScopeNamespace)
	mapper.Add(corev1.SchemeGroupVersion.WithKind("ResourceQuota"), meta.RESTScopeNamespace)
	mapper.Add(rbacv1.SchemeGroupVersion.WithKind("ClusterRoleBinding"), meta.RESTScopeRoot)
	return mapper
}

// keep keeps what the controller compares.
func keep(obj runtime.Object, slim metav1.ObjectMeta) error {
	switch o := obj.(type) {
	case *corev1.Namespace:
		*o = corev1.Namespace{ObjectMeta: slim}
	case *corev1.ServiceAccount:
		*o = corev1.ServiceAccount{ObjectMeta: slim}
	case *corev1.ResourceQuota:
		*o = corev1.ResourceQuota{ObjectMeta: slim, Spec: o.Spec, Status: o.Status}
	case *rbacv1.ClusterRoleBinding:
		*o = rbacv1.ClusterRoleBinding{ObjectMeta: slim, RoleRef: o.RoleRef, Subjects: o.Subjects}
	default:
		return fmt.Errorf("unexpected object %T", obj)
	}
	return nil
}

// tenantOf maps a child to its Tenant.
func tenantOf(child client.Object) string { return string(flattened.Space(child)) }
