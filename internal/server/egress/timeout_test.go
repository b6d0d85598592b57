package egress

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/client-go/rest"

	"github.com/tenantry/tenantry/internal/tenant"
)

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// TLSClientConfig implements utilnet.TLSClientConfigHolder.
func (roundTripper) TLSClientConfig() *tls.Config { return nil }

// hanging says nothing, or nothing after its header.
func hanging(header bool) http.RoundTripper {
	return roundTripper(func(req *http.Request) (*http.Response, error) {
		if header {
			return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(silence{req.Context()})}, nil
		}
		<-req.Context().Done()
		return nil, req.Context().Err()
	})
}

type silence struct{ ctx context.Context }

func (s silence) Read([]byte) (int, error) {
	<-s.ctx.Done()
	return 0, s.ctx.Err()
}

func TestTimeout(t *testing.T) {
	const asked = 30 * time.Second // the webhook's timeoutSeconds
	as := func(name string, n tenant.Name) context.Context {
		return request.WithUser(context.Background(), &user.DefaultInfo{Name: name, Extra: map[string][]string{tenant.UserExtraKey: {n.String()}}})
	}
	restricted, err := Options{}.restrict("acme", &rest.Config{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		ctx  context.Context
		want time.Duration
	}{
		"impersonated by the platform": {tenant.WithRequest(request.WithUser(context.Background(), &user.DefaultInfo{Name: "somebody"}), &tenant.Request{Authenticated: tenant.System}), platformTimeout},
		"impersonated by a tenant":     {tenant.WithRequest(request.WithUser(context.Background(), &user.DefaultInfo{Name: "somebody"}), &tenant.Request{Authenticated: "a"}), asked},
		"controller":                   {as(user.APIServerUser, tenant.System), platformTimeout},
		"platform's operator":          {as("admin", tenant.System), platformTimeout},
		"user of the tenant":           {as("jane", "a"), asked},
		"user of another one":          {as("jane", "b"), asked},
		"conversion":                   {context.Background(), conversionTimeout},
		"nobody knows of whom":         {as("x", "not a name"), platformTimeout},
	} {
		for _, header := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					ctx, cancel := context.WithTimeout(tc.ctx, asked)
					defer cancel()
					req, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://webhook", nil)
					if err != nil {
						t.Fatal(err)
					}
					began := time.Now()
					response, err := restricted.WrapTransport(hanging(header)).RoundTrip(req)
					if err == nil {
						response.Body.Close()
					}
					if waited := time.Since(began); waited != tc.want || err == nil || !header && !errors.Is(err, errUnreachable) {
						t.Errorf("waited for %v, %v; want %v", waited, err, tc.want)
					}
				})
			})
		}
	}
}
