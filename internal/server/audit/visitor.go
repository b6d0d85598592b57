package audit

import (
	"net/http"
	"strings"

	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/tenantry/tenantry/internal/tenant"
)

// visitor is the user of a request that may concern more than the space of the user.
type visitor struct {
	user.Info
	// in is the scope that the URL names, empty if it names none.
	in tenant.Scope
	// impersonates is whether the user impersonates another, perhaps of another
	// tenant.
	impersonates bool
}

// impersonation is the prefix of the headers for impersonation.
const impersonation = "Impersonate-"

// WithSpace adds the space of the request to its user, for an Evaluator.
func WithSpace(delegate authenticator.Request) authenticator.Request {
	return authenticator.RequestFunc(func(req *http.Request) (*authenticator.Response, bool, error) {
		response, ok, err := delegate.AuthenticateRequest(req)
		r := tenant.RequestFrom(req.Context())
		if !ok || err != nil || r == nil {
			return response, ok, err
		}
		impersonates := hasImpersonation(req.Header)
		if r.Requested == "" && !impersonates {
			return response, ok, err
		}
		visiting := *response // it may be shared
		visiting.User = visitor{Info: response.User, in: r.Requested, impersonates: impersonates}
		return &visiting, ok, err
	})
}

func hasImpersonation(header http.Header) bool {
	for name := range header {
		if strings.HasPrefix(name, impersonation) {
			return true
		}
	}
	return false
}
