package identity

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/tenantry/tenantry/internal/tenant"
)

func TestNew(t *testing.T) {
	claimed := map[string][]string{tenant.UserExtraKey: {"system"}, tenant.Former(tenant.UserExtraKey): {"system"}, "scopes": {"x"}}
	for name, tc := range map[string]struct {
		tenant tenant.Name
		groups []string
		extra  map[string][]string
		want   user.DefaultInfo
	}{
		"no tenant": {groups: []string{"g", "system:masters"}, extra: claimed,
			want: user.DefaultInfo{Name: "u", Groups: []string{"g"}, Extra: map[string][]string{"scopes": {"x"}}}},
		"no extra": {want: user.DefaultInfo{Name: "u"}},
		"tenant": {tenant: "a", groups: []string{"system:nodes", "g", "system:authenticated", "system:serviceaccounts:x", "system:unauthenticated"}, extra: claimed,
			want: user.DefaultInfo{Name: "u", Groups: []string{"g", "system:authenticated"},
				Extra: map[string][]string{"scopes": {"x"}, tenant.UserExtraKey: {"a"}}}},
		"system": {tenant: tenant.System, groups: []string{"system:masters"},
			want: user.DefaultInfo{Name: "u", Groups: []string{"system:masters"}, Extra: map[string][]string{tenant.UserExtraKey: {"system"}}}},
		"groups and extras of Keystone": {tenant: "a", groups: []string{"keystone:project:p:r", "g"},
			extra: map[string][]string{"keystone.tenantry.io/user-name": {"x"}, "Keystone.tenantry.io/user-name": {"x"}, "scopes": {"x"}},
			want:  user.DefaultInfo{Name: "u", Groups: []string{"g"}, Extra: map[string][]string{"scopes": {"x"}, tenant.UserExtraKey: {"a"}}}},
		"groups of Keystone, system": {tenant: tenant.System, groups: []string{"keystone:system:r", "system:masters"},
			want: user.DefaultInfo{Name: "u", Groups: []string{"system:masters"}, Extra: map[string][]string{tenant.UserExtraKey: {"system"}}}},
	} {
		t.Run(name, func(t *testing.T) {
			given := &user.DefaultInfo{Name: "u", Groups: tc.groups, Extra: tc.extra}
			before := given.Extra[tenant.UserExtraKey]
			got, err := New(given, tc.tenant)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(&tc.want, got); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(before, given.Extra[tenant.UserExtraKey]); diff != "" {
				t.Errorf("the given user was changed: %s", diff)
			}
		})
	}
}

func TestNewRefuses(t *testing.T) {
	for name, tenants := range map[string][]tenant.Name{
		"":                            {"", "a", tenant.System},
		"system:apiserver":            {"", "a", tenant.System},
		"system:anonymous":            {"", "a", tenant.System},
		tenant.Publisher:              {"", "a", tenant.System},
		"system:serviceaccount:ns:sa": {"", "a"},
		"system:node:n":               {"", "a"},
		"keystone:u":                  {"", "a", tenant.System},
	} {
		for _, n := range tenants {
			if got, err := New(&user.DefaultInfo{Name: name}, n); err == nil {
				t.Errorf("user %q of tenant %q became %v", name, n, got)
			}
		}
	}
}

func TestFromExtra(t *testing.T) {
	keys := []string{"first", "second"}
	for name, tc := range map[string]struct {
		extra  map[string][]string
		system bool
		want   tenant.Name
		err    string
	}{
		"none":                         {},
		"the server's key counts not":  {extra: map[string][]string{tenant.UserExtraKey: {"a"}}},
		"nor does the former one":      {extra: map[string][]string{tenant.Former(tenant.UserExtraKey): {"a"}}},
		"first":                        {extra: map[string][]string{"first": {"a"}, "second": {"b"}}, want: "a"},
		"second":                       {extra: map[string][]string{"second": {"b"}}, want: "b"},
		"empty values are none":        {extra: map[string][]string{"first": {""}, "second": {"", "b"}}, want: "b"},
		"two values":                   {extra: map[string][]string{"first": {"a", "b"}}, err: "names 2 tenants"},
		"invalid":                      {extra: map[string][]string{"first": {"A_B"}, "second": {"b"}}, err: "invalid tenant name"},
		"all":                          {extra: map[string][]string{"first": {"all"}}, err: "reserved"},
		"system, not allowed":          {extra: map[string][]string{"first": {"system"}}, err: "may not be given"},
		"system, allowed":              {extra: map[string][]string{"first": {"system"}}, system: true, want: tenant.System},
		"everything":                   {extra: map[string][]string{"first": {"*"}}, system: true, err: "invalid tenant name"},
		"keys are compared as written": {extra: map[string][]string{"First": {"a"}}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := FromExtra(&user.DefaultInfo{Name: "u", Extra: tc.extra}, keys, func() bool { return tc.system })
			if tc.err != "" {
				if err == nil || !strings.Contains(err.Error(), tc.err) {
					t.Fatalf("got %v, %v; want an error with %q", got, err, tc.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if n, err := tenant.OfUser(got); err != nil || n != tc.want {
				t.Errorf("tenant %q, %v; want %q", n, err, tc.want)
			}
		})
	}
}

// TestAsKeystone: users of Keystone are in its groups alone, and no others are in them.
func TestAsKeystone(t *testing.T) {
	all := []string{"g", "keystone:project:p:r", "system:masters", user.AllAuthenticated}
	for name, want := range map[string][]string{
		"keystone:u":                  {"keystone:project:p:r", user.AllAuthenticated},
		"jane":                        {"g", user.AllAuthenticated},
		"system:serviceaccount:ns:sa": {"system:serviceaccounts", "system:serviceaccounts:ns", user.AllAuthenticated},
	} {
		got, err := As(&user.DefaultInfo{Name: name, Groups: all, Extra: map[string][]string{tenant.UserExtraKey: {"a"}}}, "a")
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got.GetGroups()); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	genuine := &user.DefaultInfo{Name: "keystone:u", Groups: []string{"keystone:project:p:r", user.AllAuthenticated},
		Extra: map[string][]string{tenant.UserExtraKey: {"a"}, "keystone.tenantry.io/user-name": {"x"}}}
	if got, err := As(genuine, "a"); err != nil || got != user.Info(genuine) {
		t.Errorf("a user of Keystone became %v, %v", got, err)
	}
}
