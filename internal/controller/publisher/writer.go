package publisher

import (
	"context"
	"encoding/json"
	"strings"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tenantry/tenantry/api/v1alpha1"
	"github.com/tenantry/tenantry/internal/tenant"
)

// Writer writes into spaces what is made for Users and of Keystone's projects. Objects have their
// plain names.
type Writer struct {
	// Client is that of the publisher.
	Client rest.Interface
	// FieldManager owns the fields that are written.
	FieldManager string
}

// Path returns the path of an object in the space of n.
func Path(n tenant.Name, o client.Object) string {
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

// Apply makes an object what it is to be, whoever has made one of its name.
func (w *Writer) Apply(ctx context.Context, n tenant.Name, o client.Object) error {
	err := w.apply(ctx, n, o)
	kind := o.GetObjectKind().GroupVersionKind().Kind
	if !apierrors.IsInvalid(err) || !strings.HasSuffix(kind, "RoleBinding") {
		return err
	}
	// It has another role, which cannot be changed.
	if err := w.Remove(ctx, n, o); err != nil {
		return err
	}
	return w.apply(ctx, n, o)
}

func (w *Writer) apply(ctx context.Context, n tenant.Name, o client.Object) error {
	body, err := json.Marshal(o)
	if err != nil {
		return err
	}
	return w.Client.Patch(types.ApplyPatchType).AbsPath(Path(n, o)).
		Param("fieldManager", w.FieldManager).Param("force", "true").Body(body).Do(ctx).Error()
}

// Delete deletes an object, if there is one, and no other one of its name if its UID is known.
func (w *Writer) Delete(ctx context.Context, n tenant.Name, o client.Object) error {
	options := &metav1.DeleteOptions{PropagationPolicy: new(metav1.DeletePropagationBackground)}
	if uid := o.GetUID(); uid != "" {
		options.Preconditions = &metav1.Preconditions{UID: &uid}
	}
	err := w.Client.Delete().AbsPath(Path(n, o)).Body(options).Do(ctx).Error()
	if apierrors.IsConflict(err) && o.GetUID() != "" { // it is another one
		return nil
	}
	return client.IgnoreNotFound(err)
}

// Remove deletes an object as Delete does, and takes away its finalizers: whoever may change a
// binding can give it some, with which it would hold after its deletion. None can come afterwards.
func (w *Writer) Remove(ctx context.Context, n tenant.Name, o client.Object) error {
	if err := w.Delete(ctx, n, o); err != nil {
		return err
	}
	metadata := map[string]any{"finalizers": nil}
	if uid := o.GetUID(); uid != "" {
		metadata["uid"] = uid
	}
	err := w.Patch(ctx, n, o, "", map[string]any{"metadata": metadata})
	if apierrors.IsConflict(err) && o.GetUID() != "" {
		return nil
	}
	return err
}

// Patch merges a change into an object, or into its subresource, if there is one.
func (w *Writer) Patch(ctx context.Context, n tenant.Name, o client.Object, subresource string, change any) error {
	body, err := json.Marshal(change)
	if err != nil {
		return err
	}
	return client.IgnoreNotFound(w.Client.Patch(types.MergePatchType).AbsPath(Path(n, o), subresource).
		Param("fieldManager", w.FieldManager).Body(body).Do(ctx).Error())
}
