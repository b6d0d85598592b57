package audit

import (
	"net/http"

	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/tenantry/tenantry/internal/tenant"
)

// visitor is the user of a request whose URL names a space.
type visitor struct {
	user.Info
	space tenant.Name
}

// WithSpace makes visitors of users, for an Evaluator.
func WithSpace(delegate authenticator.Request) authenticator.Request {
	return authenticator.RequestFunc(func(req *http.Request) (*authenticator.Response, bool, error) {
		response, ok, err := delegate.AuthenticateRequest(req)
		r := tenant.RequestFrom(req.Context())
		if !ok || err != nil || r == nil || r.Requested == "" {
			return response, ok, err
		}
		visiting := *response // which others may have, too
		visiting.User = visitor{Info: response.User, space: r.Requested}
		return &visiting, ok, err
	})
}
