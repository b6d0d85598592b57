package flowcontrol

import (
	"errors"
	"fmt"
	"math"
	"net/http"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
	endpointmetrics "k8s.io/apiserver/pkg/endpoints/metrics"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/warning"

	"github.com/tenantry/tenantry/internal/tenant"
)

// WithLimits refuses requests beyond the limits of their tenant with 429. It runs after
// authorization: forbidden requests cost little and do not count. System users have no
// limits. The connections of authorized requests are their users' from then on.
func WithLimits(handler http.Handler, limits *Limits, longRunning request.LongRunningRequestCheck, serializer runtime.NegotiatedSerializer) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		ctx := req.Context()
		recognize(ctx)
		n := chargedTenant(ctx)
		if !n.IsSpace() {
			handler.ServeHTTP(w, req)
			return
		}
		info, ok := request.RequestInfoFrom(ctx)
		if !ok {
			respond(w, req, serializer, apierrors.NewInternalError(errors.New("no RequestInfo in the context")))
			return
		}
		done, refused := limits.admit(n, kindOf(req, info, longRunning))
		if refused != nil {
			refusedTotal.WithLabelValues(string(refused.limit)).Inc()
			endpointmetrics.RecordRequestTermination(req, info, endpointmetrics.APIServerComponent, http.StatusTooManyRequests)
			respond(w, req, serializer, refused.error(n))
			return
		}
		defer done()
		if info.APIGroup == flowcontrolv1.GroupName && (info.Verb == "create" || info.Verb == "update") {
			warning.AddWarning(ctx, "", info.Resource+" of a tenant's space are stored and have no effect: the server is shared, and its administrators decide who has which share")
		}
		handler.ServeHTTP(w, req)
	})
}

func kindOf(req *http.Request, info *request.RequestInfo, longRunning request.LongRunningRequestCheck) kind {
	switch {
	case info.Verb == "watch":
		return watching
	case longRunning != nil && longRunning(req, info):
		return otherLongRunning
	default:
		return short
	}
}

// error returns the error of a refused request.
func (r *refusal) error(n tenant.Name) error {
	var reached string
	switch r.limit {
	case limitRequests:
		reached = fmt.Sprintf("%d requests per second, %d at once after a pause", r.allowed.RequestsPerSecond, r.allowed.Burst)
	case limitInFlight:
		reached = fmt.Sprintf("%d requests at a time", r.allowed.InFlight)
	case limitWatches:
		reached = fmt.Sprintf("%d open watches", r.allowed.Watches)
	}
	return apierrors.NewTooManyRequests(fmt.Sprintf(
		"tenant %q has reached its limit of %s (rateLimit.%s); try again later, or ask the platform's administrators for more",
		n, reached, r.limit), int(math.Ceil(r.retryAfter.Seconds())))
}

func respond(w http.ResponseWriter, req *http.Request, serializer runtime.NegotiatedSerializer, err error) {
	responsewriters.ErrorNegotiated(err, serializer, schema.GroupVersion{Version: "v1"}, w, req)
}
