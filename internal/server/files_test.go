package server

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestFilesOfFlags checks that what is wrong with a file names its flag and the file.
func TestFilesOfFlags(t *testing.T) {
	dir := t.TempDir()
	empty, wrong, right, beside := filepath.Join(dir, "empty"), filepath.Join(dir, "wrong"), filepath.Join(dir, "right"), filepath.Join(dir, "ca.crt")
	for path, text := range map[string]string{
		empty: "apiVersion: v1\nkind: Config\n", wrong: "clusters: x",
		right:  "clusters: [{name: a, cluster: {server: 'https://hook', certificate-authority: ca.crt}}]\ncontexts: [{name: a, context: {cluster: a}}]\ncurrent-context: a\n",
		beside: "",
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, flag := range []string{
		"authentication-config", "authorization-config", "authorization-policy-file", "authorization-webhook-config-file",
		"token-auth-file", "authentication-token-webhook-config-file",
	} {
		cases := map[string]string{"/nope": "no such file", right: ""}
		if strings.Contains(flag, "webhook") {
			cases[empty], cases[wrong] = "it has no cluster", "cannot unmarshal"
		}
		for path, want := range cases {
			options := NewOptions()
			for _, set := range options.Flags().FlagSets {
				if set.Lookup(flag) != nil {
					if err := set.Set(flag, path); err != nil {
						t.Fatal(err)
					}
				}
			}
			switch err := checkFiles(options.Kube); {
			case want == "" && err != nil:
				t.Errorf("--%s=%s: %v", flag, path, err)
			case want != "" && (err == nil || !strings.HasPrefix(err.Error(), "--"+flag+": "+path+": ") || !strings.Contains(err.Error(), want)):
				t.Errorf("--%s=%s: %v, want %q", flag, path, err, want)
			}
		}
	}
}
