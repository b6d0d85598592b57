package admission

import (
	"cmp"
	"context"
	"errors"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	authenticationapi "k8s.io/kubernetes/pkg/apis/authentication"
	authorizationapi "k8s.io/kubernetes/pkg/apis/authorization"
	"k8s.io/kubernetes/pkg/apis/core"
	"k8s.io/kubernetes/pkg/apis/events"

	"github.com/tenantry/tenantry/internal/tenant"
)

// TestPlatformRights asks as an expression of a tenant's policy does.
func TestPlatformRights(t *testing.T) {
	somebody := &user.DefaultInfo{Name: "system:apiserver", Groups: []string{user.SystemPrivilegedGroup}}
	s := spaceAuthorizer{tenant: "a", next: authorizer.AuthorizerFunc(func(ctx context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
		userTenant, err := tenant.UserTenant(ctx)
		if err != nil || userTenant != tenant.System || a.GetUser() != user.Info(somebody) {
			t.Errorf("asked about %v of tenant %q, error %v", a.GetUser(), userTenant, err)
		}
		if space, err := tenant.SpaceFrom(ctx); err != nil || space != "a" {
			t.Errorf("asked in space %q, error %v", space, err)
		}
		return authorizer.DecisionAllow, "because of system:apiserver", errors.New("not found: system:apiserver")
	})}
	decision, reason, err := s.Authorize(t.Context(), authorizer.AttributesRecord{User: platformUser{real: somebody}})
	if decision != authorizer.DecisionAllow || reason != "" || err != errNotDecided { //nolint:errorlint // exactly this one
		t.Errorf("got %v, %q, %v", decision, reason, err)
	}
}

func copied(mark string) *core.Namespace {
	return &core.Namespace{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{tenant.PublishedCopyLabel: mark}}}
}

// TestForTenant checks what webhooks and policies of a tenant see.
func TestForTenant(t *testing.T) {
	const hidden, shown, asPlatform = "hidden", "shown", "as the platform's"
	token := &core.Secret{Type: core.SecretTypeServiceAccountToken}
	for name, tc := range map[string]struct {
		by          tenant.Name
		user        string
		group       string
		resource    string
		subresource string
		object, old runtime.Object
		want        string
	}{
		"own object":                  {by: "a", object: &core.Secret{}, want: shown},
		"own token":                   {by: "a", object: token, want: shown},
		"platform's object":           {by: tenant.System, object: &core.Secret{}, want: asPlatform},
		"what a host says of a pod":   {by: tenant.System, user: tenant.Syncer, object: &core.Pod{}, want: hidden},
		"a user called as the syncer": {by: "a", user: tenant.Syncer, object: &core.Pod{}, want: shown},
		"platform's token":            {by: tenant.System, object: token, want: hidden},
		"token the platform changes":  {by: tenant.System, object: &core.Secret{}, old: token, want: hidden},
		"platform's status":           {by: tenant.System, subresource: "status", object: &core.Pod{}, want: hidden},
		"platform's event":            {by: tenant.System, resource: "events", object: &core.Event{}, want: hidden},
		"platform's newer event":      {by: tenant.System, group: events.GroupName, resource: "events", object: &core.Event{}, want: hidden},
		"events of another group":     {by: tenant.System, group: "example.com", resource: "events", object: &core.Event{}, want: asPlatform},
		"own event":                   {by: "a", resource: "events", object: &core.Event{}, want: shown},
		"own status":                  {by: "a", subresource: "status", object: &core.Pod{}, want: shown},
		"what is published":           {by: tenant.System, object: copied(tenant.PublishedCopy), old: copied(tenant.PublishedCopy), want: hidden},
		"a namespace of copies":       {by: tenant.System, object: copied(tenant.PublishedNamespace), old: copied(tenant.PublishedNamespace), want: asPlatform},
		"own review of a token":       {by: "a", group: authenticationapi.GroupName, want: hidden},
		"own review of access":        {by: "a", group: authorizationapi.GroupName, want: hidden},
		"platform's review of access": {by: tenant.System, group: authorizationapi.GroupName, want: hidden},
	} {
		t.Run(name, func(t *testing.T) {
			resource := schema.GroupVersionResource{Group: tc.group, Version: "v1", Resource: cmp.Or(tc.resource, "things")}
			a := admission.NewAttributesRecord(tc.object, tc.old, schema.GroupVersionKind{}, "ns", "name", resource, tc.subresource, admission.Create, nil, false, &user.DefaultInfo{Name: tc.user})
			seen, err := forTenant(tenant.WithRequest(tenant.WithSpace(t.Context(), "a"), &tenant.Request{Authenticated: tc.by}), a)
			if err != nil {
				t.Fatal(err)
			}
			got := shown
			if seen == nil {
				got = hidden
			} else if _, platform := seen.(platformAttributes); platform {
				got = asPlatform
			}
			if got != tc.want {
				t.Errorf("%s, want %s", got, tc.want)
			}
		})
	}
}
