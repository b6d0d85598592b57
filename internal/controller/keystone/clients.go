package keystone

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tenantry/tenantry/api/v1alpha1"
	"github.com/tenantry/tenantry/internal/controller/publisher"
	"github.com/tenantry/tenantry/internal/tenant"
)

// FieldManager owns the fields that this controller writes.
const FieldManager = "tenantry-keystone-sync"

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
	// Apply makes a change.
	Apply(ctx context.Context, c change) error
}

// writer writes Tenants as the operator, and into spaces as the publisher.
type writer struct {
	// system reads and writes the system space, past any cache.
	system client.Client
	spaces rest.Interface
}

var _ cluster = &writer{}

func newWriter(config *rest.Config, scheme *runtime.Scheme) (*writer, error) {
	system, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		return nil, fmt.Errorf("creating the client of Tenants: %w", err)
	}
	config = rest.CopyConfig(config)
	config.ContentType, config.AcceptContentTypes = runtime.ContentTypeProtobuf, runtime.ContentTypeProtobuf
	spaces, err := publisher.NewClient(config)
	if err != nil {
		return nil, err
	}
	return &writer{system, spaces}, nil
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

const (
	namespacesPath      = "/api/v1/namespaces"
	rbacPath            = "/apis/rbac.authorization.k8s.io/v1"
	roleBindings        = "rolebindings"
	clusterRoleBindings = "clusterrolebindings"
)

// list reads what carries the label with a value. Copies of published objects may carry it,
// too.
func (w *writer) list(ctx context.Context, path, value string, to runtime.Object) error {
	const selector = "!" + tenant.PublishedCopyLabel + "," + tenant.KeystoneLabel + "="
	return w.spaces.Get().AbsPath(path).Param("labelSelector", selector+value).Do(ctx).Into(to)
}

// Namespaces implements cluster.
func (w *writer) Namespaces(ctx context.Context) ([]corev1.Namespace, error) {
	list := &corev1.NamespaceList{}
	if err := w.list(ctx, tenant.All.Root()+namespacesPath, tenant.KeystoneProject, list); err != nil {
		return nil, fmt.Errorf("listing the namespaces of projects: %w", err)
	}
	return list.Items, nil
}

// Bindings implements cluster.
func (w *writer) Bindings(ctx context.Context, n tenant.Name) ([]rbacv1.RoleBinding, []rbacv1.ClusterRoleBinding, error) {
	bindings, clusterBindings := &rbacv1.RoleBindingList{}, &rbacv1.ClusterRoleBindingList{}
	err := errors.Join(w.list(ctx, n.Root()+rbacPath+"/"+roleBindings, tenant.KeystoneBinding, bindings),
		w.list(ctx, n.Root()+rbacPath+"/"+clusterRoleBindings, tenant.KeystoneBinding, clusterBindings))
	if err != nil {
		return nil, nil, fmt.Errorf("listing the bindings of tenant %q: %w", n, err)
	}
	return bindings.Items, clusterBindings.Items, nil
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
		err := w.system.Create(ctx, after, client.FieldOwner(FieldManager))
		if apierrors.IsAlreadyExists(err) {
			return conflict(fmt.Sprintf("there is one, and it is left alone; annotation %s would make it that of the domain", v1alpha1.AdoptKeystoneDomainAnnotation))
		}
		if err != nil {
			return err
		}
	} else if err := w.system.Patch(ctx, after, client.MergeFromWithOptions(c.before, client.MergeFromWithOptimisticLock{}), client.FieldOwner(FieldManager)); err != nil {
		return err
	}
	if mark == nil || after.Status.Keystone != nil && *after.Status.Keystone == *mark {
		return nil
	}
	before := after.DeepCopy()
	after.Status.Keystone = mark
	return w.system.Status().Patch(ctx, after, client.MergeFrom(before), client.FieldOwner(FieldManager))
}

func (w *writer) applyNamespace(ctx context.Context, c change) error {
	path := tenant.Name(c.tenant).Root() + namespacesPath
	switch {
	case c.after == nil:
		return client.IgnoreNotFound(w.delete(ctx, path, c.before))
	case c.before != nil:
		return w.apply(ctx, path, &corev1.Namespace{
			TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"},
			ObjectMeta: metav1.ObjectMeta{Name: c.after.GetName(), UID: c.before.GetUID(), Labels: only(c.after.GetLabels()), Annotations: only(c.after.GetAnnotations())},
		})
	}
	// Not applied: one that is there is a tenant's own.
	err := w.spaces.Post().AbsPath(path).Param("fieldManager", FieldManager).Body(c.after).Do(ctx).Error()
	if !apierrors.IsAlreadyExists(err) {
		return err
	}
	there := &corev1.Namespace{}
	if err := w.spaces.Get().AbsPath(path, c.after.GetName()).Do(ctx).Into(there); err != nil {
		return err
	}
	if !maps.Equal(only(there.Labels), only(c.after.GetLabels())) || !maps.Equal(only(there.Annotations), only(c.after.GetAnnotations())) {
		return conflict("there is one without the mark of the project, which is left alone; delete it, or leave the project without namespace")
	}
	return nil // made before a conflict, after which the domain was planned anew
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

func (w *writer) applyBinding(ctx context.Context, c change) error {
	o := c.object()
	path := tenant.Name(c.tenant).Root()
	if o.GetNamespace() == "" {
		path += rbacPath + "/" + clusterRoleBindings
	} else {
		path += rbacPath + "/namespaces/" + o.GetNamespace() + "/" + roleBindings
	}
	if c.after == nil {
		return client.IgnoreNotFound(w.delete(ctx, path, c.before))
	}
	if c.before == nil {
		err := w.spaces.Post().AbsPath(path).Param("fieldManager", FieldManager).Body(o).Do(ctx).Error()
		if !apierrors.IsAlreadyExists(err) {
			return err
		}
	}
	// The name is that of the group, so it is this controller's, whoever has made it.
	applied := withType(o)
	err := w.apply(ctx, path, applied)
	if apierrors.IsInvalid(err) { // it has another role, which cannot be changed
		if err = client.IgnoreNotFound(w.delete(ctx, path, applied)); err == nil {
			err = w.apply(ctx, path, applied)
		}
		if apierrors.IsInvalid(err) {
			return conflict("it has another role and finalizers, so it stays; remove the finalizers")
		}
	}
	return err
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

// apply makes what this controller says of an object so, whoever else has written it.
func (w *writer) apply(ctx context.Context, path string, o client.Object) error {
	body, err := json.Marshal(o)
	if err != nil {
		return err
	}
	return w.spaces.Patch(types.ApplyPatchType).AbsPath(path+"/"+o.GetName()).
		Param("fieldManager", FieldManager).Param("force", "true").Body(body).Do(ctx).Error()
}

// delete deletes an object, and no other one of its name if its UID is known.
func (w *writer) delete(ctx context.Context, path string, o client.Object) error {
	options := &metav1.DeleteOptions{PropagationPolicy: new(metav1.DeletePropagationBackground)}
	if uid := o.GetUID(); uid != "" {
		options.Preconditions = &metav1.Preconditions{UID: &uid}
	}
	return w.spaces.Delete().AbsPath(path + "/" + o.GetName()).Body(options).Do(ctx).Error()
}
