package flowcontrol

import (
	"context"
	"net/http"

	"k8s.io/apiserver/pkg/endpoints/request"
)

// WithUnended keeps writes of tenants' users from ending when their clients are gone.
// Upstream answers then, which frees the seats, while what runs for the request goes on: a
// client that sends costly requests and closes its connections would have any number of
// them at work. Now upstream's limit of the time of a request ends it, or its own end. It
// runs before the request is bound to the life of the tenant, with which it still ends.
func WithUnended(handler http.Handler, longRunning request.LongRunningRequestCheck) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		ctx := req.Context()
		info, ok := request.RequestInfoFrom(ctx)
		if !ok || classify(info, 0) != write || !chargedTenant(ctx).IsSpace() || longRunning != nil && longRunning(req, info) {
			handler.ServeHTTP(w, req)
			return
		}
		unended := context.WithoutCancel(ctx)
		if deadline, ok := ctx.Deadline(); ok {
			var cancel context.CancelFunc
			unended, cancel = context.WithDeadline(unended, deadline)
			defer cancel()
		}
		handler.ServeHTTP(w, req.WithContext(unended))
	})
}
