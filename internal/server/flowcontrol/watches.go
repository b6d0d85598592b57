package flowcontrol

import (
	"net/http"

	"k8s.io/apiserver/pkg/endpoints/request"
	upstream "k8s.io/apiserver/pkg/util/flowcontrol"

	"github.com/tenantry/tenantry/internal/tenant"
)

// Upstream's tracker counts watches by group, resource, namespace and name. It
// is given the space as a part of the group, so that a write is charged for the
// watches that see it and not for those of other tenants.

// RegisterWatch implements upstream's WatchTracker.
func (c *Control) RegisterWatch(r *http.Request) upstream.ForgetWatchFunc {
	ctx := r.Context()
	info, ok := request.RequestInfoFrom(ctx)
	in, err := tenant.ScopeFrom(ctx)
	if !ok || err != nil {
		return nil // to be refused by authorization
	}
	return c.Interface.RegisterWatch(r.WithContext(request.WithRequestInfo(ctx, within(in, info))))
}

// watchesOf returns how many watches see what a request in a scope writes.
func (c *Control) watchesOf(in tenant.Scope, info *request.RequestInfo) int {
	count := c.GetInterestedWatchCount(within(in, info)) + c.GetInterestedWatchCount(within(tenant.Everything, info))
	if _, of := in.Tenant(); of {
		count += c.GetInterestedWatchCount(within(tenant.All, info))
	}
	return count
}

// within returns a copy of info whose group names the scope.
func within(in tenant.Scope, info *request.RequestInfo) *request.RequestInfo {
	scoped := *info
	scoped.APIGroup = string(in) + "/" + info.APIGroup
	return &scoped
}
