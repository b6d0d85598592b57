package authentication

import (
	"crypto/subtle"
	"errors"
	"net/http"

	"github.com/google/uuid"
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
	life          Life
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
	if err := a.life.note(req.Context(), n); err != nil {
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

// errNoSpace refuses what the server asks of itself without saying where.
var errNoSpace = errors.New("the server's own request names no space")

// WithLoopback puts the server's own user, which belongs to the system tenant, in
// front of all others. It is known by its tokens and not by its name, which others
// may have. As it has every right in every space, a request with the token own must
// name one (see package loopback). informers is the token of the only client that
// need not: upstream's informers of the system space have it before it can be changed.
func WithLoopback(delegate authenticator.Request, own, informers string) authenticator.Request {
	uid := uuid.NewString()
	return authenticator.RequestFunc(func(req *http.Request) (*authenticator.Response, bool, error) {
		named := bears(req, own)
		if !named && !bears(req, informers) {
			response, ok, err := delegate.AuthenticateRequest(req)
			if err != nil {
				klog.V(4).InfoS("Credentials not accepted", "err", err)
			}
			return response, ok, err
		}
		req.Header.Del("Authorization") // as upstream does
		if r := tenant.RequestFrom(req.Context()); named && (r == nil || r.Requested == "") {
			klog.ErrorS(errNoSpace, "Refusing a request", "method", req.Method, "path", req.URL.Path)
			return nil, false, errNoSpace
		}
		u := &user.DefaultInfo{Name: user.APIServerUser, UID: uid, Groups: []string{user.AllAuthenticated, user.SystemPrivilegedGroup}}
		return &authenticator.Response{User: identity.Of(u, tenant.System)}, true, note(req, tenant.System)
	})
}

// bears reports whether a request has a token, if there is such a token.
func bears(req *http.Request, token string) bool {
	return token != "" && subtle.ConstantTimeCompare([]byte(req.Header.Get("Authorization")), []byte("Bearer "+token)) == 1
}
