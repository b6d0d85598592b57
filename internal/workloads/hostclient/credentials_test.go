package hostclient

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestCredentials(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	file := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(file, []byte(`{"apiVersion": "v1", "kind": "Config", "clusters": [{"name": "c", "cluster": {"server": "https://192.0.2.1"}}],
		"contexts": [{"name": "c", "context": {"cluster": "c"}}], "current-context": "c"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		credentials Credentials
		host, fail  string
	}{
		"none":                {},
		"a file":              {credentials: Credentials{Kubeconfig: file}, host: "https://192.0.2.1"},
		"an empty file":       {credentials: Credentials{Kubeconfig: os.DevNull}, fail: "reading --host-kubeconfig /dev/null: it names no cluster"},
		"no file":             {credentials: Credentials{Kubeconfig: file + "x"}, fail: "reading --host-kubeconfig"},
		"of no pod":           {credentials: Credentials{InCluster: true}, fail: "--host-in-cluster is for a pod"},
		"a file, and a pod's": {credentials: Credentials{Kubeconfig: file, InCluster: true}, fail: "leave one of them out"},
	} {
		config, err := tc.credentials.Config()
		if (err != nil) != (tc.fail != "") || err != nil && !strings.Contains(err.Error(), tc.fail) {
			t.Errorf("%s: got %v", name, err)
		}
		if (config != nil) != (tc.host != "") || config != nil && config.Host != tc.host {
			t.Errorf("%s: got %v", name, config)
		}
		if tc.credentials.IsSet() != (name != "none") {
			t.Errorf("%s: it is set: %v", name, tc.credentials.IsSet())
		}
	}
}
