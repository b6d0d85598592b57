package audit

import (
	"net/http"
	"strings"

	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/tenantry/tenantry/internal/tenant"
)

// visitor is the user of a request that is, or may be, about more than the space of
// its user.
type visitor struct {
	user.Info
	// in is what the URL names, empty if it names nothing.
	in tenant.Scope
	// impersonates is whether the user would be somebody else, perhaps of another
	// tenant.
	impersonates bool
}

// impersonation begins the names of the headers by which a user becomes another.
const impersonation = "Impersonate-"

// WithSpace makes visitors of users, for an Evaluator.
func WithSpace(delegate authenticator.Request) authenticator.Request {
	return authenticator.RequestFunc(func(req *http.Request) (*authenticator.Response, bool, error) {
		response, ok, err := delegate.AuthenticateRequest(req)
		r := tenant.RequestFrom(req.Context())
		if !ok || err != nil || r == nil {
			return response, ok, err
		}
		impersonates := wouldImpersonate(req.Header)
		if r.Requested == "" && !impersonates {
			return response, ok, err
		}
		visiting := *response // which others may have, too
		visiting.User = visitor{Info: response.User, in: r.Requested, impersonates: impersonates}
		return &visiting, ok, err
	})
}

func wouldImpersonate(header http.Header) bool {
	for name := range header {
		if strings.HasPrefix(name, impersonation) {
			return true
		}
	}
	return false
}
