package user

import (
	"context"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tenantry/tenantry/internal/controller/spaceclient"
	"github.com/tenantry/tenantry/internal/tenant"
)

// fieldManager owns the fields that this controller writes.
const fieldManager = "tenantry-user-controller"

// spaces is what the controller writes; writer does it by requests. Objects have their plain
// names.
type spaces interface {
	// Apply makes an object what it is to be, whoever has made one of its name.
	Apply(ctx context.Context, n tenant.Name, o client.Object) error
	// Read reads an object of which the name is known, and reports whether there is one.
	Read(ctx context.Context, n tenant.Name, o client.Object) (bool, error)
	// Delete deletes an object, if there is one, and no other one of its name if its UID is known.
	Delete(ctx context.Context, n tenant.Name, o client.Object) error
	// Patch merges a change into an object, or into its subresource, if there is one.
	Patch(ctx context.Context, n tenant.Name, o client.Object, subresource string, change any) error
	// RoleBindings returns some of those that are in a namespace, from the first page on if none is given, and which page
	// is next, empty after the last one.
	RoleBindings(ctx context.Context, n tenant.Name, namespace, page string) (found []rbacv1.RoleBinding, next string, _ error)
}

// writer writes into spaces as the publisher.
type writer struct{ *spaceclient.Spaces }

var _ spaces = writer{}

func newWriter(config *rest.Config) (writer, error) {
	all, err := spaceclient.New(spaceclient.AsPublisher(config), fieldManager)
	return writer{all}, err
}

// Read implements spaces.
func (w writer) Read(ctx context.Context, n tenant.Name, o client.Object) (bool, error) {
	err := w.In(n.Scope()).Get(ctx, client.ObjectKeyFromObject(o), o)
	return err == nil, client.IgnoreNotFound(err)
}

// RoleBindings implements spaces.
func (w writer) RoleBindings(ctx context.Context, n tenant.Name, namespace, page string) ([]rbacv1.RoleBinding, string, error) {
	list := &rbacv1.RoleBindingList{}
	err := w.In(n.Scope()).List(ctx, list, client.InNamespace(namespace), client.Limit(bindingsAtOnce), client.Continue(page))
	return list.Items, list.Continue, err
}
