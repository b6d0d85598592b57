package flowcontrol

import (
	"context"
	"net/http"

	"k8s.io/apiserver/pkg/endpoints/request"
)

// WithUnended keeps writes of tenants' users from ending when their clients are gone.
// Upstream answers then, which frees the seats, while what runs for the request goes on: a
// client that sends costly requests and closes its connections would have any number of
// them at work, and so would one that asks for a short timeout. Now its own end ends it, or
// upstream's limit for the handlers of requests; the client is answered when it asks to be. It
// runs before the request is bound to the life of the tenant, with which it still ends.
func WithUnended(handler http.Handler, longRunning request.LongRunningRequestCheck) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		ctx := req.Context()
		info, ok := request.RequestInfoFrom(ctx)
		if !ok || classify(info, 0) != write || !chargedTenant(ctx).IsSpace() || longRunning != nil && longRunning(req, info) {
			handler.ServeHTTP(w, req)
			return
		}
		unended, cancel := context.WithTimeout(context.WithoutCancel(ctx), mostUnended)
		defer cancel()
		handler.ServeHTTP(w, req.WithContext(unended))
	})
}
