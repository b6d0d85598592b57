package filters

import (
	"fmt"
	"net/http"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/endpoints/request"

	"github.com/tenantry/tenantry/internal/tenant"
)

// WithNamespace notes for which namespace a request that changes something was authorized. Its body may come, and
// webhooks may answer, when there is another one of the name; see spacepolicy.Namespaces. Watches, and reads, which may
// wait until the server knows of a resource version, end with their namespace; those of the namespace itself show no
// other one of its name. It runs right after authorization, and refuses what would be the flattened name of a namespace
// of another space.
func WithNamespace(handler http.Handler, lives *NamespaceWatch, isLong request.LongRunningRequestCheck, serializer runtime.NegotiatedSerializer) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		ctx := req.Context()
		info, ok := request.RequestInfoFrom(ctx)
		n, err := tenant.SpaceFrom(ctx)
		if !ok || !info.IsResourceRequest || info.Namespace == "" || err != nil { // what follows says so
			handler.ServeHTTP(w, req)
			return
		}
		if strings.ContainsAny(info.Namespace, tenant.FlatSeparator+"%") {
			reject(w, req, serializer, apierrors.NewBadRequest(fmt.Sprintf("no namespace can have the name %q", info.Namespace)))
			return
		}
		name := tenant.Flatten(n, info.Namespace)
		reads := req.Method == http.MethodGet || req.Method == http.MethodHead
		if reads || isLong(req, info) {
			bound, release := lives.Bind(ctx, name)
			defer release()
			req = req.WithContext(bound)
		}
		if !reads {
			tenant.RequestFrom(ctx).NoteNamespace(lives.UIDOf(name))
		} else if uid := lives.Known(name); isNamespace(info) && uid != "" { // one of which this server has just heard is read, and the read ends with it
			tenant.RequestFrom(ctx).NoteNamespace(uid)
		}
		handler.ServeHTTP(w, req)
	})
}

func isNamespace(info *request.RequestInfo) bool {
	return info.APIGroup == "" && info.Resource == "namespaces"
}
