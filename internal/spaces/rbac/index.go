package rbac

import (
	"context"
	"fmt"
	"slices"
	"sync"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
	"k8s.io/kubernetes/pkg/registry/rbac/validation"

	"github.com/tenantry/tenantry/internal/objects"
	"github.com/tenantry/tenantry/internal/process/keyed"
	"github.com/tenantry/tenantry/internal/progress"
	"github.com/tenantry/tenantry/internal/tenant"
)

// Index holds the RBAC objects of every space.
type Index struct {
	synced []cache.InformerSynced
	// Seen is how far the index has followed each resource.
	Seen struct{ Roles, RoleBindings, ClusterRoles, ClusterRoleBindings progress.Progress }

	roleBindings        collections[namespaceKey, *rbacv1.RoleBinding, []*rbacv1.RoleBinding]
	clusterRoleBindings collections[tenant.Name, *rbacv1.ClusterRoleBinding, []*rbacv1.ClusterRoleBinding]
	// aggregated are the ClusterRoles of a space that may change default ones, and the default
	// ones that have other rules there than elsewhere.
	aggregated collections[tenant.Name, *rbacv1.ClusterRole, map[string]*rbacv1.ClusterRole]

	mu           sync.RWMutex
	roles        map[objectKey]*rbacv1.Role
	clusterRoles map[tenant.Name]map[string]*rbacv1.ClusterRole
	// scopes are those of ClusterRoles of the system space with other scopes than the default.
	scopes map[string]Scope
	// scopedBindings returns the ClusterRoleBindings of the system space that hold in
	// tenants' spaces, and the default ones.
	scopedBindings func() []*rbacv1.ClusterRoleBinding
	// labelsOf returns the labels of a Tenant.
	labelsOf func(n tenant.Name) labels.Set
}

type namespaceKey struct {
	space     tenant.Name
	namespace string
}

type objectKey struct {
	namespaceKey
	name string
}

var (
	_ validation.RoleGetter               = &Index{}
	_ validation.RoleBindingLister        = &Index{}
	_ validation.ClusterRoleGetter        = &Index{}
	_ validation.ClusterRoleBindingLister = &Index{}
)

func newIndex(labelsOf func(n tenant.Name) labels.Set) *Index {
	return &Index{
		roleBindings:        newCollections(func(_ namespaceKey, own []*rbacv1.RoleBinding) []*rbacv1.RoleBinding { return own }),
		clusterRoleBindings: newCollections(withDefaultBindings),
		aggregated: newCollections(func(_ tenant.Name, own []*rbacv1.ClusterRole) map[string]*rbacv1.ClusterRole {
			return aggregatedDefaults(own)
		}),
		roles:          map[objectKey]*rbacv1.Role{},
		clusterRoles:   map[tenant.Name]map[string]*rbacv1.ClusterRole{},
		scopes:         map[string]Scope{},
		scopedBindings: defaultClusterRoleBindings,
		labelsOf:       labelsOf,
	}
}

// NewIndex returns the index of the RBAC objects that the informers of a factory of the
// flattened view (spaces.NewInformerFactory) read. The factory must be started afterwards.
// labelsOf returns the labels of a Tenant.
func NewIndex(factory informers.SharedInformerFactory, labelsOf func(n tenant.Name) labels.Set) (*Index, error) {
	i := newIndex(labelsOf)
	rbac := factory.Rbac().V1()
	for _, source := range []struct {
		informer cache.SharedIndexInformer
		handler  cache.ResourceEventHandler
	}{
		{rbac.Roles().Informer(), handler(i.setRole, &i.Seen.Roles)},
		{rbac.RoleBindings().Informer(), handler(i.setRoleBinding, &i.Seen.RoleBindings)},
		{rbac.ClusterRoles().Informer(), handler(i.setClusterRole, &i.Seen.ClusterRoles)},
		{rbac.ClusterRoleBindings().Informer(), handler(i.setClusterRoleBinding, &i.Seen.ClusterRoleBindings)},
	} {
		registration, err := source.informer.AddEventHandler(source.handler)
		if err != nil {
			return nil, fmt.Errorf("watching RBAC objects: %w", err)
		}
		i.synced = append(i.synced, registration.HasSynced)
	}
	return i, nil
}

// HasSynced reports whether every object that existed at the start is indexed.
func (i *Index) HasSynced() bool {
	return !slices.ContainsFunc(i.synced, func(synced cache.InformerSynced) bool { return !synced() })
}

// decidingSpace returns the space whose RBAC decides in ctx. For all spaces at once that is
// the system space.
func decidingSpace(ctx context.Context) (tenant.Name, error) {
	in, err := tenant.ScopeFrom(ctx)
	if err != nil {
		return "", err
	}
	if n, one := in.Space(); one {
		return n, nil
	}
	return tenant.System, nil
}

