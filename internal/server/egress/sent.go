package egress

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/tenantry/tenantry/internal/process/ratelimit"
	"github.com/tenantry/tenantry/internal/process/signal"
	"github.com/tenantry/tenantry/internal/tenant"
)

// sentPerSecond is how many bytes the webhooks of a tenant are sent in a second, and sentAtOnce how many before that
// holds. Each call encodes what it sends anew, which is work for a processor, whether or not anybody is there to
// receive it.
const sentPerSecond, sentAtOnce = 32 << 20, 64 << 20

// errSent says that a call's time is over before its turn.
var errSent = fmt.Errorf("was not called in time: the webhooks of the space are sent at most %d bytes a second, and %d at once", sentPerSecond, sentAtOnce)

// sentBytes are what tenants' webhooks were sent of late.
var sentBytes = ratelimit.Limits[tenant.Name]{PerSecond: sentPerSecond, AtOnce: sentAtOnce}

// sent sends requests of a tenant at the rate that it has.
type sent struct {
	next http.RoundTripper
	of   tenant.Name
}

// RoundTrip implements http.RoundTripper.
func (s sent) RoundTrip(req *http.Request) (*http.Response, error) {
	if err := s.wait(req.Context(), int(max(0, req.ContentLength))); err != nil {
		return nil, err
	}
	return s.next.RoundTrip(req)
}

func (s sent) wait(ctx context.Context, bytes int) error {
	for {
		wait := sentBytes.Take(time.Now(), s.of, bytes)
		if wait == 0 {
			return nil
		}
		if err := signal.Pause(ctx, wait); err != nil {
			return fmt.Errorf("%w: %w", errSent, err)
		}
	}
}
