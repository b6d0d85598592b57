package tenant

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/generic"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/klog/v2"

	"github.com/tenantry/tenantry/api/v1alpha1"
	"github.com/tenantry/tenantry/config/crd"
	"github.com/tenantry/tenantry/internal/follow"
	"github.com/tenantry/tenantry/internal/progress"
	"github.com/tenantry/tenantry/internal/server/definition"
	"github.com/tenantry/tenantry/internal/tenant"
)

// Resource is the resource of this package.
var Resource = v1alpha1.GroupVersion.WithResource("tenants").GroupResource()

// SpaceCounter counts the keys that a tenant has in etcd, by resource.
type SpaceCounter interface {
	Count(ctx context.Context, n tenant.Name) (map[string]int64, error)
}

// Storage serves Tenants and their subresources.
type Storage struct {
	Tenant   *REST
	Status   definition.StatusREST
	Finalize *FinalizeREST

	// usage is Status for what the server itself says of usage.
	usage definition.StatusREST
	// seen is how far a Lookup has followed; writers wait for it.
	seen *progress.Progress
}

// NewStorage returns the storage of Tenants. counter verifies the end of a space,
// which deletions remembers.
func NewStorage(scheme *runtime.Scheme, options generic.RESTOptionsGetter, counter SpaceCounter, deletions *Deletions,
	hostLimits *v1alpha1.TenantLimits,
) (*Storage, error) {
	common, table, err := definition.NewStrategy(scheme, crd.Tenants, parts)
	if err != nil {
		return nil, err
	}
	main := strategy{Strategy: common, earlier: deletions.knows, hostLimits: hostLimits}
	store, err := definition.NewStore[v1alpha1.Tenant, v1alpha1.TenantList](options, Resource, "tenant", main, table)
	if err != nil {
		return nil, err
	}
	seen := &progress.Progress{}
	follow.Await(store, seen)
	finalize := *store
	finalize.UpdateStrategy = finalizeStrategy{main}
	return &Storage{
		seen:     seen,
		Tenant:   &REST{store, seen},
		Status:   definition.NewStatusREST(store, statusStrategy{main}),
		usage:    definition.NewStatusREST(store, usageStrategy{statusStrategy{main}}),
		Finalize: &FinalizeREST{store: &finalize, counter: counter, deletions: deletions},
	}, nil
}

// Map returns the storages by path.
func (s *Storage) Map() map[string]rest.Storage {
	return map[string]rest.Storage{"tenants": s.Tenant, "tenants/status": s.Status, "tenants/finalize": s.Finalize}
}

// REST serves Tenants.
type REST struct {
	*genericregistry.Store
	seen *progress.Progress
}

// Update implements rest.Updater. It serves patches and server-side apply too.
func (r *REST) Update(ctx context.Context, name string, info rest.UpdatedObjectInfo, create rest.ValidateObjectFunc,
	update rest.ValidateObjectUpdateFunc, forceAllowCreate bool, options *metav1.UpdateOptions) (runtime.Object, bool, error) {
	held := func(ctx context.Context, obj, old runtime.Object) error {
		if releases(obj, old) {
			return apierrors.NewForbidden(Resource, name, fmt.Errorf(
				"finalizer %s is removed through the subresource finalize alone, once the space is empty; delete the tenant and wait",
				v1alpha1.SpaceFinalizer))
		}
		return update(ctx, obj, old)
	}
	return r.Store.Update(ctx, name, info, create, held, forceAllowCreate, options)
}

// releases reports whether an update removes the space finalizer.
func releases(obj, old runtime.Object) bool {
	t, previous := obj.(*v1alpha1.Tenant), old.(*v1alpha1.Tenant)
	return slices.Contains(previous.Finalizers, v1alpha1.SpaceFinalizer) && !slices.Contains(t.Finalizers, v1alpha1.SpaceFinalizer)
}

// Delete implements rest.GracefulDeleter. The next request knows that the space takes no
// new objects.
func (r *REST) Delete(ctx context.Context, name string, validate rest.ValidateObjectFunc, options *metav1.DeleteOptions) (runtime.Object, bool, error) {
	if tenant.Name(name) == tenant.System {
		return nil, false, errSystem(name)
	}
	obj, gone, err := r.Store.Delete(ctx, name, validate, options)
	if err == nil {
		follow.Wait(obj, r.seen)
	}
	return obj, gone, err
}

