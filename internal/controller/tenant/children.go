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

	"github.com/tenantry/tenantry/internal/tenant"
)

const (
	// AdminBinding is the ClusterRoleBinding of the tenant's administrators.
	AdminBinding = "tenantry:admins"
	// DefaultQuota is the mandatory ResourceQuota, in the namespace "default".
	DefaultQuota = "tenantry-default"

	serviceAccountName = "default"
)

// spaceNamespaces are the namespaces that every space has.
var spaceNamespaces = []string{
	metav1.NamespaceDefault, metav1.NamespaceSystem, metav1.NamespacePublic, corev1.NamespaceNodeLease,
}

// NewChildrenCache returns a cache of what the controller keeps in all spaces.
// Names are flattened, because the cache of controller-runtime knows no
// tenants; what the controller does not compare is left out.
func NewChildrenCache(config *rest.Config) (cache.Cache, error) {
	all := rest.CopyConfig(config)
	all.Host += "/tenants/" + string(tenant.All)
	all.ContentType = runtime.ContentTypeProtobuf
	names, err := labels.NewRequirement(corev1.LabelMetadataName, "in", spaceNamespaces)
	if err != nil {
		return nil, err
	}
	inDefault := func(name string) fields.Selector {
		return fields.Set{"metadata.namespace": metav1.NamespaceDefault, "metadata.name": name}.AsSelector()
	}
	return cache.New(all, cache.Options{
		Scheme:           clientgoscheme.Scheme,
		Mapper:           childMapper(),
		DefaultTransform: trim,
		ByObject: map[client.Object]cache.ByObject{
			&corev1.Namespace{}:          {Label: labels.NewSelector().Add(*names)},
			&corev1.ServiceAccount{}:     {Field: inDefault(serviceAccountName)},
			&corev1.ResourceQuota{}:      {Field: inDefault(DefaultQuota)},
			&rbacv1.ClusterRoleBinding{}: {Field: fields.OneTermEqualSelector("metadata.name", AdminBinding)},
		},
	})
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

// trim flattens an object's name and keeps what the controller compares.
func trim(obj any) (any, error) {
	object, ok := obj.(metav1.Object)
	if !ok {
		return obj, nil // a tombstone's object has passed here before
	}
	n := tenant.Name(object.GetAnnotations()[tenant.Annotation])
	if n == "" {
		return nil, fmt.Errorf("object %s/%s carries no tenant", object.GetNamespace(), object.GetName())
	}
	slim := metav1.ObjectMeta{
		Name:              object.GetName(),
		UID:               object.GetUID(),
		ResourceVersion:   object.GetResourceVersion(),
		DeletionTimestamp: object.GetDeletionTimestamp(),
	}
	if object.GetNamespace() == "" {
		slim.Name = tenant.Flatten(n, slim.Name)
	} else {
		slim.Namespace = tenant.Flatten(n, object.GetNamespace())
	}
	switch o := obj.(type) {
	case *corev1.Namespace:
		return &corev1.Namespace{ObjectMeta: slim}, nil
	case *corev1.ServiceAccount:
		return &corev1.ServiceAccount{ObjectMeta: slim}, nil
	case *corev1.ResourceQuota:
		return &corev1.ResourceQuota{ObjectMeta: slim, Spec: o.Spec}, nil
	case *rbacv1.ClusterRoleBinding:
		return &rbacv1.ClusterRoleBinding{ObjectMeta: slim, RoleRef: o.RoleRef, Subjects: o.Subjects}, nil
	default:
		return nil, fmt.Errorf("unexpected object %T", obj)
	}
}

// tenantOf maps a child to its Tenant.
func tenantOf(child client.Object) string {
	flat := child.GetNamespace()
	if flat == "" {
		flat = child.GetName()
	}
	n, _ := tenant.Unflatten(flat)
	return string(n)
}
