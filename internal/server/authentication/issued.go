package authentication

import (
	"context"
	"net/http"
	"strings"
	"time"

	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/tenantry/tenantry/internal/server/authentication/identity"
	"github.com/tenantry/tenantry/internal/server/authentication/webtoken"
	"github.com/tenantry/tenantry/internal/tenant"
)

// Since returns the time before which credentials of a tenant's users were issued by an
// earlier tenant of the name, zero if there was none. The name is empty for users without
// tenant. A nil Since knows of no earlier tenants.
type Since func(ctx context.Context, n tenant.Name) (time.Time, error)

// issuing checks when credentials were issued, and for which of the tenants of a name.
type issuing struct {
	since     Since
	tenantUID TenantUID
}

// check refuses a user whose credentials were issued too early.
func (i issuing) check(ctx context.Context, u user.Info, issued time.Time) error {
	n, err := tenant.OfUser(u)
	if err != nil {
		return identity.Refuse("%w", err)
	}
	if i.since == nil {
		return nil
	}
	if err := i.tenantUID.note(ctx, n); err != nil {
		return err
	}
	since, err := i.since(ctx, n)
	if err != nil {
		return err
	}
	if issued.IsZero() && !since.IsZero() {
		return identity.Refuse("that of %q does not say when it was issued (iat), and tenant %q was made again at %s: have its issuer say it",
			u.GetName(), n, since.UTC().Format(time.RFC3339))
	}
	if issued.Before(since) {
		return identity.Refuse("those of %q were issued at %s, before tenant %q was made again at %s; issue new ones",
			u.GetName(), issued.UTC().Format(time.RFC3339), n, since.UTC().Format(time.RFC3339))
	}
	return nil
}

// certificates wraps an authenticator of client certificates. The start of their validity
// is the time when they were issued.
func (i issuing) certificates(delegate authenticator.Request) authenticator.Request {
	return authenticator.RequestFunc(func(req *http.Request) (*authenticator.Response, bool, error) {
		response, ok, err := delegate.AuthenticateRequest(req)
		if err != nil || !ok {
			return response, ok, err
		}
		if err := i.check(req.Context(), response.User, req.TLS.PeerCertificates[0].NotBefore); err != nil {
			return nil, false, err
		}
		return response, true, nil
	})
}

// tokens wraps an authenticator of tokens. JSON web tokens have the time when they were
// issued, or may be of any; other tokens are left to their issuer, and those of Secrets to these.
func (i issuing) tokens(delegate authenticator.Token) authenticator.Token {
	return authenticator.TokenFunc(func(ctx context.Context, token string) (*authenticator.Response, bool, error) {
		response, ok, err := delegate.AuthenticateToken(ctx, token)
		if err != nil || !ok {
			return response, ok, err
		}
		claims := webtoken.Parse(token)
		issued := claims.Time("iat")
		if claims == nil || issued.IsZero() && strings.HasPrefix(response.User.GetName(), serviceaccount.ServiceAccountUsernamePrefix) {
			return response, true, nil
		}
		if err := i.check(ctx, response.User, issued); err != nil {
			return nil, false, err
		}
		return response, true, nil
	})
}
