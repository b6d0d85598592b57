package keystone

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tenantry/tenantry/api/v1alpha1"
	"github.com/tenantry/tenantry/internal/controller/spaceclient"
	"github.com/tenantry/tenantry/internal/tenant"
)

// fieldManager owns the fields that this controller writes.
const fieldManager = "tenantry-keystone-sync"

// cluster is what the controller reads and writes; writer does it by requests.
type cluster interface {
	// Tenants returns all Tenants.
	Tenants(ctx context.Context) ([]v1alpha1.Tenant, error)
	// Tenant returns a Tenant as it is now.
	Tenant(ctx context.Context, name string) (*v1alpha1.Tenant, error)
	// Namespaces returns the namespaces of projects in all spaces.
	Namespaces(ctx context.Context) ([]corev1.Namespace, error)
	// Bindings returns the managed bindings of a space.
	Bindings(ctx context.Context, n tenant.Name) ([]rbacv1.RoleBinding, []rbacv1.ClusterRoleBinding, error)
	// HasClusterRole reports whether a space has a ClusterRole.
	HasClusterRole(ctx context.Context, n tenant.Name, name string) (bool, error)
	// Apply makes a change.
	Apply(ctx context.Context, c change) error
}

// writer writes Tenants as the manager, and into spaces as the publisher.
type writer struct {
	// system reads and writes the system space, past any cache.
	system client.Client
	spaces *spaceclient.Spaces
}

var _ cluster = &writer{}

func newWriter(config *rest.Config, scheme *runtime.Scheme) (*writer, error) {
	system, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		return nil, fmt.Errorf("creating the client of Tenants: %w", err)
	}
	spaces, err := spaceclient.New(spaceclient.AsPublisher(config), fieldManager)
	return &writer{system, spaces}, err
}

// Tenants implements cluster.
func (w *writer) Tenants(ctx context.Context) ([]v1alpha1.Tenant, error) {
	list := &v1alpha1.TenantList{}
	if err := w.system.List(ctx, list); err != nil {
		return nil, fmt.Errorf("listing tenants: %w", err)
	}
	return list.Items, nil
}

// Tenant implements cluster.
func (w *writer) Tenant(ctx context.Context, name string) (*v1alpha1.Tenant, error) {
	t := &v1alpha1.Tenant{}
	if err := w.system.Get(ctx, client.ObjectKey{Name: name}, t); err != nil {
		return nil, fmt.Errorf("reading tenant %q: %w", name, err)
	}
	return t, nil
}

// list reads what carries the label with a value. Copies of published objects may carry it,
// too.
func (w *writer) list(ctx context.Context, of tenant.Scope, value string, to client.ObjectList) error {
	const selector = "!" + tenant.PublishedCopyLabel + "," + tenant.KeystoneLabel + "="
	return w.spaces.In(of).List(ctx, to, &client.ListOptions{Raw: &metav1.ListOptions{LabelSelector: selector + value}})
}

// Namespaces implements cluster.
func (w *writer) Namespaces(ctx context.Context) ([]corev1.Namespace, error) {
	list := &corev1.NamespaceList{}
	if err := w.list(ctx, tenant.All, tenant.KeystoneProject, list); err != nil {
		return nil, fmt.Errorf("listing the namespaces of projects: %w", err)
	}
	return list.Items, nil
}

// Bindings implements cluster.
func (w *writer) Bindings(ctx context.Context, n tenant.Name) ([]rbacv1.RoleBinding, []rbacv1.ClusterRoleBinding, error) {
	bindings, clusterBindings := &rbacv1.RoleBindingList{}, &rbacv1.ClusterRoleBindingList{}
	err := errors.Join(w.list(ctx, n.Scope(), tenant.KeystoneBinding, bindings),
		w.list(ctx, n.Scope(), tenant.KeystoneBinding, clusterBindings))
	if err != nil {
		return nil, nil, fmt.Errorf("listing the bindings of tenant %q: %w", n, err)
	}
	return bindings.Items, clusterBindings.Items, nil
}

// HasClusterRole implements cluster.
func (w *writer) HasClusterRole(ctx context.Context, n tenant.Name, name string) (bool, error) {
	err := w.spaces.In(n.Scope()).Get(ctx, client.ObjectKey{Name: name}, &rbacv1.ClusterRole{})
	if client.IgnoreNotFound(err) != nil {
		return false, fmt.Errorf("reading ClusterRole %q of tenant %q: %w", name, n, err)
	}
	return err == nil, nil
}

// conflict says that something else is in the way, which is left alone.
type conflict string

// Error implements error.
func (c conflict) Error() string { return string(c) }

