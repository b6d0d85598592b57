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
	space, err := tenant.From(ctx)
	if !ok || err != nil {
		return nil // to be refused by authorization
	}
	return c.Interface.RegisterWatch(r.WithContext(request.WithRequestInfo(ctx, inSpace(space, info))))
}

// watchesIn returns how many watches see what a request in the space of n writes.
func (c *Control) watchesIn(n tenant.Name, info *request.RequestInfo) int {
	count := c.GetInterestedWatchCount(inSpace(n, info)) + c.GetInterestedWatchCount(inSpace(tenant.Everything, info))
	if n.IsSpace() {
		count += c.GetInterestedWatchCount(inSpace(tenant.All, info))
	}
	return count
}

// inSpace returns a copy of info whose group names the space.
func inSpace(n tenant.Name, info *request.RequestInfo) *request.RequestInfo {
	scoped := *info
	scoped.APIGroup = string(n) + "/" + info.APIGroup
	return &scoped
}
