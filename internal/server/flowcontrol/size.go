package flowcontrol

import (
	"fmt"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/utils/ptr"

	"github.com/tenantry/tenantry/api/v1alpha1"
	"github.com/tenantry/tenantry/internal/roundtrip"
	"github.com/tenantry/tenantry/internal/server/storage"
	"github.com/tenantry/tenantry/internal/tenant"
)

// Size is the maximum size of a request of a tenant's users.
type Size struct {
	// BodyBytes is the maximum size of a body. No server reads more than mostBodyBytes.
	BodyBytes int64
	// ListObjects is the maximum length of a list. Zero is any number.
	ListObjects int32
}

// The bounds of Size.BodyBytes, as in the schema of Tenants. Upstream enforces the upper
// one.
const (
	leastBodyBytes = 1 << 10
	mostBodyBytes  = 3 << 20
)

// of returns the size for a tenant with limits, if limit is not nil.
func (s Size) of(limit *v1alpha1.RequestLimit) Size {
	if limit != nil {
		s.BodyBytes = ptr.Deref(limit.BodyBytes, s.BodyBytes)
		s.ListObjects = ptr.Deref(limit.ListObjects, s.ListObjects)
	}
	return s
}

// WithRequestLimit refuses with 413 requests beyond the size for their tenant: bodies here,
// lists in storage, where their length is known. It runs after fairness has given the
// request a seat, so that a tenant's bodies take no more memory than its seats times its
// limit, but for those of less than largeBody, which come before. System users have no limits.
func WithRequestLimit(handler http.Handler, defaults Size, limitOf func(tenant.Name) *v1alpha1.RequestLimit, serializer runtime.NegotiatedSerializer) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		ctx := req.Context()
		n := chargedTenant(ctx)
		if !n.IsSpace() {
			handler.ServeHTTP(w, req)
			return
		}
		size := defaults.of(limitOf(n))
		if size.BodyBytes < mostBodyBytes && req.Body != nil && req.Body != http.NoBody {
			if req.ContentLength > size.BodyBytes {
				respond(w, req, serializer, size.bodyExceeded(n))
				return
			}
			// Upstream responds with the error of a body.
			req.Body = &roundtrip.Bounded{ReadCloser: req.Body, Left: size.BodyBytes, TooLarge: func() error { return size.bodyExceeded(n) }}
		}
		if size.ListObjects > 0 {
			req = withListLimit(req, storage.ListLimit{Tenant: n, Objects: int64(size.ListObjects)})
		}
		handler.ServeHTTP(w, req)
	})
}

// withListLimit returns a request with a limit, if it may read many objects.
func withListLimit(req *http.Request, limit storage.ListLimit) *http.Request {
	info, ok := request.RequestInfoFrom(req.Context())
	if !ok {
		return req
	}
	switch info.Verb {
	case "deletecollection":
		limit.Unpaged = !hasPages(req)
	case "list", "watch":
	default:
		return req
	}
	return req.WithContext(storage.WithListLimit(req.Context(), limit))
}

// hasPages reports whether a request is for one page of a collection.
func hasPages(req *http.Request) bool {
	limit := req.URL.Query().Get("limit")
	return limit != "" && limit != "0"
}

func (s Size) bodyExceeded(n tenant.Name) error {
	return apierrors.NewRequestEntityTooLargeError(fmt.Sprintf(
		"users of tenant %q may send %d bytes at once (requestLimit.bodyBytes); send less, or ask the platform's administrators for more",
		n, s.BodyBytes))
}
