package authentication

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
	"k8s.io/apiserver/pkg/endpoints/responsewriter"

	"github.com/tenantry/tenantry/internal/server/authentication/identity"
	"github.com/tenantry/tenantry/internal/tenant"
)

// retryAfter is after how many seconds to try again.
const retryAfter = 2

// errUnavailable says to clients that it cannot be known now who they are.
func errUnavailable() *apierrors.StatusError {
	err := apierrors.NewServiceUnavailable("what knows these credentials does not answer; they are neither accepted nor refused, try again")
	err.ErrStatus.Details = &metav1.StatusDetails{RetryAfterSeconds: retryAfter}
	return err
}

// errLimited says to clients when their password is looked at, which may be right.
func errLimited(after time.Duration) *apierrors.StatusError {
	seconds := int(math.Ceil(after.Seconds()))
	return apierrors.NewTooManyRequests(fmt.Sprintf("too many wrong passwords of this user, or from this address; try again in %d seconds", seconds), seconds)
}

type unavailableKey struct{}

// WithUnavailable answers 503 where credentials cannot be verified, 429 where they are not
// because too many were wrong. Upstream's filter
// answers 401 to every error, after which clients throw good credentials away and log in
// again.
func WithUnavailable(handler http.Handler, serializer runtime.NegotiatedSerializer) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		answer := &unavailable{ResponseWriter: w, req: req, serializer: serializer}
		ctx := context.WithValue(req.Context(), unavailableKey{}, answer)
		handler.ServeHTTP(responsewriter.WrapForHTTP1Or2(answer), req.WithContext(ctx))
	})
}

// Unavailable tells WithUnavailable of a request whose credentials cannot be verified, and
// the audit log, which has upstream's 401. Upstream does not log the error, of which there
// may be one for each request.
func Unavailable(delegate authenticator.Request) authenticator.Request {
	return authenticator.RequestFunc(func(req *http.Request) (*authenticator.Response, bool, error) {
		response, ok, err := delegate.AuthenticateRequest(req)
		answer, _ := req.Context().Value(unavailableKey{}).(*unavailable)
		if answer == nil || !errors.Is(err, identity.ErrUnavailable) {
			return response, ok, err
		}
		audit.AddAuditAnnotation(req.Context(), tenant.AuditUnavailable, "true")
		answer.status = errUnavailable()
		if limited := limitOf(err); limited != nil {
			answer.status = errLimited(limited.After)
		}
		return nil, false, nil
	})
}

// limitOf returns the Limited that is in err, nil if there is none. Upstream's aggregates cannot
// be unwrapped.
func limitOf(err error) *identity.Limited {
	if limited, is := errors.AsType[*identity.Limited](err); is {
		return limited
	}
	if aggregate, is := errors.AsType[utilerrors.Aggregate](err); is {
		for _, err := range aggregate.Errors() {
			if limited := limitOf(err); limited != nil {
				return limited
			}
		}
	}
	return nil
}

type unavailable struct {
	http.ResponseWriter
	req        *http.Request
	serializer runtime.NegotiatedSerializer
	// status is set by authentication, and written by WriteHeader.
	status  *apierrors.StatusError
	written bool
}

// Unwrap implements responsewriter.UserProvidedDecorator.
func (u *unavailable) Unwrap() http.ResponseWriter { return u.ResponseWriter }

// WriteHeader implements http.ResponseWriter.
func (u *unavailable) WriteHeader(status int) {
	if u.status == nil || status != http.StatusUnauthorized {
		u.ResponseWriter.WriteHeader(status)
		return
	}
	u.written = true
	responsewriters.ErrorNegotiated(u.status, u.serializer, schema.GroupVersion{Version: "v1"}, u.ResponseWriter, u.req)
}

// Write implements http.ResponseWriter. The body of the 401 is not sent.
func (u *unavailable) Write(body []byte) (int, error) {
	if u.written {
		return len(body), nil
	}
	return u.ResponseWriter.Write(body)
}
