package authentication

import (
	"context"
	"errors"
	"net/http"

	"k8s.io/apiserver/pkg/authentication/authenticator"

	"github.com/tenantry/tenantry/internal/server/authentication/identity"
)

// first tries the sources until one of them accepts the credentials or refuses
// them.
func first[T any](sources []T, try func(T) (*authenticator.Response, bool, error)) (*authenticator.Response, bool, error) {
	var failures []error
	for _, source := range sources {
		response, ok, err := try(source)
		switch {
		case errors.Is(err, identity.ErrRefused):
			return nil, false, err
		case err != nil:
			failures = append(failures, err)
		case ok:
			return response, true, nil
		}
	}
	return nil, false, errors.Join(failures...)
}

type tokenUnion []authenticator.Token

// AuthenticateToken implements authenticator.Token.
func (u tokenUnion) AuthenticateToken(ctx context.Context, token string) (*authenticator.Response, bool, error) {
	return first(u, func(source authenticator.Token) (*authenticator.Response, bool, error) {
		return source.AuthenticateToken(ctx, token)
	})
}

type requestUnion []authenticator.Request

// AuthenticateRequest implements authenticator.Request.
func (u requestUnion) AuthenticateRequest(req *http.Request) (*authenticator.Response, bool, error) {
	return first(u, func(source authenticator.Request) (*authenticator.Response, bool, error) {
		return source.AuthenticateRequest(req)
	})
}

// tokensOf returns an authenticator of tokens for one of requests, which upstream's
// options make.
func tokensOf(delegate authenticator.Request) authenticator.Token {
	return authenticator.TokenFunc(func(ctx context.Context, token string) (*authenticator.Response, bool, error) {
		req := (&http.Request{Header: http.Header{"Authorization": {"Bearer " + token}}}).WithContext(ctx)
		return delegate.AuthenticateRequest(req)
	})
}
