package authorization

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	kubeoptions "k8s.io/kubernetes/pkg/kubeapiserver/options"

	"github.com/tenantry/tenantry/internal/spaces/rbac"
	"github.com/tenantry/tenantry/internal/tenant"
)

// TestWebhookAnswersEndWithTheirTenant asks a webhook whose answers are remembered for
// an hour.
func TestWebhookAnswersEndWithTheirTenant(t *testing.T) {
	dir := t.TempDir()
	var asked atomic.Int32
	hook := newHook(t, dir, func() { asked.Add(1) })
	config := configHead + strings.ReplaceAll(fmt.Sprintf(configHook, "hook", hook, tenant.SpaceExtraKey, tenant.SpaceExtraKey), "TTL: 1s", "TTL: 1h")
	options := kubeoptions.NewBuiltInAuthorizationOptions()
	options.AuthorizationConfigurationFile = filepath.Join(dir, "authorization.yaml")
	if err := os.WriteFile(options.AuthorizationConfigurationFile, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	views := informers.NewSharedInformerFactory(fake.NewClientset(), 0)
	index, err := rbac.NewIndex(views, func(tenant.Name) labels.Set { return nil })
	if err != nil {
		t.Fatal(err)
	}
	upstream, err := options.ToAuthorizationConfig(views)
	if err != nil {
		t.Fatal(err)
	}
	uids := map[tenant.Name]types.UID{"a": "1", "b": "1"}
	modes, err := NewModes(t.Context(), ModesConfig{Upstream: upstream, RBAC: rbac.NewAuthorizer(index), Views: views, ServerID: "test",
		TenantUID: func(_ context.Context, n tenant.Name) (types.UID, error) { return uids[n], nil }})
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		what string
		live map[tenant.Name]types.UID
		// user is the tenant of who asks, in the space of a.
		user tenant.Name
		want int32
	}{
		{"the tenant's user", nil, "a", 1},
		{"again", nil, "a", 1},
		{"of the next tenant", map[tenant.Name]types.UID{"a": "2"}, "a", 2},
		{"a system user", nil, tenant.System, 3},
		{"again, in the space of the next tenant", map[tenant.Name]types.UID{"a": "3"}, tenant.System, 4},
		{"again", nil, tenant.System, 4},
	} {
		for n, uid := range step.live {
			uids[n] = uid
		}
		u := &user.DefaultInfo{Name: "jane", Extra: map[string][]string{
			tenant.UserExtraKey: {string(step.user)}, tenant.TenantUIDExtraKey: {"forged"}, tenant.SpaceUIDExtraKey: {"forged"},
		}}
		ctx := tenant.WithRequest(request.WithUser(t.Context(), u), &tenant.Request{Requested: "a", Authenticated: step.user})
		decision, _, err := modes.Authorize(ctx, authorizer.AttributesRecord{User: u, Verb: "get", Resource: "pods", ResourceRequest: true})
		if err != nil || decision != authorizer.DecisionAllow {
			t.Fatalf("%s: got %v, %v", step.what, decision, err)
		}
		if got := asked.Load(); got != step.want {
			t.Errorf("%s: the webhook was asked %d times, want %d", step.what, got, step.want)
		}
	}
}

// TestWebhooksAreToldOfTenantsByTheServerAlone asks about a user whose extra says other
// things, as that in a review may.
func TestWebhooksAreToldOfTenantsByTheServerAlone(t *testing.T) {
	want := map[string][]string{
		tenant.UserExtraKey: {"a"}, tenant.SpaceExtraKey: {"a"}, tenant.TenantUIDExtraKey: {"uid"}, tenant.SpaceUIDExtraKey: {"uid"}, "example.com/Team": {"x"},
	}
	extra := map[string][]string{"example.com/Team": {"x"}}
	for _, key := range reservedExtraKeys {
		for _, forged := range []string{strings.ToUpper(key), strings.ToUpper(key[:1]) + key[1:], strings.Replace(key, "k8s", "\u212a8s", 1)} {
			extra[forged] = []string{"b"}
		}
	}
	extra[tenant.UserExtraKey] = []string{"a"}
	var got map[string][]string
	hook := webhook{
		chain: chain{UnconditionalAuthorizer: authorizer.AuthorizerFunc(func(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
			got = a.GetUser().GetExtra()
			return authorizer.DecisionNoOpinion, "", nil
		})},
		tenantUID: func(context.Context, tenant.Name) (types.UID, error) { return "uid", nil },
	}
	u := &user.DefaultInfo{Name: "jane", Extra: extra}
	ctx := tenant.WithRequest(request.WithUser(t.Context(), u), &tenant.Request{Requested: "a", Authenticated: "a"})
	if _, _, err := hook.Authorize(ctx, authorizer.AttributesRecord{User: u}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
