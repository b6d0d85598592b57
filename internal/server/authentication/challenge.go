package authentication

import (
	"net/http"

	"github.com/tenantry/tenantry/internal/roundtrip"
)

// challenge asks for a user name and a password.
const challenge = `Basic realm="tenantry", charset="UTF-8"`

// WithChallenge tells clients without valid credentials that passwords are accepted (RFC
// 7617).
func WithChallenge(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		handler.ServeHTTP(roundtrip.OnHeader(w, func(status int) {
			if status == http.StatusUnauthorized {
				w.Header().Set("WWW-Authenticate", challenge)
			}
		}), req)
	})
}
