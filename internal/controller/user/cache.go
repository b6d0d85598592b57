package user

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tenantry/tenantry/api/v1alpha1"
	"github.com/tenantry/tenantry/internal/controller/flattened"
	"github.com/tenantry/tenantry/internal/tenant"
)

// byUser is the index of what belongs to a User, and of the User itself, by its key.
const byUser = "user"

// newCache returns a cache of the Users of all spaces and of what belongs to them. Names are
// flattened, because the cache of controller-runtime knows no tenants.
func newCache(config *rest.Config, scheme *runtime.Scheme) (cache.Cache, error) {
	all := rest.CopyConfig(config)
	all.Host += tenant.All.Root()
	mapper := meta.NewDefaultRESTMapper(nil) // which asks for no discovery
	mapper.Add(v1alpha1.GroupVersion.WithKind("User"), meta.RESTScopeRoot)
	mapper.Add(corev1.SchemeGroupVersion.WithKind("Namespace"), meta.RESTScopeRoot)
	mapper.Add(rbacv1.SchemeGroupVersion.WithKind("ClusterRoleBinding"), meta.RESTScopeRoot)
	mapper.Add(rbacv1.SchemeGroupVersion.WithKind("RoleBinding"), meta.RESTScopeNamespace)
	mapper.Add(rbacv1.SchemeGroupVersion.WithKind("Role"), meta.RESTScopeNamespace)
	created, err := labels.Parse(tenant.CreatedByLabel)
	if err != nil {
		return nil, err
	}
	// Copies of published objects may carry the label, too.
	made, err := labels.Parse(tenant.UserLabel + ",!" + tenant.PublishedCopyLabel)
	if err != nil {
		return nil, err
	}
	return cache.New(all, cache.Options{
		Scheme: scheme, Mapper: mapper, NewInformer: flattened.Keep(keep).NewInformer,
		ByObject: map[client.Object]cache.ByObject{
			&v1alpha1.User{}: {}, &corev1.Namespace{}: {Label: created},
			&rbacv1.ClusterRoleBinding{}: {Label: made}, &rbacv1.RoleBinding{}: {Label: made}, &rbacv1.Role{}: {Label: made},
		},
	})
}

// keep keeps what the controller reads.
func keep(obj runtime.Object, slim metav1.ObjectMeta) error {
	object, err := meta.Accessor(obj)
	if err != nil {
		return err
	}
	for _, label := range []string{tenant.CreatedByLabel, tenant.UserLabel} {
		if value, ok := object.GetLabels()[label]; ok {
			slim.Labels = map[string]string{label: value}
		}
	}
	switch o := obj.(type) {
	case *v1alpha1.User:
		slim.Generation, slim.Finalizers = o.Generation, o.Finalizers
		*o = v1alpha1.User{ObjectMeta: slim, Spec: o.Spec, Status: o.Status}
	case *corev1.Namespace:
		*o = corev1.Namespace{ObjectMeta: slim}
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

// keyOf returns the key of the User that an object of the cache is, or belongs to.
func keyOf(o client.Object) key {
	k := key{tenant: flattened.Space(o), uid: string(o.GetUID())}
	switch o.(type) {
	case *v1alpha1.User:
	case *corev1.Namespace:
		k.uid = o.GetLabels()[tenant.CreatedByLabel]
	default:
		k.uid = o.GetLabels()[tenant.UserLabel]
	}
	return k
}
