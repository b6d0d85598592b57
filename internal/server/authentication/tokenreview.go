package authentication

import (
	"context"
	"errors"
	"net/http"
	"net/url"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/registry/authentication/tokenreview"

	"github.com/tenantry/tenantry/internal/server/authentication/identity"
	"github.com/tenantry/tenantry/internal/tenant"
)

// TokenReviews answers TokenReviews for the space of the request: only the tokens of that
// tenant are valid.
type TokenReviews struct {
	*tokenreview.REST
	authenticator authenticator.Request
	audiences     authenticator.Audiences
}

// NewTokenReviews returns the storage of TokenReviews.
func NewTokenReviews(delegate authenticator.Request, audiences authenticator.Audiences) *TokenReviews {
	return &TokenReviews{REST: tokenreview.NewREST(delegate, audiences), authenticator: delegate, audiences: audiences}
}

// Create implements rest.Creater.
func (r *TokenReviews) Create(ctx context.Context, obj runtime.Object, validate rest.ValidateObjectFunc, options *metav1.CreateOptions) (runtime.Object, error) {
	n, err := tenant.SpaceFrom(ctx)
	if err != nil {
		return nil, err
	}
	reviewer := &reviewed{Request: r.authenticator, tenant: n}
	review, err := tokenreview.NewREST(reviewer, r.audiences).Create(ctx, obj, validate, options)
	if err == nil && reviewer.unavailable {
		return nil, errUnavailable() // a review without an answer would be a denial
	}
	return review, err
}

// reviewed authenticates by tokens of one tenant. Upstream's review makes a new request
// from the token, which has not passed the filters.
type reviewed struct {
	authenticator.Request
	tenant tenant.Name
	// unavailable is set if nobody could tell.
	unavailable bool
}

var errUnknownToken = errors.New("the token is not known here")

// AuthenticateRequest implements authenticator.Request.
func (r *reviewed) AuthenticateRequest(req *http.Request) (*authenticator.Response, bool, error) {
	req = req.WithContext(tenant.WithRequest(req.Context(), &tenant.Request{}))
	req.URL = &url.URL{} // anonymous users may be allowed at some paths
	response, ok, err := r.Request.AuthenticateRequest(req)
	if err == nil && ok {
		n, invalid := tenant.OfUser(response.User)
		ok = invalid == nil && n == r.tenant
	}
	r.unavailable = errors.Is(err, identity.ErrUnavailable)
	switch {
	case err != nil && r.tenant == tenant.System:
		return nil, false, err
	case err != nil || !ok:
		// Only the platform learns the reason: a webhook may be down, or the token belongs to
		// another tenant.
		klog.V(4).InfoS("Reviewed token not accepted", "tenant", r.tenant, "err", err)
		return nil, false, errUnknownToken
	default:
		return response, true, nil
	}
}
