package identity

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/tenantry/tenantry/internal/tenant"
)

// TestAs checks which user authentication would have made of one that is impersonated, or that a review
// names.
func TestAs(t *testing.T) {
	inA := map[string][]string{tenant.UserExtraKey: {"a"}}
	devs := []string{"devs", user.AllAuthenticated}
	member := &user.DefaultInfo{Name: "u", Groups: devs, Extra: inA}
	for name, tc := range map[string]struct {
		user user.DefaultInfo
		of   tenant.Name
		want *user.DefaultInfo // nil for an error
	}{
		"ordinary":                 {*member, "a", member},
		"not authenticated":        {user.DefaultInfo{Name: "u", Groups: []string{"devs"}, Extra: inA}, "a", member},
		"without a tenant":         {user.DefaultInfo{Name: "u", Groups: devs}, "a", member},
		"of another tenant":        {user.DefaultInfo{Name: "u", Groups: devs, Extra: map[string][]string{tenant.UserExtraKey: {"b"}}}, "a", member},
		"of two tenants":           {user.DefaultInfo{Name: "u", Groups: devs, Extra: map[string][]string{tenant.UserExtraKey: {"a", "b"}}}, "a", member},
		"with privileges":          {user.DefaultInfo{Name: "u", Groups: []string{"devs", user.SystemPrivilegedGroup, user.AllAuthenticated}, Extra: inA}, "a", member},
		"without a name":           {user.DefaultInfo{Groups: devs, Extra: inA}, "a", nil},
		"a name of the system":     {user.DefaultInfo{Name: "system:admin", Groups: devs, Extra: inA}, "a", nil},
		"anonymous":                {user.DefaultInfo{Name: user.Anonymous, Groups: []string{user.AllUnauthenticated}, Extra: inA}, "a", nil},
		"of no tenant":             {user.DefaultInfo{Name: "u", Groups: devs}, "", nil},
		"of the system, as it was": {user.DefaultInfo{Name: "system:admin", Groups: []string{user.SystemPrivilegedGroup}}, tenant.System, &user.DefaultInfo{Name: "system:admin", Groups: []string{user.SystemPrivilegedGroup}, Extra: map[string][]string{tenant.UserExtraKey: {"system"}}}},
		"a service account": {user.DefaultInfo{Name: "system:serviceaccount:ns:robot", Groups: []string{"devs", user.SystemPrivilegedGroup}}, "a",
			&user.DefaultInfo{Name: "system:serviceaccount:ns:robot", Groups: []string{"system:serviceaccounts", "system:serviceaccounts:ns", user.AllAuthenticated}, Extra: inA}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := As(&tc.user, tc.of)
			if (err == nil) != (tc.want != nil) {
				t.Fatalf("got %v, %v; want %v", got, err, tc.want)
			}
			if err != nil {
				return
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
			// Authorization asks no further for a user that is the same.
			if same := got == user.Info(&tc.user); same != (name == "ordinary") {
				t.Errorf("the same user: %v", same)
			}
		})
	}
}

// TestAsChangesNoUser checks that groups of the caller do not get another one behind them.
func TestAsChangesNoUser(t *testing.T) {
	groups := []string{"devs", "ops"}
	if _, err := As(&user.DefaultInfo{Name: "u", Groups: groups[:1]}, "a"); err != nil {
		t.Fatal(err)
	}
	if groups[1] != "ops" {
		t.Errorf("the groups have become %v", groups)
	}
}
