package tenant

import (
	"testing"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
)

func TestIsPublished(t *testing.T) {
	for value, want := range map[string]bool{"true": true, PublishedForce: true, "false": false} {
		if got := IsPublished(map[string]string{PublishedAnnotation: value}); got != want {
			t.Errorf("with the value %q: %t, want %t", value, got, want)
		}
	}
	if IsPublished(map[string]string{"other": "true"}) {
		t.Error("it is published without the annotation")
	}
}

// TestByPublisher checks who is spared the webhooks and quotas of a tenant.
func TestByPublisher(t *testing.T) {
	for name, tc := range map[string]struct {
		user          string
		requested     Scope
		authenticated Name
		extra         []string
		want          bool
	}{
		"the publisher in a space":              {user: Publisher, requested: "a", authenticated: System, want: true},
		"another system user in a space":        {user: "u", requested: "a", authenticated: System},
		"the publisher in the system space":     {user: Publisher, requested: System.Scope(), authenticated: System},
		"the publisher of all":                  {user: Publisher, requested: All, authenticated: System},
		"a tenant's user of that name":          {user: Publisher, requested: "a", authenticated: "a"},
		"impersonated as a tenant's":            {user: Publisher, requested: "a", authenticated: System, extra: []string{"a"}},
		"with a tenant that is none":            {user: Publisher, requested: "a", authenticated: System, extra: []string{"A"}},
		"with a tenant that is none, by a user": {user: Publisher, requested: "a", authenticated: "a", extra: []string{"A"}},
		"with two tenants":                      {user: Publisher, requested: "a", authenticated: System, extra: []string{"system", "system"}},
		"credentials without a tenant":          {user: Publisher, requested: "a"},
	} {
		t.Run(name, func(t *testing.T) {
			ctx := WithRequest(t.Context(), &Request{Requested: tc.requested, Authenticated: tc.authenticated})
			u := &user.DefaultInfo{Name: tc.user}
			if tc.extra != nil {
				u.Extra = map[string][]string{UserExtraKey: tc.extra}
			}
			if got := ByPublisher(request.WithUser(ctx, u)); got != tc.want {
				t.Errorf("it is the publisher: %t, want %t", got, tc.want)
			}
		})
	}
	if ByPublisher(WithRequest(t.Context(), &Request{Requested: "a", Authenticated: System})) {
		t.Error("it is the publisher without a user")
	}
}

func TestIsValidPublished(t *testing.T) {
	for value, want := range map[string]bool{"true": true, "force": true, "false": true, "": false, "no": false, "True": false, "1": false} {
		if got := IsValidPublished(map[string]string{PublishedAnnotation: value}); got != want {
			t.Errorf("%q: %v, want %v", value, got, want)
		}
	}
	if !IsValidPublished(map[string]string{"other": "no"}) {
		t.Error("an object without the annotation is refused")
	}
}
