package authorization

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
	kubeoptions "k8s.io/kubernetes/pkg/kubeapiserver/options"

	"github.com/tenantry/tenantry/internal/spaces/rbac"
	"github.com/tenantry/tenantry/internal/tenant"
	"github.com/tenantry/tenantry/test/until"
)

const (
	configHead = `apiVersion: apiserver.config.k8s.io/v1
kind: AuthorizationConfiguration
authorizers:
- {type: RBAC, name: rbac}
`
	configHook = `- type: Webhook
  name: %s
  webhook:
    timeout: 3s
    subjectAccessReviewVersion: v1
    matchConditionSubjectAccessReviewVersion: v1
    failurePolicy: NoOpinion
    authorizedTTL: 1s
    unauthorizedTTL: 1s
    connectionInfo: {type: KubeConfigFile, kubeConfigFile: %s}
    matchConditions:
    - expression: "'%s' in request.extra && request.extra['%s'] == ['a']"
`
)

// newHook starts an authorization webhook that allows everything, and returns its
// kubeconfig.
func newHook(t *testing.T, dir string, asked ...func()) string {
	t.Helper()
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		for _, note := range asked {
			note()
		}
		var review authorizationv1.SubjectAccessReview
		if err := json.NewDecoder(req.Body).Decode(&review); err != nil {
			t.Error(err)
		}
		review.Status.Allowed = true
		w.Header().Set("Content-Type", "application/json")
		if err := json.NewEncoder(w).Encode(review); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(server.Close)
	kubeconfig := api.NewConfig()
	kubeconfig.Clusters["hook"] = &api.Cluster{
		Server:                   server.URL,
		CertificateAuthorityData: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}),
	}
	kubeconfig.Contexts["hook"] = &api.Context{Cluster: "hook"}
	kubeconfig.CurrentContext = "hook"
	path := filepath.Join(dir, "hook.kubeconfig")
	if err := clientcmd.WriteToFile(*kubeconfig, path); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestConfigurationIsReloaded(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "authorization.yaml")
	write := func(config string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	withHook := configHead + fmt.Sprintf(configHook, "hook", newHook(t, dir), tenant.SpaceExtraKey, tenant.SpaceExtraKey)
	write(configHead)
	views := informers.NewSharedInformerFactory(fake.NewClientset(), 0)
	index, err := rbac.NewIndex(views, func(tenant.Name) labels.Set { return nil })
	if err != nil {
		t.Fatal(err)
	}
	options := kubeoptions.NewBuiltInAuthorizationOptions()
	options.AuthorizationConfigurationFile = file
	upstream, err := options.ToAuthorizationConfig(views)
	if err != nil {
		t.Fatal(err)
	}
	modes, err := NewModes(t.Context(), ModesConfig{Upstream: upstream, RBAC: rbac.NewAuthorizer(index), Views: views, ServerID: "test",
		TenantUID: func(context.Context, tenant.Name) (types.UID, error) { return "uid", nil }})
	if err != nil {
		t.Fatal(err)
	}
	allowed := func(space tenant.Name) bool {
		t.Helper()
		u := &user.DefaultInfo{Name: "jane", Extra: map[string][]string{tenant.UserExtraKey: {string(space)}}}
		ctx := tenant.WithRequest(request.WithUser(context.Background(), u), &tenant.Request{Authenticated: space})
		decision, _, err := modes.Authorize(ctx, authorizer.AttributesRecord{User: u, Verb: "get", Resource: "pods", ResourceRequest: true})
		if err != nil {
			t.Fatal(err)
		}
		return decision == authorizer.DecisionAllow
	}
	eventually := func(want bool) {
		t.Helper()
		until.True(t, "the configuration is reloaded", func() bool { return allowed("a") == want })
	}
	if allowed("a") {
		t.Fatal("allowed before there is a webhook")
	}
	write(withHook)
	eventually(true)
	if allowed("b") {
		t.Error("the webhook's condition on the space does not hold in b, and it was asked")
	}

	// What is not valid changes nothing; called by hand, for nothing tells when a
	// file has been refused.
	for _, config := range []string{"nonsense", withHook + "- {type: ABAC, name: abac}\n", "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthorizationConfiguration\nauthorizers: []\n"} {
		write(config)
		modes.reload(t.Context())
		if !allowed("a") {
			t.Errorf("no longer allowed after a reload of %q", config)
		}
	}
	write(configHead)
	eventually(false)
}
