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
