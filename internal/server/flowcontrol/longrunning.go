package flowcontrol

import (
	"net/http"

	"k8s.io/apiserver/pkg/endpoints/request"
)

// LongRunning returns which requests last, and have no seat. Upstream says so by the name of a subresource, such as log
// or exec, whatever resource it is of: authorization and the body of such a request would cost others' processors. In
// the space of a tenant only watches have none; streams of pods have one until they go on, see Lasting.
func LongRunning(upstream request.LongRunningRequestCheck) request.LongRunningRequestCheck {
	return func(req *http.Request, info *request.RequestInfo) bool {
		if isForTenant(req.Context()) {
			return info.Verb == "watch"
		}
		return upstream(req, info)
	}
}
