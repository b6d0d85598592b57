package authentication

import (
	"context"
	"crypto/x509/pkix"
	"sync/atomic"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/tenantry/tenantry/internal/pki"
	"github.com/tenantry/tenantry/internal/server/authentication/identity"
	"github.com/tenantry/tenantry/internal/tenant"
	"github.com/tenantry/tenantry/test/identities"
)

// TestCachedForOneTenant asks again about what both the server and the webhook's cache
// remember, before and after the tenant is followed by another one.
func TestCachedForOneTenant(t *testing.T) {
	for name, tc := range map[string]struct {
		extra         map[string]authenticationv1.ExtraValue
		defaultTenant tenant.Name
		want          string
		asked         int // of the webhook, about a token it still knows
	}{
		"of a tenant":             {extra: map[string]authenticationv1.ExtraValue{extraKey: {"a"}}, want: "jane of a", asked: 2},
		"of the default tenant":   {defaultTenant: "a", want: "jane of a", asked: 2},
		"of another tenant":       {extra: map[string]authenticationv1.ExtraValue{extraKey: {"b"}}, want: "jane of b", asked: 1},
		"of no tenant":            {want: "jane of ", asked: 1},
		"of the system's tenants": {extra: map[string]authenticationv1.ExtraValue{extraKey: {"system"}}, want: "jane of system", asked: 1},
	} {
		t.Run(name, func(t *testing.T) {
			webhook := identities.NewWebhook()
			t.Cleanup(webhook.Close)
			jane := authenticationv1.UserInfo{Username: "jane", Extra: tc.extra}
			webhook.Know("stays", jane)
			webhook.Know("goes", jane)
			kubeconfig, err := webhook.Kubeconfig()
			if err != nil {
				t.Fatal(err)
			}
			var uid atomic.Value
			uid.Store(types.UID("first"))
			a := build(t, tc.defaultTenant, func(o *Options) {
				o.Upstream.WebHook.ConfigFile, o.WebhookSystem = file(t, kubeconfig), true
				o.Upstream.TokenSuccessCacheTTL = time.Hour
				o.Upstream.WebHook.CacheTTL = 2 * time.Hour
			}, func(c *Config) {
				c.TenantUID = func(_ context.Context, n tenant.Name) (types.UID, error) {
					if n == "a" {
						return uid.Load().(types.UID), nil
					}
					return "other", nil
				}
			})
			is := func(token, want string) {
				t.Helper()
				if got := check(t, a, newRequest(t, "Bearer "+token)); got != want {
					t.Errorf("%s: got %q, want %q", token, got, want)
				}
			}
			for range 2 {
				is("stays", tc.want)
				is("goes", tc.want)
			}
			if asked := webhook.Asked("stays"); asked != 1 {
				t.Fatalf("the webhook was asked %d times for one tenant", asked)
			}
			uid.Store(types.UID("second"))
			webhook.Break("goes", `{"apiVersion":"authentication.k8s.io/v1","kind":"TokenReview","status":{"authenticated":false}}`)
			is("stays", tc.want)
			if asked := webhook.Asked("stays"); asked != tc.asked {
				t.Errorf("the webhook was asked %d times for two tenants of the name, want %d", asked, tc.asked)
			}
			if tc.asked > 1 {
				is("goes", "refused")
			}
		})
	}
}

// TestVerifiedAcrossLives verifies a service account's token while its tenant is
// followed by another one.
func TestVerifiedAcrossLives(t *testing.T) {
	var uid atomic.Value
	uid.Store(types.UID("first"))
	tenantUID := TenantUID(func(context.Context, tenant.Name) (types.UID, error) { return uid.Load().(types.UID), nil })
	verified := 0
	a := tenantUID.cached(authenticator.TokenFunc(func(context.Context, string) (*authenticator.Response, bool, error) {
		if verified++; verified > 1 {
			return nil, false, nil // its objects are gone
		}
		uid.Store(types.UID("second"))
		return &authenticator.Response{User: identity.Of(&user.DefaultInfo{Name: "jane"}, "a")}, true, nil
	}), true, time.Hour, 0)
	if response, ok, err := a.AuthenticateToken(t.Context(), webToken(`{"`+tenantClaim+`":"a"}`)); ok || err != nil {
		t.Errorf("got %v, %v, %v", response, ok, err)
	}
}

// TestSinceOfDefaultTenant shows a certificate without tenant.
func TestSinceOfDefaultTenant(t *testing.T) {
	authority, err := pki.NewAuthority("clients")
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	for want, since := range map[string]time.Time{"jane of a": now.Add(-24 * time.Hour), "refused": now.Add(time.Hour)} {
		a := build(t, "a", func(o *Options) { o.Upstream.ClientCert.ClientCA = file(t, authority.PEM()) }, func(c *Config) {
			c.Since = func(context.Context, tenant.Name) (time.Time, error) { return since, nil }
		})
		req := withCertificate(t, newRequest(t, ""), authority, pkix.Name{CommonName: "jane"})
		if got := check(t, a, req); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
