package flowcontrol

import (
	"fmt"
	"io"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/utils/ptr"

	"github.com/tenantry/tenantry/api/v1alpha1"
	"github.com/tenantry/tenantry/internal/server/storage"
	"github.com/tenantry/tenantry/internal/tenant"
)

// Size is how large one request of a tenant's users may be.
type Size struct {
	// BodyBytes that are read. No server reads more than mostBodyBytes.
	BodyBytes int64
	// ListObjects in one answer. Zero is any number.
	ListObjects int32
}

// The bounds of Size.BodyBytes, as in the schema of Tenants. The upper one is
// upstream's own limit, which is enforced there.
const (
	leastBodyBytes = 1 << 10
	mostBodyBytes  = 3 << 20
)

// of returns the size that holds for a tenant with limits of its own, if any.
func (s Size) of(own *v1alpha1.RequestLimit) Size {
	if own != nil {
		s.BodyBytes = ptr.Deref(own.BodyBytes, s.BodyBytes)
		s.ListObjects = ptr.Deref(own.ListObjects, s.ListObjects)
	}
	return s
}

// WithRequestLimit refuses with 413 what is larger than a request may be of the
// tenant that asks: bodies here, lists in storage, where their length is known. It
// runs after fairness has given the request a place, so that a tenant's bodies take
// no more memory than its places times its limit. Users of the system have no limits.
func WithRequestLimit(handler http.Handler, defaults Size, own func(tenant.Name) *v1alpha1.RequestLimit, serializer runtime.NegotiatedSerializer) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		ctx := req.Context()
		n := payer(ctx)
		if !n.IsSpace() {
			handler.ServeHTTP(w, req)
			return
		}
		size := defaults.of(own(n))
		if size.BodyBytes < mostBodyBytes && req.Body != nil && req.Body != http.NoBody {
			if req.ContentLength > size.BodyBytes {
				respond(w, req, serializer, size.bodyExceeded(n))
				return
			}
			req.Body = &limitedBody{ReadCloser: req.Body, left: size.BodyBytes, exceeded: func() error { return size.bodyExceeded(n) }}
		}
		if size.ListObjects > 0 {
			req = withListLimit(req, storage.ListLimit{Tenant: n, Objects: int64(size.ListObjects)})
		}
		handler.ServeHTTP(w, req)
	})
}

// withListLimit returns a request with a limit, if it may be about many objects.
func withListLimit(req *http.Request, limit storage.ListLimit) *http.Request {
	info, ok := request.RequestInfoFrom(req.Context())
	if !ok {
		return req
	}
	switch info.Verb {
	case "deletecollection":
		limit.Whole = !hasPages(req)
	case "list", "watch":
	default:
		return req
	}
	return req.WithContext(storage.WithListLimit(req.Context(), limit))
}

// hasPages reports whether a request is about one page of a collection.
func hasPages(req *http.Request) bool {
	limit := req.URL.Query().Get("limit")
	return limit != "" && limit != "0"
}

func (s Size) bodyExceeded(n tenant.Name) error {
	return apierrors.NewRequestEntityTooLargeError(fmt.Sprintf(
		"users of tenant %q may send %d bytes at once (requestLimit.bodyBytes); send less, or ask the platform's administrators for more",
		n, s.BodyBytes))
}

// limitedBody is a body of which no more is read than is left. Upstream answers with
// the error that it gets from a body.
type limitedBody struct {
	io.ReadCloser
	left     int64
	exceeded func() error
}

// Read implements io.Reader.
func (b *limitedBody) Read(p []byte) (int, error) {
	if b.left < 0 {
		return 0, b.exceeded()
	}
	if int64(len(p)) > b.left+1 { // one more, to know whether there is more
		p = p[:b.left+1]
	}
	n, err := b.ReadCloser.Read(p)
	if b.left -= int64(n); b.left < 0 {
		return n - 1, b.exceeded()
	}
	return n, err
}
