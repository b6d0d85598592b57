package filters

import (
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"

	"github.com/tenantry/tenantry/internal/tenant"
)

// maxURI bounds, in bytes, what is logged and audited of every request, allowed or not.
const maxURI = 64 << 10

// WithTenant reads the space from the URL, removes it from the path and puts it
// into the request's context. It is the outermost filter: all others see an
// ordinary Kubernetes path.
func WithTenant(handler http.Handler, serializer runtime.NegotiatedSerializer) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if len(req.RequestURI) > maxURI {
			reject(w, req, serializer, tooLong(http.StatusRequestURITooLong,
				"the URL has %d bytes, and may have %d; use shorter selectors", len(req.RequestURI), maxURI))
			return
		}
		if err := checkHeaders(req.Header); err != nil {
			reject(w, req, serializer, err)
			return
		}
		target, err := tenant.ParsePath(req.URL.Path, req.URL.EscapedPath())
		if err != nil {
			reject(w, req, serializer, apierrors.NewBadRequest(err.Error()))
			return
		}
		scoped := req.WithContext(tenant.WithRequest(req.Context(), &tenant.Request{
			Requested: target.Scope, Impersonated: impersonatedExtras(req.Header)}))
		if target.Scope != "" {
			u := *req.URL
			u.Path, u.RawPath = target.Path, target.Escaped
			scoped.URL, scoped.RequestURI = &u, u.RequestURI()
		}
		handler.ServeHTTP(w, scoped)
	})
}

func reject(w http.ResponseWriter, req *http.Request, serializer runtime.NegotiatedSerializer, err error) {
	responsewriters.ErrorNegotiated(err, serializer, schema.GroupVersion{Version: "v1"}, w, req)
}
