package tenant

import (
	"errors"
	"testing"
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
