package user

import (
	"context"
	"encoding/json"
	"path"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tenantry/tenantry/api/v1alpha1"
	"github.com/tenantry/tenantry/internal/controller/publisher"
	"github.com/tenantry/tenantry/internal/tenant"
)

// FieldManager owns the fields that this controller writes.
const FieldManager = "tenantry-user-controller"

// spaces is what the controller writes; writer does it by requests. Objects have their plain
// names.
type spaces interface {
	// Apply makes an object what it is to be, whoever has made one of its name.
	Apply(ctx context.Context, n tenant.Name, o client.Object) error
	// Delete deletes an object, if there is one, and no other one of its name if its UID is known.
	Delete(ctx context.Context, n tenant.Name, o client.Object) error
	// Patch merges a change into an object, or into its subresource, if there is one.
	Patch(ctx context.Context, n tenant.Name, o client.Object, subresource string, change any) error
	// RoleBindings returns some of those that are in a namespace, from the first page on if none is given, and which page
	// is next, empty after the last one.
	RoleBindings(ctx context.Context, n tenant.Name, namespace, page string) (found []rbacv1.RoleBinding, next string, _ error)
}

// writer writes into spaces as the publisher.
type writer struct{ spaces rest.Interface }

var _ spaces = &writer{}

func newWriter(config *rest.Config) (*writer, error) {
	client, err := publisher.NewClient(config)
	if err != nil {
		return nil, err
	}
	return &writer{client}, nil
}

// pathOf returns the path of an object in the space of n.
func pathOf(n tenant.Name, o client.Object) string {
	const rbac = "/apis/" + rbacv1.GroupName + "/v1"
	switch o.(type) {
	case *v1alpha1.User:
		return n.Root() + "/apis/" + v1alpha1.GroupVersion.String() + "/users/" + o.GetName()
	case *corev1.Namespace:
		return n.Root() + "/api/v1/namespaces/" + o.GetName()
	case *rbacv1.ClusterRoleBinding:
		return n.Root() + rbac + "/clusterrolebindings/" + o.GetName()
	case *rbacv1.RoleBinding:
		return n.Root() + rbac + "/namespaces/" + o.GetNamespace() + "/rolebindings/" + o.GetName()
	default:
		return n.Root() + rbac + "/namespaces/" + o.GetNamespace() + "/roles/" + o.GetName()
	}
}

// Apply implements spaces.
func (w *writer) Apply(ctx context.Context, n tenant.Name, o client.Object) error {
	err := w.apply(ctx, n, o)
	if !apierrors.IsInvalid(err) {
		return err
	}
	// A binding has another role, which cannot be changed, and perhaps a finalizer of whoever has made it.
	if err := w.Delete(ctx, n, o); err != nil {
		return err
	}
	if err := w.Patch(ctx, n, o, "", map[string]any{"metadata": map[string]any{"finalizers": nil}}); err != nil {
		return err
	}
	return w.apply(ctx, n, o)
}

func (w *writer) apply(ctx context.Context, n tenant.Name, o client.Object) error {
	body, err := json.Marshal(o)
	if err != nil {
		return err
	}
	return w.spaces.Patch(types.ApplyPatchType).AbsPath(pathOf(n, o)).
		Param("fieldManager", FieldManager).Param("force", "true").Body(body).Do(ctx).Error()
}

// Delete implements spaces.
func (w *writer) Delete(ctx context.Context, n tenant.Name, o client.Object) error {
	options := &metav1.DeleteOptions{PropagationPolicy: new(metav1.DeletePropagationBackground)}
	if uid := o.GetUID(); uid != "" {
		options.Preconditions = &metav1.Preconditions{UID: &uid}
	}
	err := w.spaces.Delete().AbsPath(pathOf(n, o)).Body(options).Do(ctx).Error()
	if apierrors.IsConflict(err) && o.GetUID() != "" { // it is another one
		return nil
	}
	return client.IgnoreNotFound(err)
}

// Patch implements spaces.
func (w *writer) Patch(ctx context.Context, n tenant.Name, o client.Object, subresource string, change any) error {
	body, err := json.Marshal(change)
	if err != nil {
		return err
	}
	return client.IgnoreNotFound(w.spaces.Patch(types.MergePatchType).AbsPath(pathOf(n, o), subresource).
		Param("fieldManager", FieldManager).Body(body).Do(ctx).Error())
}

// RoleBindings implements spaces.
func (w *writer) RoleBindings(ctx context.Context, n tenant.Name, namespace, page string) ([]rbacv1.RoleBinding, string, error) {
	list := &rbacv1.RoleBindingList{}
	err := w.spaces.Get().AbsPath(path.Dir(pathOf(n, &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "any"}}))).
		Param("limit", strconv.Itoa(bindingsAtOnce)).Param("continue", page).Do(ctx).Into(list)
	return list.Items, list.Continue, err
}
