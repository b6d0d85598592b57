package filters

import (
	"net/http"

	"k8s.io/apimachinery/pkg/runtime"
)

// WithTenantField checks and removes metadata.tenant in request bodies.
func WithTenantField(handler http.Handler, serializer runtime.NegotiatedSerializer) http.Handler {
	return handler
}
