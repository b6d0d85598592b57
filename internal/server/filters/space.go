package filters

import (
	"errors"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/endpoints/request"

	"github.com/tenantry/tenantry/internal/tenant"
)

// WithSpace refuses what a space does not take. It runs after authorization, so
// that nobody learns from it about a tenant that is not their own.
func WithSpace(handler http.Handler, serializer runtime.NegotiatedSerializer) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		n, err := tenant.From(req.Context())
		if err != nil && !errors.Is(err, tenant.ErrNoTenant) {
			reject(w, req, serializer, apierrors.NewForbidden(schema.GroupResource{}, "", err))
			return
		}
		if n == tenant.All || n == tenant.Everything {
			if info, ok := request.RequestInfoFrom(req.Context()); ok && info.IsResourceRequest && info.Verb != "list" && info.Verb != "watch" {
				reject(w, req, serializer, apierrors.NewMethodNotSupported(
					schema.GroupResource{Group: info.APIGroup, Resource: info.Resource}, info.Verb+" in all tenants"))
				return
			}
		}
		handler.ServeHTTP(w, req)
	})
}
