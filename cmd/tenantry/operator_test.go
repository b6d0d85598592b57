package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tenantry/tenantry/internal/operator"
)

// TestNamespacesOfOperator checks that an operator that is told no namespace works in its own,
// also by an empty flag, as OLM gives one.
func TestNamespacesOfOperator(t *testing.T) {
	host := filepath.Join(t.TempDir(), "host.kubeconfig")
	content := `{"apiVersion": "v1", "kind": "Config", "current-context": "c",
		"clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:1"}}],
		"contexts": [{"name": "c", "context": {"cluster": "c", "namespace": "own"}}]}`
	if err := os.WriteFile(host, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct{ args, want []string }{
		"none":      {nil, []string{"own"}},
		"empty":     {[]string{"--namespace="}, []string{"own"}},
		"one":       {[]string{"--namespace=a"}, []string{"a"}},
		"repeated":  {[]string{"--namespace=b", "--namespace=a"}, []string{"a", "b"}},
		"by commas": {[]string{"--namespace=b,a"}, []string{"a", "b"}},
	} {
		t.Run(name, func(t *testing.T) {
			options := operator.Options{Image: "x"}
			flags := newOperatorCommand().Flags()
			if err := flags.Parse(test.args); err != nil {
				t.Fatal(err)
			}
			var err error
			if options.Namespaces, err = flags.GetStringSlice("namespace"); err != nil {
				t.Fatal(err)
			}
			if _, err := completeOperator(&options, host, ""); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, options.Namespaces); diff != "" {
				t.Errorf("namespaces (-want +got):\n%s", diff)
			}
		})
	}
}
