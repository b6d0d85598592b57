package tenant

import (
	"errors"
	"testing"

	"k8s.io/apiserver/pkg/authentication/user"
)

func TestEffective(t *testing.T) {
	for name, tc := range map[string]struct {
		requested, authenticated, impersonated Name
		want                                   Name
		err                                    error
	}{
		"tenant user, short path":                      {authenticated: "a", want: "a"},
		"tenant user, own space":                       {requested: "a", authenticated: "a", want: "a"},
		"tenant user, foreign space":                   {requested: "b", authenticated: "a", err: ErrForeign},
		"tenant user, all":                             {requested: All, authenticated: "a", err: ErrForeign},
		"tenant user, system":                          {requested: System, authenticated: "a", err: ErrForeign},
		"system user, short path":                      {authenticated: System, want: System},
		"system user, named space":                     {requested: "a", authenticated: System, want: "a"},
		"system user, all":                             {requested: All, authenticated: System, want: All},
		"nobody":                                       {err: ErrNoTenant},
		"nobody, named space":                          {requested: "a", err: ErrNoTenant},
		"system user as user of a":                     {authenticated: System, impersonated: "a", want: "a"},
		"system user as user of a in b":                {requested: "b", authenticated: System, impersonated: "a", err: ErrForeign},
		"tenant user as user of b":                     {authenticated: "a", impersonated: "b", err: ErrForeign},
		"tenant user as system user":                   {authenticated: "a", impersonated: System, err: ErrForeign},
		"tenant user as user of b in its own space":    {requested: "a", authenticated: "a", impersonated: "b", err: ErrForeign},
		"credentials without tenant, user claims one":  {impersonated: "a", err: ErrForeign},
		"credentials without tenant, user says system": {impersonated: System, err: ErrForeign},
	} {
		t.Run(name, func(t *testing.T) {
			u := &user.DefaultInfo{Name: "u"}
			if tc.impersonated != "" {
				u.Extra = map[string][]string{UserExtraKey: {string(tc.impersonated)}}
			}
			r := &Request{Requested: tc.requested, Authenticated: tc.authenticated}
			got, err := r.Effective(u)
			if got != tc.want || !errors.Is(err, tc.err) {
				t.Errorf("got %q, %v; want %q, %v", got, err, tc.want, tc.err)
			}
		})
	}
}

func TestEffectiveWithoutRequest(t *testing.T) {
	var r *Request
	if got, err := r.Effective(&user.DefaultInfo{Name: "u"}); !errors.Is(err, ErrNoTenant) {
		t.Errorf("got %q, %v; want %v", got, err, ErrNoTenant)
	}
}
