package accesspolicy

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/registry/rest"

	"github.com/tenantry/tenantry/api/v1alpha1"
	"github.com/tenantry/tenantry/config/crd"
	"github.com/tenantry/tenantry/internal/follow"
	"github.com/tenantry/tenantry/internal/progress"
	"github.com/tenantry/tenantry/internal/server/definition"
	"github.com/tenantry/tenantry/internal/tenant"
)

// Resource is the resource of this package.
var Resource = v1alpha1.GroupVersion.WithResource("tenantaccesspolicies").GroupResource()

// REST serves policies. Their status is the server's own.
type REST struct {
	definition.Confirmed
	// seen is how far the authorizer's index is; writers wait for it.
	seen *progress.Progress
}

// NewREST returns the storage of policies.
func NewREST(scheme *runtime.Scheme, options generic.RESTOptionsGetter, uidOf UIDOf, escalation Escalation) (*REST, error) {
	common, table, err := definition.NewStrategy(scheme, crd.TenantAccessPolicies, parts)
	if err != nil {
		return nil, err
	}
	s := strategy{Strategy: common, uidOf: uidOf, now: time.Now}
	store, err := definition.NewStore[v1alpha1.TenantAccessPolicy, v1alpha1.TenantAccessPolicyList](options, Resource, "tenantaccesspolicy", s, table)
	if err != nil {
		return nil, err
	}
	seen := &progress.Progress{}
	follow.Await(store, seen)
	return &REST{definition.Confirmed{Store: store, Confirm: escalation.confirm}, seen}, nil
}

// Status returns the storage of the subresource status, which nobody writes: its digests
// say which tenants a policy lets in.
func (r *REST) Status() rest.Storage { return definition.StatusReader{Store: r.Store} }

// ShortNames implements rest.ShortNamesProvider.
func (*REST) ShortNames() []string { return []string{"tap"} }

// Follow tells index of the policies of every space until ctx ends.
func (r *REST) Follow(ctx context.Context, index follow.Index[*v1alpha1.TenantAccessPolicy]) {
	follow.Run(ctx, "tenant-access-policies", tenant.Everything, r.Store, index, r.seen)
}
