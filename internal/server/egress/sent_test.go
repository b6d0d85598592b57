package egress

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/rest"

	"github.com/tenantry/tenantry/internal/tenant"
)

func TestBytesOfWebhooksHaveARate(t *testing.T) {
	const each = 16 << 20
	body := make([]byte, each)
	synctest.Test(t, func(t *testing.T) {
		send := func(of tenant.Name, within time.Duration) (time.Duration, error) {
			t.Helper()
			restricted, err := Options{}.restrict(of, &rest.Config{}, nil)
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(context.Background(), within)
			defer cancel()
			req, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://webhook", bytes.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			began := time.Now()
			response, err := restricted.WrapTransport(roundTripper(func(*http.Request) (*http.Response, error) {
				return nil, errors.New("nobody is there") // which is work all the same
			})).RoundTrip(req)
			if err == nil {
				response.Body.Close()
			}
			return time.Since(began), err
		}
		for range sentAtOnce / each {
			if took, err := send("sends-much", time.Second); took > 0 || !errors.Is(err, errUnreachable) {
				t.Fatalf("one of the first waited for %v: %v", took, err)
			}
		}
		if took, err := send("sends-much", time.Minute); took != time.Second*each/sentPerSecond || !errors.Is(err, errUnreachable) {
			t.Errorf("one more waited for %v: %v", took, err)
		}
		if took, err := send("sends-much", time.Millisecond); took != time.Millisecond || !errors.Is(err, errSent) {
			t.Errorf("one that has not the time waited for %v: %v", took, err)
		}
		if took, err := send("sends-little", time.Second); took > 0 || !errors.Is(err, errUnreachable) {
			t.Errorf("another tenant's waited for %v: %v", took, err)
		}
	})
}
