package filters

import (
	"net/http"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/endpoints/request"

	"github.com/tenantry/tenantry/internal/tenant"
)

// WithNamespace notes for which namespace a request that changes something was authorized. Its body may come, and webhooks may
// answer, when there is another one of the name; see spacepolicy.Namespaces. It runs right after authorization. uidOf
// returns the UID of a namespace of the flattened view, empty if it is not known.
func WithNamespace(handler http.Handler, uidOf func(tenant.Flat) types.UID) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		ctx := req.Context()
		if req.Method != http.MethodGet && req.Method != http.MethodHead {
			info, ok := request.RequestInfoFrom(ctx)
			n, err := tenant.SpaceFrom(ctx)
			if ok && err == nil && info.IsResourceRequest && info.Namespace != "" {
				tenant.RequestFrom(ctx).NoteNamespace(uidOf(tenant.Flatten(n, info.Namespace)))
			}
		}
		handler.ServeHTTP(w, req)
	})
}
