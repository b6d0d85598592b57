package tenant

import (
	"errors"
	"testing"

	"k8s.io/apiserver/pkg/authentication/user"
)

func TestScope(t *testing.T) {
	for s, want := range map[Scope]struct {
		space, tenant Name
		many          bool
	}{
		"":             {},
		"acme":         {space: "acme", tenant: "acme"},
		System.Scope(): {space: System},
		All:            {many: true},
		Everything:     {many: true},
	} {
		if n, one := s.Space(); n != want.space || one != (want.space != "") {
			t.Errorf("%q is about the space %q, %t; want %q", s, n, one, want.space)
		}
		if n, one := s.Tenant(); one != (want.tenant != "") || one && n != want.tenant {
			t.Errorf("%q is about the space of tenant %q, %t; want %q", s, n, one, want.tenant)
		}
		if s.IsMany() != want.many {
			t.Errorf("%q is about many spaces: %t, want %t", s, s.IsMany(), want.many)
		}
	}
}

func TestSpaceFrom(t *testing.T) {
	for name, tc := range map[string]struct {
		request *Request
		want    Name
		err     error
	}{
		"a tenant":    {request: &Request{Requested: "acme", Authenticated: System}, want: "acme"},
		"the system":  {request: &Request{Authenticated: System}, want: System},
		"all tenants": {request: &Request{Requested: All, Authenticated: System}, err: ErrManySpaces},
		"everything":  {request: &Request{Requested: Everything, Authenticated: System}, err: ErrManySpaces},
		"nothing":     {request: &Request{}, err: ErrNoTenant},
		"no request":  {err: ErrNoTenant},
	} {
		t.Run(name, func(t *testing.T) {
			if n, err := SpaceFrom(WithRequest(t.Context(), tc.request)); n != tc.want || !errors.Is(err, tc.err) {
				t.Errorf("got %q, %v; want %q, %v", n, err, tc.want, tc.err)
			}
		})
	}
}

// TestRoot checks that what is below a root is understood to be about its scope.
func TestRoot(t *testing.T) {
	for _, s := range []Scope{"acme", System.Scope(), All, Everything} {
		path := s.Root() + "/api/v1/pods"
		if target, err := ParsePath(path, path); err != nil || target.Scope != s || target.Path != "/api/v1/pods" {
			t.Errorf("%q is %+v, %v; want it to be about %q", path, target, err, s)
		}
		if !NamesRoot(path) {
			t.Errorf("%q does not name a root", path)
		}
	}
	if NamesRoot("/tenants") || NamesRoot("/api/v1/tenants/acme") {
		t.Error("paths of Tenants name roots")
	}
}

func TestEffective(t *testing.T) {
	for name, tc := range map[string]struct {
		requested                   Scope
		authenticated, impersonated Name
		want                        Scope
		err                         error
	}{
		"tenant user, short path":                      {authenticated: "a", want: "a"},
		"tenant user, own space":                       {requested: "a", authenticated: "a", want: "a"},
		"tenant user, foreign space":                   {requested: "b", authenticated: "a", err: ErrForeign},
		"tenant user, all":                             {requested: All, authenticated: "a", err: ErrForeign},
		"tenant user, system":                          {requested: System.Scope(), authenticated: "a", err: ErrForeign},
		"system user, short path":                      {authenticated: System, want: System.Scope()},
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
