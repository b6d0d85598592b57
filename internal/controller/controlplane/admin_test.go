package controlplane

import (
	"bytes"
	"testing"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"

	"github.com/tenantry/tenantry/api/v1alpha1"
	"github.com/tenantry/tenantry/internal/kubeconfig"
	"github.com/tenantry/tenantry/internal/pki"
	"github.com/tenantry/tenantry/internal/tenant"
)

func TestAdmin(t *testing.T) {
	authority := func() *pki.Authority {
		made, err := pki.NewAuthority("test")
		if err != nil {
			t.Fatal(err)
		}
		return made
	}
	w := &work{
		cp: &v1alpha1.ControlPlane{}, endpoint: "https://a.example.com:443",
		authorities: &authorities{server: authority(), system: authority()},
	}
	made, err := w.admin(nil)
	if err != nil {
		t.Fatal(err)
	}
	issued := func(keys *pki.PKI, server string, u kubeconfig.User) func(*testing.T) []byte {
		return func(t *testing.T) []byte {
			t.Helper()
			config, err := kubeconfig.New(keys, server, u)
			if err != nil {
				t.Fatal(err)
			}
			return config
		}
	}
	edited := func(edit func(*api.Config)) func(*testing.T) []byte {
		return func(t *testing.T) []byte {
			t.Helper()
			config, err := clientcmd.Load(made)
			if err != nil {
				t.Fatal(err)
			}
			edit(config)
			content, err := clientcmd.Write(*config)
			if err != nil {
				t.Fatal(err)
			}
			return content
		}
	}
	user := kubeconfig.User{Tenant: tenant.System, Name: adminUser, Groups: []string{adminGroup}, Validity: adminLeft + time.Hour}
	old := user
	old.Validity = adminLeft - time.Hour
	other := user
	other.Name = "jane"
	keys := &pki.PKI{ServerCA: w.authorities.server, ClientCA: w.authorities.system}
	for name, tc := range map[string]struct {
		current func(*testing.T) []byte
		kept    bool
	}{
		"as it was made":        {func(*testing.T) []byte { return made }, true},
		"with enough time":      {issued(keys, w.endpoint, user), true},
		"about to expire":       {issued(keys, w.endpoint, old), false},
		"of another user":       {issued(keys, w.endpoint, other), false},
		"of another server":     {issued(keys, "https://b.example.com:443", user), false},
		"of another authority":  {issued(&pki.PKI{ServerCA: authority(), ClientCA: keys.ClientCA}, w.endpoint, user), false},
		"of other system users": {issued(&pki.PKI{ServerCA: keys.ServerCA, ClientCA: authority()}, w.endpoint, user), false},
		"no kubeconfig":         {func(*testing.T) []byte { return []byte("spoilt") }, false},
		"with a second context": {edited(func(c *api.Config) { c.Contexts["x"] = api.NewContext() }), false},
		"with a second user":    {edited(func(c *api.Config) { c.AuthInfos["x"] = api.NewAuthInfo() }), false},
		"with a second cluster": {edited(func(c *api.Config) { c.Clusters["x"] = api.NewCluster() }), false},
		"by a proxy":            {edited(func(c *api.Config) { c.Clusters["system"].ProxyURL = "http://localhost" }), false},
		"by a command beside it": {edited(func(c *api.Config) {
			c.AuthInfos["admin@system"].Exec = &api.ExecConfig{Command: "x", APIVersion: "client.authentication.k8s.io/v1", InteractiveMode: api.NeverExecInteractiveMode}
		}), false},
		"with aliases":  {func(*testing.T) []byte { return append(bytes.Clone(made), "x: &a [1]\ny: [*a]\n"...) }, false},
		"written again": {edited(func(*api.Config) {}), true},
	} {
		t.Run(name, func(t *testing.T) {
			current := tc.current(t)
			got, err := w.admin(current)
			if err != nil {
				t.Fatal(err)
			}
			if kept := bytes.Equal(got, current); kept != tc.kept {
				t.Errorf("kept: %v, want %v", kept, tc.kept)
			}
			if again, err := w.admin(got); err != nil || !bytes.Equal(again, got) {
				t.Errorf("it is not good for itself: %v", err)
			}
		})
	}
}
