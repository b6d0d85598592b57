package authentication

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"net/http"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/tenantry/tenantry/internal/server/authentication/identity"
	"github.com/tenantry/tenantry/internal/tenant"
)

func webToken(payload string) string {
	return "e30." + base64.RawURLEncoding.EncodeToString([]byte(payload)) + ".c2ln"
}

func TestSince(t *testing.T) {
	made := time.Unix(1_000_000, 0)
	since := Since(func(_ context.Context, n tenant.Name) (time.Time, error) {
		switch n {
		case "again":
			return made, nil
		case "unknown":
			return time.Time{}, errors.New("etcd is away")
		default:
			return time.Time{}, nil
		}
	})
	uids := func(_ context.Context, n tenant.Name) (types.UID, error) { return "uid-" + types.UID(n), nil }
	for name, tc := range map[string]struct {
		of       tenant.Name
		user     string // u by default
		token    string
		issued   time.Time // of a certificate, if there is no token
		accepted bool
		refused  bool
		anyTime  bool // nobody asks when it was issued
	}{
		"certificate of the earlier tenant":   {of: "again", issued: made.Add(-time.Second), refused: true},
		"certificate of this tenant":          {of: "again", issued: made, accepted: true},
		"certificate of a tenant's first":     {of: "first", issued: time.Unix(1, 0), accepted: true},
		"certificate of the system":           {of: tenant.System, issued: time.Unix(1, 0), accepted: true},
		"certificate of nobody":               {issued: time.Unix(1, 0), accepted: true},
		"certificate, nobody knows":           {of: "unknown", issued: made},
		"token of the earlier tenant":         {of: "again", token: webToken(`{"iat":999999}`), refused: true},
		"token with a fraction":               {of: "again", token: webToken(`{"iat":999999.9}`), refused: true},
		"token of this tenant":                {of: "again", token: webToken(`{"iat":1000000}`), accepted: true},
		"token without the time of its issue": {of: "again", token: webToken(`{}`), refused: true},
		"token with it as a text":             {of: "again", token: webToken(`{"iat":"1000000"}`), refused: true},
		"token with two of it":                {of: "again", token: webToken(`{"iat":1000000,"IAT":1}`), refused: true},
		"token without it of the first":       {of: "first", token: webToken(`{}`), accepted: true},
		"token of a Secret":                   {of: "again", user: "system:serviceaccount:ns:a", token: webToken(`{}`), accepted: true, anyTime: true},
		"token of an account":                 {of: "again", user: "system:serviceaccount:ns:a", token: webToken(`{"iat":999999}`), refused: true},
		"token that is not JSON":              {of: "again", token: webToken(`iat`), accepted: true, anyTime: true},
		"token of a file":                     {of: "again", token: "secret", accepted: true, anyTime: true},
		"token with dots":                     {of: "again", token: "a.b?.c", accepted: true, anyTime: true},
	} {
		t.Run(name, func(t *testing.T) {
			r := &tenant.Request{}
			ctx := tenant.WithRequest(t.Context(), r)
			answer := &authenticator.Response{User: identity.Of(&user.DefaultInfo{Name: cmp.Or(tc.user, "u")}, tc.of)}
			var response *authenticator.Response
			var ok bool
			var err error
			if tc.token != "" {
				response, ok, err = issuing{since: since, tenantUID: uids}.tokens(authenticator.TokenFunc(func(context.Context, string) (*authenticator.Response, bool, error) {
					return answer, true, nil
				})).AuthenticateToken(ctx, tc.token)
			} else {
				req := (&http.Request{TLS: &tls.ConnectionState{PeerCertificates: []*x509.Certificate{{NotBefore: tc.issued}}}}).WithContext(ctx)
				response, ok, err = issuing{since: since, tenantUID: uids}.certificates(authenticator.RequestFunc(func(*http.Request) (*authenticator.Response, bool, error) {
					return answer, true, nil
				})).AuthenticateRequest(req)
			}
			if ok != tc.accepted || ok != (response != nil) || ok != (err == nil) {
				t.Fatalf("accepted %v with %v, error %v; want %v", ok, response, err, tc.accepted)
			}
			if errors.Is(err, identity.ErrRefused) != tc.refused {
				t.Errorf("error %v, want a refusal: %v", err, tc.refused)
			}
			if noted := tc.of != tenant.System && !tc.anyTime; r.HasUID("uid-"+types.UID(tc.of)) != noted {
				t.Errorf("checked for the tenant that was there: %t, want %t", !noted, noted)
			}
		})
	}
}

func TestSinceAsksNobodyWithoutCredentials(t *testing.T) {
	none := Since(func(context.Context, tenant.Name) (time.Time, error) {
		t.Error("asked about nobody's tenant")
		return time.Time{}, nil
	})
	_, ok, err := issuing{since: none}.certificates(authenticator.RequestFunc(func(*http.Request) (*authenticator.Response, bool, error) {
		return nil, false, nil
	})).AuthenticateRequest(&http.Request{})
	if ok || err != nil {
		t.Errorf("got %v, %v; want nobody", ok, err)
	}
}
