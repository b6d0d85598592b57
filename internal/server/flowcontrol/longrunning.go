package flowcontrol

import (
	"net/http"

	"k8s.io/apiserver/pkg/endpoints/request"

	"github.com/tenantry/tenantry/internal/tenant"
)

// LongRunning returns which requests last, and have no seat. Upstream says so by the name of a subresource, such as log or
// exec, whatever resource it is of: authorization and the body of such a request would cost others' processors. In the space
// of a tenant, where no pod runs, only watches last.
func LongRunning(upstream request.LongRunningRequestCheck) request.LongRunningRequestCheck {
	return func(req *http.Request, info *request.RequestInfo) bool {
		if in, err := tenant.ScopeFrom(req.Context()); err == nil && in != tenant.System.Scope() {
			return info.Verb == "watch"
		}
		return upstream(req, info)
	}
}
