package egress

import (
	"context"
	"net/http"
	"time"

	"k8s.io/apiserver/pkg/endpoints/request"

	"github.com/tenantry/tenantry/internal/roundtrip"
	"github.com/tenantry/tenantry/internal/tenant"
)

const (
	// platformTimeout is how long each webhook of a tenant may delay a request of a system
	// user: controllers serve all tenants with a few workers. After it, the webhook's
	// failurePolicy applies.
	platformTimeout = 2 * time.Second
	// conversionTimeout is the same for conversion webhooks, whose calls do not carry a
	// user, and which have no timeout upstream.
	conversionTimeout = 10 * time.Second
)

// withTimeout limits how long a request waits for a webhook of a tenant, by the user of the
// request. Tenants' own users wait as long as the webhook's timeoutSeconds.
func withTimeout(next http.RoundTripper) http.RoundTripper {
	return roundtrip.Func(func(req *http.Request) (*http.Response, error) {
		limit := CallTimeout(req.Context())
		if limit == 0 {
			return next.RoundTrip(req)
		}
		ctx, cancel := context.WithTimeout(req.Context(), limit)
		return roundtrip.Ending(next, req.WithContext(ctx), cancel)
	})
}

// CallTimeout returns how long the request of a call may wait, zero if there is no limit
// here.
func CallTimeout(ctx context.Context) time.Duration {
	if _, ok := request.UserFrom(ctx); !ok {
		return conversionTimeout
	}
	if n, err := tenant.UserTenant(ctx); err != nil || n == tenant.System {
		return platformTimeout
	}
	return 0
}
