package egress

import (
	"context"
	"io"
	"net/http"
	"time"

	"k8s.io/apiserver/pkg/endpoints/request"

	"github.com/tenantry/tenantry/internal/tenant"
)

const (
	// platformPatience is for how long each webhook of a tenant may keep a request of a
	// user of the system space waiting: controllers serve all tenants with a few workers.
	// What follows is what the webhook's failurePolicy says.
	platformPatience = 2 * time.Second
	// conversionPatience is the same for conversion webhooks, whose calls do not say for
	// whom they are, and which upstream would wait for without end.
	conversionPatience = 10 * time.Second
)

// withPatience waits for a webhook of a tenant no longer than the user who needs its
// answer may. Tenants' own users wait for as long as the webhook's timeoutSeconds.
func withPatience(next http.RoundTripper) http.RoundTripper { return patient{next} }

type patient struct{ next http.RoundTripper }

// patienceFor returns how long the request that leads to a call may wait, zero if
// nothing is said here.
func patienceFor(ctx context.Context) time.Duration {
	u, ok := request.UserFrom(ctx)
	if !ok {
		return conversionPatience
	}
	if own, err := tenant.OfUser(u); err != nil || own == tenant.System {
		return platformPatience
	}
	return 0
}

// RoundTrip implements http.RoundTripper.
func (p patient) RoundTrip(req *http.Request) (*http.Response, error) {
	limit := patienceFor(req.Context())
	if limit == 0 {
		return p.next.RoundTrip(req)
	}
	ctx, cancel := context.WithTimeout(req.Context(), limit)
	response, err := p.next.RoundTrip(req.WithContext(ctx))
	if err != nil {
		cancel()
		return nil, err
	}
	response.Body = bodyWithCancel{response.Body, cancel}
	return response, nil
}

// bodyWithCancel ends a request's context when its answer has been read.
type bodyWithCancel struct {
	io.ReadCloser
	cancel context.CancelFunc
}

// Close implements io.Closer.
func (b bodyWithCancel) Close() error {
	defer b.cancel()
	return b.ReadCloser.Close()
}
