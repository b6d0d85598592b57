package usage

import (
	"context"
	"net/http"
	"time"

	endpointmetrics "k8s.io/apiserver/pkg/endpoints/metrics"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/endpoints/responsewriter"

	"github.com/tenantry/tenantry/internal/tenant"
)

// exchange is one request with its answer. It travels in the request's context.
type exchange struct {
	endpointmetrics.ResponseWriterDelegator
	meter    *Meter
	recorder *Recorder

	account *account // which counts the request while it is being served
	kind    kind
}

type exchangeKey struct{}

// WithAnswers counts the answers to all requests, those refused included. It is
// within the filter that puts a tenant.Request into the context and around
// authentication. The recorder may be nil.
func WithAnswers(handler http.Handler, m *Meter, r *Recorder) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		began := m.clock.Now()
		e := &exchange{meter: m, recorder: r}
		e.ResponseWriter = w
		ctx := context.WithValue(req.Context(), exchangeKey{}, e)
		defer func() { e.end(ctx, m.clock.Since(began)) }()
		handler.ServeHTTP(responsewriter.WrapForHTTP1Or2(e), req.WithContext(ctx))
	})
}

// WithOpen counts the requests that are being served. It is after authorization.
func WithOpen(handler http.Handler, isLong request.LongRunningRequestCheck) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if e, ok := req.Context().Value(exchangeKey{}).(*exchange); ok {
			info, _ := request.RequestInfoFrom(req.Context())
			e.open(req.Context(), info != nil && isLong(req, info))
			defer e.close()
			if info != nil && writes(info) {
				defer e.wrote(req.Context())
			}
		}
		handler.ServeHTTP(w, req)
	})
}

func (e *exchange) open(ctx context.Context, long bool) {
	if long {
		e.kind = endless
	}
	n := userTenant(ctx)
	e.meter.note(n)
	e.account = e.meter.account(n)
	e.account.open[e.kind].Add(1)
}

func (e *exchange) close() { e.account.open[e.kind].Add(-1) }

// writes reports whether a request may change what is stored.
func writes(info *request.RequestInfo) bool {
	switch info.Verb {
	case "get", "list", "watch":
		return false
	default:
		return info.IsResourceRequest
	}
}

// wrote notes that something was written, if the request says to which space.
func (e *exchange) wrote(ctx context.Context) {
	if space, err := tenant.SpaceFrom(ctx); err == nil {
		e.recorder.wrote(space)
	}
}

// end counts the answer where the tenant is counted by now.
func (e *exchange) end(ctx context.Context, took time.Duration) {
	n := userTenant(ctx)
	if e.account == nil { // it was refused, which is a request too
		e.meter.note(n)
	}
	e.recorder.asked(n)
	e.meter.account(n).count(e.kind, e.Status(), uint64(e.ContentLength()), took)
}

// userTenant returns the tenant of the credentials, if there were some.
func userTenant(ctx context.Context) tenant.Name {
	if r := tenant.RequestFrom(ctx); r != nil {
		return r.Authenticated
	}
	return ""
}
