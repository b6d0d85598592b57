package authentication

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/group"
	"k8s.io/apiserver/pkg/authentication/request/bearertoken"
	"k8s.io/apiserver/pkg/authentication/request/x509"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	"k8s.io/klog/v2"

	"github.com/tenantry/tenantry/internal/tenant"
)

// Config says where tenants' users come from.
type Config struct {
	// ClientCA verifies client certificates (--client-ca-file); nil accepts none.
	ClientCA dynamiccertificates.CAContentProvider
	// TokenFile is --token-auth-file in the seed's format; empty for none.
	TokenFile string
	// DefaultTenant is the tenant of users without one; empty for none.
	DefaultTenant tenant.Name
	// ServiceAccounts of tenants.
	ServiceAccounts ServiceAccounts
}

// errRejected ends authentication: the credentials were genuine and unusable,
// so no other authenticator may accept them.
var errRejected = errors.New("credentials rejected")

// authenticators tries the tenant-aware authenticators before upstream's.
type authenticators struct {
	certificates  authenticator.Request
	tokens        authenticator.Request
	accounts      authenticator.Request
	upstream      authenticator.Request
	defaultTenant tenant.Name
}

// New returns the authenticator of the server. upstream authenticates by what
// remains: service accounts of the system space, front proxy, anonymous.
func New(_ context.Context, upstream authenticator.Request, config Config) (authenticator.Request, error) {
	a := &authenticators{upstream: upstream, defaultTenant: config.DefaultTenant}
	if config.ClientCA != nil {
		a.certificates = group.NewAuthenticatedGroupAdder(
			x509.NewDynamic(config.ClientCA.VerifyOptions, x509.UserConversionFunc(userOfCertificate)))
	}
	if config.TokenFile != "" {
		tokens, err := readTokenFile(config.TokenFile)
		if err != nil {
			return nil, err
		}
		a.tokens = group.NewAuthenticatedGroupAdder(bearertoken.New(tokens))
	}
	if len(config.ServiceAccounts.Issuers) > 0 && config.ServiceAccounts.Keys != nil {
		a.accounts = group.NewAuthenticatedGroupAdder(bearertoken.New(newSpaceTokens(config.ServiceAccounts)))
	}
	return a, nil
}

// AuthenticateRequest implements authenticator.Request.
func (a *authenticators) AuthenticateRequest(req *http.Request) (*authenticator.Response, bool, error) {
	var failures []error
	for _, own := range []authenticator.Request{a.certificates, a.tokens, a.accounts} {
		if own == nil {
			continue
		}
		response, ok, err := own.AuthenticateRequest(req)
		if errors.Is(err, errRejected) {
			return nil, false, err
		}
		if ok {
			return a.finish(req, response)
		}
		if err != nil {
			failures = append(failures, err)
		}
	}
	response, ok, err := a.upstream.AuthenticateRequest(req)
	if err != nil || !ok {
		return nil, false, errors.Join(append(failures, err)...)
	}
	return a.finish(req, withSystemServiceAccount(response))
}

// finish settles the tenant of an authenticated user and notes it in the request.
func (a *authenticators) finish(req *http.Request, response *authenticator.Response) (*authenticator.Response, bool, error) {
	u := response.User
	n, err := tenant.OfUser(u)
	if err != nil {
		return nil, false, fmt.Errorf("%w: %w", errRejected, err)
	}
	if n == "" && a.defaultTenant != "" && u.GetName() != user.Anonymous {
		n = a.defaultTenant
	}
	if u.GetName() == user.APIServerUser {
		// The name of the server itself, which comes by the loopback token only.
		return nil, false, fmt.Errorf("%w: user name %q is reserved", errRejected, u.GetName())
	}
	// The response may be one that the token cache shares.
	settled := *response
	settled.User = withTenant(u, n)
	if err := note(req, n); err != nil {
		return nil, false, err
	}
	return &settled, true, nil
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
		return errRejected
	}
	return nil
}

// withTenant returns u with n as its tenant. In a tenant, groups of the system:
// namespace other than those the server itself gives mean nothing and are left
// out, so that no code that looks at them can be misled.
func withTenant(u user.Info, n tenant.Name) user.Info {
	result := &user.DefaultInfo{Name: u.GetName(), UID: u.GetUID(), Groups: u.GetGroups(), Extra: u.GetExtra()}
	if n == "" {
		return result
	}
	if n != tenant.System {
		result.Groups = slices.DeleteFunc(slices.Clone(u.GetGroups()), isPrivileged)
	}
	result.Extra = maps.Clone(u.GetExtra())
	if result.Extra == nil {
		result.Extra = make(map[string][]string, 1)
	}
	result.Extra[tenant.UserExtraKey] = []string{string(n)}
	return result
}

func isPrivileged(groupName string) bool {
	return strings.HasPrefix(groupName, "system:") &&
		groupName != user.AllAuthenticated && groupName != user.AllUnauthenticated &&
		groupName != serviceaccount.AllServiceAccountsGroup &&
		!strings.HasPrefix(groupName, serviceaccount.ServiceAccountGroupPrefix)
}

// withSystemServiceAccount sets the tenant of a service account that upstream
// has verified against the objects of the system space, and takes away what
// another authenticator may have put in the tenant's place.
func withSystemServiceAccount(response *authenticator.Response) *authenticator.Response {
	u := response.User
	extra := maps.Clone(u.GetExtra())
	delete(extra, tenant.UserExtraKey)
	if _, _, err := serviceaccount.SplitUsername(u.GetName()); err == nil {
		if extra == nil {
			extra = make(map[string][]string, 1)
		}
		extra[tenant.UserExtraKey] = []string{string(tenant.System)}
	}
	response.User = &user.DefaultInfo{Name: u.GetName(), UID: u.GetUID(), Groups: u.GetGroups(), Extra: extra}
	return response
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
		response.User = withTenant(response.User, tenant.System)
		return response, true, note(req, tenant.System)
	})
}
