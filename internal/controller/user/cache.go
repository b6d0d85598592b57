package user

import (
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

// newCache returns a cache of the Users of all spaces and of what belongs to them.
func newCache(config *rest.Config, scheme *runtime.Scheme) (cache.Cache, error) {
	created, err := labels.Parse(tenant.CreatedByLabel)
	if err != nil {
		return nil, err
	}
	// Copies of published objects may carry the label, too.
	made, err := labels.Parse(tenant.UserLabel + ",!" + tenant.PublishedCopyLabel)
	if err != nil {
		return nil, err
	}
	return flattened.NewCache(config, scheme, keep, flattened.Selected{
		&v1alpha1.User{}: {}, &corev1.Namespace{}: {Label: created},
		&rbacv1.ClusterRoleBinding{}: {Label: made}, &rbacv1.RoleBinding{}: {Label: made}, &rbacv1.Role{}: {Label: made},
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
	if u, ok := obj.(*v1alpha1.User); ok {
		slim.Generation, slim.Finalizers = u.Generation, u.Finalizers
		*u = v1alpha1.User{ObjectMeta: slim, Spec: u.Spec, Status: u.Status}
		return nil
	}
	return flattened.Slim(obj, slim)
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
