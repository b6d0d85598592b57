package accesspolicy

import (
	"context"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/generic"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"
	kapihelper "k8s.io/kubernetes/pkg/apis/core/helper"
	rbacregistry "k8s.io/kubernetes/pkg/registry/rbac"

	"github.com/tenantry/tenantry/api/v1alpha1"
	"github.com/tenantry/tenantry/config/crd"
	"github.com/tenantry/tenantry/internal/progress"
	"github.com/tenantry/tenantry/internal/server/registry/definition"
	"github.com/tenantry/tenantry/internal/server/registry/follow"
	"github.com/tenantry/tenantry/internal/tenant"
)

// Resource is the resource of this package.
var Resource = v1alpha1.GroupVersion.WithResource("tenantaccesspolicies").GroupResource()

// REST serves policies. Their status is the server's own.
type REST struct {
	*genericregistry.Store
	escalation Escalation
	// seen is how far the authorizer's index is; writers wait for it.
	seen *progress.Progress
}

// NewREST returns the storage of policies.
func NewREST(scheme *runtime.Scheme, options generic.RESTOptionsGetter, uidOf UIDOf, escalation Escalation) (*REST, error) {
	common, table, err := definition.NewStrategy(scheme, crd.TenantAccessPolicies)
	if err != nil {
		return nil, err
	}
	s := strategy{Strategy: common, uidOf: uidOf, now: time.Now}
	store, err := definition.NewStore(options, Resource, "tenantaccesspolicy", func() runtime.Object { return &v1alpha1.TenantAccessPolicy{} },
		func() runtime.Object { return &v1alpha1.TenantAccessPolicyList{} }, s, table)
	if err != nil {
		return nil, err
	}
	seen := &progress.Progress{}
	follow.Await(store, seen)
	return &REST{Store: store, escalation: escalation, seen: seen}, nil
}

// Status returns the storage of the subresource status, which nobody writes: its digests
// say which tenants a policy lets in.
func (r *REST) Status() rest.Storage { return definition.StatusReader{Store: r.Store} }

// ShortNames implements rest.ShortNamesProvider.
func (*REST) ShortNames() []string { return []string{"tap"} }

// Create implements rest.Creater.
func (r *REST) Create(ctx context.Context, obj runtime.Object, validate rest.ValidateObjectFunc, options *metav1.CreateOptions) (runtime.Object, error) {
	confirmed := func(ctx context.Context, obj runtime.Object) error {
		// After validation: what is not valid cannot be compared.
		if err := r.confirm(ctx, obj.(*v1alpha1.TenantAccessPolicy)); err != nil {
			return err
		}
		return validate(ctx, obj)
	}
	return r.Store.Create(ctx, obj, confirmed, options)
}

// Update implements rest.Updater. It serves patches and server-side apply too.
func (r *REST) Update(ctx context.Context, name string, info rest.UpdatedObjectInfo, create rest.ValidateObjectFunc,
	update rest.ValidateObjectUpdateFunc, forceAllowCreate bool, options *metav1.UpdateOptions) (runtime.Object, bool, error) {
	confirmedCreate := func(ctx context.Context, obj runtime.Object) error {
		if err := r.confirm(ctx, obj.(*v1alpha1.TenantAccessPolicy)); err != nil {
			return err
		}
		return create(ctx, obj)
	}
	confirmed := func(ctx context.Context, obj, old runtime.Object) error {
		if !rbacregistry.IsOnlyMutatingGCFields(obj, old, kapihelper.Semantic) {
			if err := r.confirm(ctx, obj.(*v1alpha1.TenantAccessPolicy)); err != nil {
				return err
			}
		}
		return update(ctx, obj, old)
	}
	return r.Store.Update(ctx, name, info, confirmedCreate, confirmed, forceAllowCreate, options)
}

func (r *REST) confirm(ctx context.Context, p *v1alpha1.TenantAccessPolicy) error {
	if err := r.escalation.Confirm(ctx, p); err != nil {
		return apierrors.NewForbidden(Resource, p.Name, err)
	}
	return nil
}

// Follow tells index of the policies of every space until ctx ends.
func (r *REST) Follow(ctx context.Context, index follow.Index[*v1alpha1.TenantAccessPolicy]) {
	follow.Run(ctx, "tenant-access-policies", tenant.Everything, r.Store, index, r.seen)
}
