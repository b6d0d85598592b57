package admission

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kubernetes/pkg/apis/apps"
	"k8s.io/kubernetes/pkg/apis/core"
	"k8s.io/kubernetes/pkg/kubeapiserver/options"

	"github.com/tenantry/tenantry/internal/tenant"
)

// TestEveryPlugin enables what is off by default, save for plugins that change
// or refuse everything or cannot be without a configuration.
func TestEveryPlugin(t *testing.T) {
	enable := slices.DeleteFunc(slices.Clone(options.AllOrderedPlugins), func(name string) bool {
		return slices.Contains([]string{"AlwaysDeny", "EventRateLimit", "ImagePolicyWebhook"}, name)
	})
	s := newServer(t, serverConfig{objects: spaces(), enable: enable})
	for _, n := range []tenant.Name{tenant.System, "a"} {
		p := pod("team")
		if err := s.create(n, p); err != nil {
			t.Errorf("in space %q: %v", n, err)
		}
		if p.Spec.Containers[0].ImagePullPolicy != core.PullAlways {
			t.Errorf("in space %q: AlwaysPullImages did not run", n)
		}
	}
}

// TestAutoProvision checks that a namespace is made in the request's own space.
func TestAutoProvision(t *testing.T) {
	s := newServer(t, serverConfig{objects: spaces(), enable: []string{"NamespaceAutoProvision"}})
	if err := s.create("a", &core.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "new", Name: "c"}}); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{"a|new": true, "b|new": false, "new": false} {
		_, err := s.client.CoreV1().Namespaces().Get(t.Context(), name, metav1.GetOptions{})
		if got := !apierrors.IsNotFound(err); got != want {
			t.Errorf("namespace %q exists: %v, want %v", name, got, want)
		}
	}
}

func TestDisable(t *testing.T) {
	s := newServer(t, serverConfig{objects: spaces(), disable: []string{"SpacePolicy"}})
	if err := s.create("a", &apps.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "d"}}); err != nil {
		t.Error(err)
	}
}

// TestConfigurationFile checks that the file reaches plugins that serve spaces.
func TestConfigurationFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "admission.yaml")
	if err := os.WriteFile(file, []byte(`
apiVersion: apiserver.config.k8s.io/v1
kind: AdmissionConfiguration
plugins:
- name: PodSecurity
  configuration:
    apiVersion: pod-security.admission.config.k8s.io/v1
    kind: PodSecurityConfiguration
    defaults: {enforce: restricted}
    exemptions: {namespaces: [team]}
- name: ResourceQuota
  configuration:
    apiVersion: apiserver.config.k8s.io/v1
    kind: ResourceQuotaConfiguration
    limitedResources:
    - {resource: services, matchContains: [services]}
`), 0o600); err != nil {
		t.Fatal(err)
	}
	s := newServer(t, serverConfig{objects: spaces(), file: file})
	// An exemption by name means the system space's namespace: tenants choose
	// their names themselves.
	for n, refused := range map[tenant.Name]bool{tenant.System: false, "a": true} {
		if err := s.create(n, pod("team")); apierrors.IsForbidden(err) != refused {
			t.Errorf("pod in space %q: got error %v, want refused = %v", n, err, refused)
		}
		err := s.create(n, &core.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "s"}})
		if err == nil || !strings.Contains(err.Error(), "insufficient quota to consume: ") {
			t.Errorf("service in space %q: got error %v, want it refused without a quota", n, err)
		}
	}
}
