package authentication

import (
	"net/http"

	"k8s.io/apiserver/pkg/endpoints/responsewriter"
)

// challenge asks for a user name and a password.
const challenge = `Basic realm="tenantry", charset="UTF-8"`

// WithChallenge tells clients without valid credentials that passwords are accepted (RFC
// 7617).
func WithChallenge(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		handler.ServeHTTP(responsewriter.WrapForHTTP1Or2(&challenger{ResponseWriter: w}), req)
	})
}

type challenger struct{ http.ResponseWriter }

// Unwrap implements responsewriter.UserProvidedDecorator.
func (c *challenger) Unwrap() http.ResponseWriter { return c.ResponseWriter }

// WriteHeader implements http.ResponseWriter.
func (c *challenger) WriteHeader(status int) {
	if status == http.StatusUnauthorized {
		c.Header().Set("WWW-Authenticate", challenge)
	}
	c.ResponseWriter.WriteHeader(status)
}