// Apply implements cluster.
func (w *writer) Apply(ctx context.Context, c change) error {
	var err error
	switch c.object().(type) {
	case *v1alpha1.Tenant:
		err = w.applyTenant(ctx, c)
	case *corev1.Namespace:
		err = w.applyNamespace(ctx, c)
	default:
		err = w.applyBinding(ctx, c)
	}
	if err != nil {
		return fmt.Errorf("to %s: %w", c, err)
	}
	return nil
}

func (w *writer) applyTenant(ctx context.Context, c change) error {
	if c.after == nil {
		uid, version := c.before.GetUID(), c.before.GetResourceVersion()
		return client.IgnoreNotFound(w.system.Delete(ctx, c.before, client.Preconditions{UID: &uid, ResourceVersion: &version}))
	}
	after := c.after.(*v1alpha1.Tenant).DeepCopy()
	mark := after.Status.Keystone
	after.Status.Keystone = nil // which the answers say
	if before, ok := c.before.(*v1alpha1.Tenant); ok {
		after.Status.Keystone = before.Status.Keystone
	}
	if c.before == nil {
		err := w.system.Create(ctx, after, client.FieldOwner(fieldManager))
		if apierrors.IsAlreadyExists(err) {
			return conflict(fmt.Sprintf("there is one, and it is left alone; annotation %s would make it that of the domain", v1alpha1.AdoptKeystoneDomainAnnotation))
		}
		if err != nil {
			return err
		}
	} else if err := w.system.Patch(ctx, after, client.MergeFromWithOptions(c.before, client.MergeFromWithOptimisticLock{}), client.FieldOwner(fieldManager)); err != nil {
		return err
	}
	if mark == nil || after.Status.Keystone != nil && *after.Status.Keystone == *mark {
		return nil
	}
	before := after.DeepCopy()
	after.Status.Keystone = mark
	return w.system.Status().Patch(ctx, after, client.MergeFrom(before), client.FieldOwner(fieldManager))
}

func (w *writer) applyNamespace(ctx context.Context, c change) error {
	n := tenant.Name(c.tenant)
	switch {
	case c.after == nil:
		return w.spaces.Delete(ctx, n, c.before)
	case c.before != nil:
		return w.spaces.Apply(ctx, n, &corev1.Namespace{
			TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"},
			ObjectMeta: metav1.ObjectMeta{Name: c.after.GetName(), UID: c.before.GetUID(), Labels: only(c.after.GetLabels()), Annotations: only(c.after.GetAnnotations())},
		})
	}
	// Not applied: one that is there is a tenant's own.
	err := w.create(ctx, n, c.after)
	if !apierrors.IsAlreadyExists(err) {
		return err
	}
	there := &corev1.Namespace{}
	if err := w.spaces.In(n.Scope()).Get(ctx, client.ObjectKeyFromObject(c.after), there); err != nil {
		return err
	}
	if !maps.Equal(only(there.Labels), only(c.after.GetLabels())) || !maps.Equal(only(there.Annotations), only(c.after.GetAnnotations())) {
		return conflict("there is one without the mark of the project, which is left alone; delete it, or leave the project without namespace")
	}
	return nil // made before a conflict, after which the domain was planned anew
}

// create creates an object.
func (w *writer) create(ctx context.Context, n tenant.Name, o client.Object) error {
	return w.spaces.In(n.Scope()).Create(ctx, o.DeepCopyObject().(client.Object))
}

// only returns the entries that are of this controller.
func only(entries map[string]string) map[string]string {
	own := map[string]string{}
	for key, value := range entries {
		if strings.HasPrefix(key, tenant.KeystoneLabel) {
			own[key] = value
		}
	}
	return own
}

// applyBinding makes, changes or deletes a binding. The name is that of the group, so it is this
// controller's, whoever has made it.
func (w *writer) applyBinding(ctx context.Context, c change) error {
	o, n := c.object(), tenant.Name(c.tenant)
	switch {
	case c.after == nil && len(c.before.GetFinalizers()) > 0:
		return w.spaces.Remove(ctx, n, c.before)
	case c.after == nil:
		return w.spaces.Delete(ctx, n, c.before)
	case c.before == nil:
		if err := w.create(ctx, n, o); !apierrors.IsAlreadyExists(err) {
			return err
		}
	}
	return w.spaces.Apply(ctx, n, withType(o))
}

// withType returns a binding with its type.
func withType(o client.Object) client.Object {
	kind := "RoleBinding"
	if o.GetNamespace() == "" {
		kind = "ClusterRoleBinding"
	}
	o = o.DeepCopyObject().(client.Object)
	o.GetObjectKind().SetGroupVersionKind(rbacv1.SchemeGroupVersion.WithKind(kind))
	return o
}