// GetRole returns a Role of the space of ctx.
func (i *Index) GetRole(ctx context.Context, namespace, name string) (*rbacv1.Role, error) {
	n, err := decidingSpace(ctx)
	if err != nil {
		return nil, err
	}
	i.mu.RLock()
	defer i.mu.RUnlock()
	if role, ok := i.roles[objectKey{namespaceKey{n, namespace}, name}]; ok {
		return role, nil
	}
	return nil, apierrors.NewNotFound(rbacv1.Resource("role"), name)
}

// ListRoleBindings returns the RoleBindings of a namespace in the space of ctx.
// The slice is shared and must not be changed.
func (i *Index) ListRoleBindings(ctx context.Context, namespace string) ([]*rbacv1.RoleBinding, error) {
	n, err := decidingSpace(ctx)
	if err != nil {
		return nil, err
	}
	bindings, _ := i.roleBindings.get(namespaceKey{n, namespace})
	return bindings, nil
}

// GetClusterRole returns a ClusterRole of the space of ctx, or the default one
// of that name.
func (i *Index) GetClusterRole(ctx context.Context, name string) (*rbacv1.ClusterRole, error) {
	n, err := decidingSpace(ctx)
	if err != nil {
		return nil, err
	}
	if role := i.ownClusterRole(n, name); role != nil {
		return role, nil
	}
	if n != tenant.System {
		if _, aggregates := aggregating()[name]; aggregates {
			aggregated, _ := i.aggregated.get(n)
			if role, ok := aggregated[name]; ok {
				return role, nil
			}
		}
		if role, ok := defaultClusterRoles()[name]; ok {
			return role, nil
		}
	}
	return nil, apierrors.NewNotFound(rbacv1.Resource("clusterrole"), name)
}

// ownClusterRole returns a stored ClusterRole, nil if there is none.
func (i *Index) ownClusterRole(n tenant.Name, name string) *rbacv1.ClusterRole {
	i.mu.RLock()
	defer i.mu.RUnlock()
	role, ok := i.clusterRoles[n][name]
	if ok && n == tenant.System && !i.holdsInSystem(name) {
		return noRules
	}
	return role
}

// ListClusterRoleBindings returns the ClusterRoleBindings that hold in the space
// of ctx. The slice is shared and must not be changed.
func (i *Index) ListClusterRoleBindings(ctx context.Context) ([]*rbacv1.ClusterRoleBinding, error) {
	n, err := decidingSpace(ctx)
	if err != nil {
		return nil, err
	}
	if bindings, ok := i.clusterRoleBindings.get(n); ok || n == tenant.System {
		return bindings, nil
	}
	return defaultClusterRoleBindings(), nil
}

// handler calls set with each object, the last known one if it is deleted, and whether it
// is deleted. Then it notes the object's version in seen.
func handler[T metav1.Object](setOnly func(obj T, deleted bool), seen *progress.Progress) cache.ResourceEventHandler {
	set := func(obj T, deleted bool) {
		setOnly(obj, deleted)
		seen.Note(obj.GetResourceVersion())
	}
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { set(obj.(T), false) },
		UpdateFunc: func(_, obj any) { set(obj.(T), false) },
		DeleteFunc: func(obj any) {
			if obj, ok := objects.LastKnown[T](obj); ok {
				set(obj, true)
			}
		},
	}
}

func (i *Index) setRole(role *rbacv1.Role, deleted bool) {
	n, namespace := tenant.Flat(role.Namespace).Split()
	key := objectKey{namespaceKey{n, namespace}, role.Name}
	i.mu.Lock()
	defer i.mu.Unlock()
	if deleted {
		delete(i.roles, key)
		return
	}
	i.roles[key] = role
}

func (i *Index) setRoleBinding(flat *rbacv1.RoleBinding, deleted bool) {
	n, namespace := tenant.Flat(flat.Namespace).Split()
	binding := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: flat.Name},
		Subjects:   flat.Subjects,
		RoleRef:    flat.RoleRef,
	}
	i.roleBindings.set(namespaceKey{n, namespace}, binding, deleted)
}

func (i *Index) setClusterRoleBinding(flat *rbacv1.ClusterRoleBinding, deleted bool) {
	n, name := tenant.Flat(flat.Name).Split()
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Subjects:   flat.Subjects,
		RoleRef:    flat.RoleRef,
	}
	i.clusterRoleBindings.set(n, binding, deleted)
	if n == tenant.System {
		i.mu.Lock()
		defer i.mu.Unlock()
		i.scopedBindings = sync.OnceValue(i.bindScopes)
	}
}

func (i *Index) setClusterRole(role *rbacv1.ClusterRole, deleted bool) {
	n, name := tenant.Flat(role.Name).Split()
	i.replaceClusterRole(n, name, role, deleted)
	if n != tenant.System {
		i.aggregated.set(n, role, deleted || !affectsDefaults(role))
	}
}

func (i *Index) replaceClusterRole(n tenant.Name, name string, role *rbacv1.ClusterRole, deleted bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if deleted {
		keyed.Delete(i.clusterRoles, n, name)
	} else {
		keyed.Set(i.clusterRoles, n, name, role)
	}
	if n == tenant.System {
		i.setScope(role, deleted)
	}
}
