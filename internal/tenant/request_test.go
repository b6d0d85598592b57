package tenant

import (
	"context"
	"errors"
	"testing"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
)

func TestForeign(t *testing.T) {
	if user, space, foreign := Foreign(t.Context()); foreign {
		t.Errorf("without a request, %q is foreign in %q", user, space)
	}
	for name, tc := range map[string]struct {
		requested                             Scope
		authenticated, impersonated, admitted Name
		user, space                           Name // what is foreign, if anything is
		effective                             Scope
	}{
		"own space":                        {requested: "a", authenticated: "a", effective: "a"},
		"short path":                       {authenticated: "a", effective: "a"},
		"foreign space":                    {requested: "b", authenticated: "a", user: "a", space: "b"},
		"foreign space, admitted":          {requested: "b", authenticated: "a", admitted: "a", user: "a", space: "b", effective: "b"},
		"foreign space, another admitted":  {requested: "b", authenticated: "a", admitted: "c", user: "a", space: "b"},
		"all, admitted":                    {requested: All, authenticated: "a"},
		"system space":                     {requested: System.Scope(), authenticated: "a"},
		"everything":                       {requested: Everything, authenticated: "a"},
		"system user":                      {requested: "a", authenticated: System, effective: "a"},
		"system user as foreign user":      {requested: "b", authenticated: System, impersonated: "a", user: "a", space: "b"},
		"the same, admitted":               {requested: "b", authenticated: System, impersonated: "a", admitted: "a", user: "a", space: "b", effective: "b"},
		"tenant user as foreign user":      {requested: "b", authenticated: "a", impersonated: "c"},
		"another, admitted":                {requested: "b", authenticated: "a", impersonated: "c", admitted: "c"},
		"tenant user as user of the space": {requested: "b", authenticated: "a", impersonated: "b"},
		"nobody":                           {requested: "b"},
	} {
		t.Run(name, func(t *testing.T) {
			u := &user.DefaultInfo{Name: "u"}
			if tc.impersonated != "" {
				u.Extra = map[string][]string{UserExtraKey: {string(tc.impersonated)}}
			}
			r := &Request{Requested: tc.requested, Authenticated: tc.authenticated}
			if tc.admitted != "" {
				r.Admit(tc.admitted)
			}
			ctx := WithRequest(request.WithUser(context.Background(), u), r)
			user, space, foreign := Foreign(ctx)
			if user != tc.user || space != tc.space || foreign != (tc.user != "") {
				t.Errorf("foreign: %q in %q, %t; want %q in %q", user, space, foreign, tc.user, tc.space)
			}
			if n, err := ScopeFrom(ctx); n != tc.effective || (err == nil) != (tc.effective != "") {
				t.Errorf("acts in %q, %v; want %q", n, err, tc.effective)
			}
		})
	}
}

// TestBecomes checks that the headers say whose user an impersonated one is.
func TestBecomes(t *testing.T) {
	for name, tc := range map[string]struct {
		extras map[string][]string
		want   Name
		fails  bool
	}{
		"nobody's":    {},
		"a tenant's":  {extras: map[string][]string{UserExtraKey: {"a"}}, want: "a"},
		"two":         {extras: map[string][]string{UserExtraKey: {"a", "b"}}, fails: true},
		"another key": {extras: map[string][]string{"Tenantry.io/tenant": {"a"}}},
	} {
		if got, err := (&Request{Impersonated: tc.extras}).Becomes(); got != tc.want || (err != nil) != tc.fails {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}

// TestOfUser checks that what cannot be one tenant is an error.
func TestOfUser(t *testing.T) {
	for name, tc := range map[string]struct {
		user user.Info
		want Name
		err  bool
	}{
		"no user":     {},
		"no tenant":   {user: &user.DefaultInfo{Name: "u"}},
		"one":         {user: of("a"), want: "a"},
		"former key":  {user: &user.DefaultInfo{Name: "u", Extra: map[string][]string{Former(UserExtraKey): {"a"}}}, err: true},
		"two":         {user: of("a", "a"), err: true},
		"not a name":  {user: of("A"), err: true},
		"empty":       {user: of(""), err: true},
		"two in one":  {user: of("a,b"), err: true},
		"with spaces": {user: of(" a"), err: true},
	} {
		t.Run(name, func(t *testing.T) {
			if got, err := OfUser(tc.user); got != tc.want || (err != nil) != tc.err {
				t.Errorf("got %q, %v; want %q, an error: %t", got, err, tc.want, tc.err)
			}
		})
	}
	r := &Request{Requested: "a", Authenticated: System}
	if got, err := r.Effective(of("A")); err == nil || got != "" {
		t.Errorf("got %q, %v; want an error about the user's tenant", got, err)
	}
	if got, err := UserTenant(t.Context()); !errors.Is(err, ErrNoTenant) {
		t.Errorf("got %q, %v; want %v", got, err, ErrNoTenant)
	}
	if got, err := UserTenant(WithRequest(t.Context(), &Request{})); !errors.Is(err, ErrNoTenant) {
		t.Errorf("got %q, %v; want %v", got, err, ErrNoTenant)
	}
}

func of(tenants ...string) user.Info {
	return &user.DefaultInfo{Name: "u", Extra: map[string][]string{UserExtraKey: tenants}}
}

func TestNoteUID(t *testing.T) {
	var none *Request
	if !none.NoteUID("1") || none.HasUID("1") || none.HasUID("") {
		t.Error("without a request something was noted")
	}
	r := &Request{}
	if r.HasUID("") {
		t.Error("credentials that were not checked have a UID")
	}
	if !r.NoteUID("1") || !r.HasUID("1") || r.HasUID("2") || r.HasUID("") {
		t.Error("the first UID is not that of the request")
	}
	if r.NoteUID("2") || !r.HasUID("1") || r.HasUID("2") {
		t.Error("another UID replaced the first")
	}
	if !r.NoteUID("1") {
		t.Error("the same UID is refused")
	}
}

// TestNamespace checks that a namespace that is not known is another thing than none.
func TestNamespace(t *testing.T) {
	for name, tc := range map[string]struct {
		request *Request
		want    types.UID
		noted   bool
	}{
		"no request": {},
		"none":       {request: &Request{}},
		"not known":  {request: noted(""), noted: true},
		"known":      {request: noted("u"), want: "u", noted: true},
	} {
		if uid, is := tc.request.Namespace(); uid != tc.want || is != tc.noted {
			t.Errorf("%s: got %q, %v", name, uid, is)
		}
	}
}

func noted(uid types.UID) *Request {
	r := &Request{}
	r.NoteNamespace(uid)
	return r
}
