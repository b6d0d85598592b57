package kubeconfig

import (
	"crypto/tls"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/tenantry/tenantry/internal/pki"
	"github.com/tenantry/tenantry/internal/tenant"
)

func TestNew(t *testing.T) {
	keys, err := pki.Ensure(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	data, err := New(keys, "https://127.0.0.1:6443", User{Tenant: "acme", Name: "alice", Groups: []string{"dev"}})
	if err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(data)
	if err != nil {
		t.Fatal(err)
	}
	if want := "https://127.0.0.1:6443/tenants/acme"; config.Host != want {
		t.Errorf("host %q, want %q", config.Host, want)
	}
	pair, err := tls.X509KeyPair(config.CertData, config.KeyData)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := pair.Leaf.Subject.String(), "CN=alice,OU=dev,O=tenant:acme"; got != want {
		t.Errorf("subject %q, want %q", got, want)
	}

	path := filepath.Join(t.TempDir(), "config")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	if server, err := Server(path); err != nil || server != config.Host {
		t.Errorf("Server = %q, %v", server, err)
	}
}

func TestSpaceURL(t *testing.T) {
	for _, tc := range []struct {
		server string
		tenant tenant.Name
		want   string
		err    string
	}{
		{"https://h:6443", "acme", "https://h:6443/tenants/acme", ""},
		{"https://h:6443/", "acme", "https://h:6443/tenants/acme", ""},
		{"https://h/base/", "acme", "https://h/base/tenants/acme", ""},
		{"https://[::1]:6443", tenant.System, "https://[::1]:6443", ""},
		{"https://h:6443/", tenant.System, "https://h:6443", ""},
		{"http://h:6443", "acme", "", "https://HOST:PORT"},
		{"h:6443", "acme", "", "https://HOST:PORT"},
		{"https://h:x", "acme", "", "invalid server URL"},
	} {
		got, err := spaceURL(tc.server, tc.tenant)
		if got != tc.want || (err == nil) != (tc.err == "") || err != nil && !strings.Contains(err.Error(), tc.err) {
			t.Errorf("spaceURL(%q, %q) = %q, %v; want %q, %q", tc.server, tc.tenant, got, err, tc.want, tc.err)
		}
	}
}

func TestServerUnknown(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config")
	if _, err := Server(path); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("got error %v", err)
	}
	if err := os.WriteFile(path, []byte("apiVersion: v1\nkind: Config\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := Server(path); err == nil {
		t.Errorf("got %q", got)
	}
}

// TestNewMounted reads a kubeconfig whose credentials lie beside it.
func TestNewMounted(t *testing.T) {
	data, err := NewMounted("https://one.example.com", "manager")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	path := filepath.Join(dir, "kubeconfig")
	for file, content := range map[string][]byte{path: data, filepath.Join(dir, AuthorityFile): nil, filepath.Join(dir, CertFile): nil, filepath.Join(dir, KeyFile): nil} {
		if err := os.WriteFile(file, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	config, err := clientcmd.BuildConfigFromFlags("", path)
	if err != nil {
		t.Fatal(err)
	}
	want := &rest.Config{Host: "https://one.example.com", TLSClientConfig: rest.TLSClientConfig{
		CAFile: filepath.Join(dir, AuthorityFile), CertFile: filepath.Join(dir, CertFile), KeyFile: filepath.Join(dir, KeyFile),
	}}
	if diff := cmp.Diff(want, config, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
