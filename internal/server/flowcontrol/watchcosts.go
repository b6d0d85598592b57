package flowcontrol

import (
	"net/http"

	"k8s.io/apiserver/pkg/endpoints/request"
	upstream "k8s.io/apiserver/pkg/util/flowcontrol"

	"github.com/tenantry/tenantry/internal/tenant"
)

// Upstream's tracker counts watches by group, resource, namespace and name. The space is
// added to the group, so that a write is charged for the watches of its space only.

// RegisterWatch implements upstream's WatchTracker.
func (c *Control) RegisterWatch(r *http.Request) upstream.ForgetWatchFunc {
	ctx := r.Context()
	info, ok := request.RequestInfoFrom(ctx)
	in, err := tenant.ScopeFrom(ctx)
	if !ok || err != nil {
		return nil // authorization will refuse it
	}
	return c.Interface.RegisterWatch(r.WithContext(request.WithRequestInfo(ctx, within(in, info))))
}

// watchesOf returns how many watches see a write in a scope.
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
