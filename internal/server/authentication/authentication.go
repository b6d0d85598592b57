package authentication

import (
	"errors"
	"net/http"

	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/klog/v2"

	"github.com/tenantry/tenantry/internal/server/authentication/identity"
	"github.com/tenantry/tenantry/internal/tenant"
)

// authenticators answers with users whose tenant is settled.
type authenticators struct {
	// credentials of each kind, one after the other.
	credentials authenticator.Request
	// anonymous is asked when there were no credentials. Nil accepts nobody.
	anonymous     authenticator.Request
	defaultTenant tenant.Name
}

// AuthenticateRequest implements authenticator.Request.
func (a *authenticators) AuthenticateRequest(req *http.Request) (*authenticator.Response, bool, error) {
	response, ok, err := a.credentials.AuthenticateRequest(req)
	switch {
	case err != nil:
		return nil, false, err
	case ok:
		return a.finish(req, response)
	case a.anonymous != nil:
		return a.anonymous.AuthenticateRequest(req)
	default:
		return nil, false, nil
	}
}

// finish gives users without tenant the default one and notes the tenant in the
// request.
func (a *authenticators) finish(req *http.Request, response *authenticator.Response) (*authenticator.Response, bool, error) {
	n, err := tenant.OfUser(response.User)
	if err != nil {
		return nil, false, identity.Refuse("%w", err)
	}
	if n == "" && a.defaultTenant != "" {
		// The response may be one that the token cache shares.
		settled := *response
		n, response = a.defaultTenant, &settled
		response.User = identity.Of(response.User, n)
	}
	if err := note(req, n); err != nil {
		return nil, false, err
	}
	return response, true, nil
}

// note tells the other filters which tenant the credentials have. Within a
// TokenReview the request has a tenant already; it stays, and a review in one
// tenant knows no users of another.
func note(req *http.Request, n tenant.Name) error {
	r := tenant.RequestFrom(req.Context())
	switch {
	case r == nil:
		return errors.New("request did not pass the tenant filter")
	case r.Authenticated == "":
		r.Authenticated = n
	case r.Authenticated != tenant.System && r.Authenticated != n:
		return identity.Refuse("they are of another tenant")
	}
	return nil
}

// WithLoopback completes an authenticator that may answer with the loopback
// user, which upstream puts in front of all others: it belongs to the system
// tenant.
func WithLoopback(delegate authenticator.Request) authenticator.Request {
	return authenticator.RequestFunc(func(req *http.Request) (*authenticator.Response, bool, error) {
		response, ok, err := delegate.AuthenticateRequest(req)
		if err != nil || !ok || response.User.GetName() != user.APIServerUser {
			if err != nil {
				klog.V(4).InfoS("Credentials not accepted", "err", err)
			}
			return response, ok, err
		}
		response.User = identity.Of(response.User, tenant.System)
		return response, true, note(req, tenant.System)
	})
}
