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

// authenticators authenticates users and settles their tenants.
type authenticators struct {
	// credentials tries each kind of credentials.
	credentials authenticator.Request
	// anonymous is used without credentials. Nil refuses such requests.
	anonymous     authenticator.Request
	tenantUID     TenantUID
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

// finish gives users without tenant, but for Keystone's, the default one and notes the tenant
// in the request.
func (a *authenticators) finish(req *http.Request, response *authenticator.Response) (*authenticator.Response, bool, error) {
	n, err := tenant.OfUser(response.User)
	if err != nil {
		return nil, false, identity.Refuse("%w", err)
	}
	// Any domain could enter by the default.
	isDefault := n == "" && !identity.IsKeystone(response.User.GetName())
	if isDefault && a.defaultTenant != "" {
		// The response may be shared by the token cache.
		settled := *response
		n, response = a.defaultTenant, &settled
		response.User = identity.Of(response.User, n)
	}
	if err := note(req, n); err != nil {
		return nil, false, err
	}
	if n == "" && !isDefault {
		return response, true, nil
	}
	if err := a.tenantUID.note(req.Context(), n); err != nil {
		return nil, false, err
	}
	return response, true, nil
}

// note tells the other filters the tenant of the credentials. Within a TokenReview the
// request has a tenant already, which stays, so that a review in the space of one tenant
// accepts no users of another.
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

// errNoSpace refuses requests of the server to itself that name no space.
var errNoSpace = errors.New("the server's own request names no space")

// WithLoopback authenticates the server's own user, which belongs to the system tenant,
// before all others. It is identified by its tokens, not by its name, which other users
// may have. It has every right in every space, so a request with the first token must
// name a space (see package loopback). informers is the token of the only client that
// need not: upstream's informers of the system space, whose client cannot be changed.
func WithLoopback(delegate authenticator.Request, token, informers string) authenticator.Request {
	uid := uuid.NewString()
	return authenticator.RequestFunc(func(req *http.Request) (*authenticator.Response, bool, error) {
		named := bears(req, token)
		if !named && !bears(req, informers) {
			response, ok, err := delegate.AuthenticateRequest(req)
			if err != nil {
				klog.V(4).InfoS("Credentials not accepted", "err", err)
			}
			return response, ok, err
		}
		req.Header.Del("Authorization") // as upstream does
		r := tenant.RequestFrom(req.Context())
		if named && (r == nil || r.Requested == "") {
			klog.ErrorS(errNoSpace, "Refusing a request", "method", req.Method, "path", req.URL.Path)
			return nil, false, errNoSpace
		}
		if r != nil {
			r.Own = true
		}
		u := &user.DefaultInfo{Name: user.APIServerUser, UID: uid, Groups: []string{user.AllAuthenticated, user.SystemPrivilegedGroup}}
		return &authenticator.Response{User: identity.Of(u, tenant.System)}, true, note(req, tenant.System)
	})
}

// bears reports whether a request has a token, if the token is not empty.
func bears(req *http.Request, token string) bool {
	return token != "" && subtle.ConstantTimeCompare([]byte(req.Header.Get("Authorization")), []byte("Bearer "+token)) == 1
}