// DeleteCollection implements rest.CollectionDeleter. The built-in tenant stays.
func (r *REST) DeleteCollection(ctx context.Context, validate rest.ValidateObjectFunc, options *metav1.DeleteOptions, listOptions *metainternalversion.ListOptions) (runtime.Object, error) {
	notSystem := func(ctx context.Context, obj runtime.Object) error {
		if t, ok := obj.(*v1alpha1.Tenant); ok && tenant.Name(t.Name) == tenant.System {
			return errSystem(t.Name)
		}
		return validate(ctx, obj)
	}
	deleted, err := r.Store.DeleteCollection(ctx, notSystem, options, listOptions)
	if list, ok := deleted.(*v1alpha1.TenantList); ok {
		for _, before := range list.Items {
			if obj, err := r.Get(ctx, before.Name, &metav1.GetOptions{}); err == nil {
				follow.Wait(obj, r.seen)
			}
		}
	}
	return deleted, err
}

func errSystem(name string) error {
	return apierrors.NewForbidden(Resource, name, errors.New("the built-in tenant cannot be deleted"))
}

// FinalizeREST serves the subresource finalize: the last step of a deletion.
type FinalizeREST struct {
	store     *genericregistry.Store
	counter   SpaceCounter
	deletions *Deletions
}

// New implements rest.Storage.
func (*FinalizeREST) New() runtime.Object { return &v1alpha1.Tenant{} }

// Destroy implements rest.Storage.
func (*FinalizeREST) Destroy() {}

// Update implements rest.Updater. Removing the space finalizer succeeds only if
// etcd holds no key of the tenant.
func (r *FinalizeREST) Update(ctx context.Context, name string, info rest.UpdatedObjectInfo, create rest.ValidateObjectFunc,
	update rest.ValidateObjectUpdateFunc, _ bool, options *metav1.UpdateOptions) (runtime.Object, bool, error) {
	verified := func(ctx context.Context, obj, old runtime.Object) error {
		if !releases(obj, old) {
			return update(ctx, obj, old)
		}
		t, dryRun := old.(*v1alpha1.Tenant), len(options.DryRun) > 0
		// First, so that nothing is created after it was counted. A space that is not
		// empty then takes no new objects, which it does not do anyway.
		if t.DeletionTimestamp != nil && !dryRun {
			if err := r.deletions.close(ctx, tenant.Name(name), t.UID); err != nil {
				return err
			}
		}
		if err := r.verifyEmpty(ctx, t); err != nil {
			return err
		}
		if err := update(ctx, obj, old); err != nil || dryRun {
			return err
		}
		if err := r.deletions.end(ctx, tenant.Name(name), t.UID); err != nil {
			return err
		}
		return r.deletions.record(ctx, name)
	}
	return r.store.Update(ctx, name, info, create, verified, false, options)
}

func (r *FinalizeREST) verifyEmpty(ctx context.Context, t *v1alpha1.Tenant) error {
	if t.DeletionTimestamp == nil {
		return apierrors.NewConflict(Resource, t.Name, errors.New("the tenant is not being deleted"))
	}
	left, err := r.counter.Count(ctx, tenant.Name(t.Name))
	if err != nil {
		return apierrors.NewInternalError(fmt.Errorf("verifying that the space of tenant %q is empty: %w", t.Name, err))
	}
	if len(left) > 0 {
		return errNotEmpty(t.Name, left)
	}
	klog.InfoS("Space verified empty in etcd", "tenant", t.Name, "uid", t.UID, "keys", 0, "keysAtDeletion", keysAtDeletion(t))
	return nil
}

func keysAtDeletion(t *v1alpha1.Tenant) int64 {
	if t.Status.Deletion == nil {
		return 0
	}
	return t.Status.Deletion.Keys
}

// errNotEmpty returns a conflict with one cause for each resource of which etcd
// holds keys: its field names the resource, its message the number.
func errNotEmpty(name string, left map[string]int64) error {
	parts := make([]string, 0, len(left))
	causes := make([]metav1.StatusCause, 0, len(left))
	for _, resource := range slices.Sorted(maps.Keys(left)) {
		parts = append(parts, fmt.Sprintf("%s=%d", resource, left[resource]))
		causes = append(causes, metav1.StatusCause{
			Type: v1alpha1.CauseKeysLeft, Field: resource, Message: strconv.FormatInt(left[resource], 10),
		})
	}
	err := apierrors.NewConflict(Resource, name, fmt.Errorf("its space is not empty, etcd still holds: %s", strings.Join(parts, ", ")))
	err.ErrStatus.Details.Causes = causes
	return err
}
